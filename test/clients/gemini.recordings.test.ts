import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { type Content, GoogleGenAI, type Part } from '@google/genai'
import {
  buildModels,
  hasRecordings,
  listRecordings,
  type Recording,
} from '../support/recordings.ts'
import { type Replay, startReplay } from '../support/replay.ts'
import { type Server, startServer } from '../support/server.ts'
import { json, startUpstream, type Upstream } from '../support/upstream.ts'

/*
 * A conversation of Google's own client goes on at Google as if there were no gateway: its model
 * gets back what it has said, each signature at its part.
 */

const recordings = listRecordings('gemini')

let replay: Replay
let scripted: Upstream
let server: Server
let google: GoogleGenAI

beforeAll(async () => {
  if (!hasRecordings) return
  replay = startReplay({ pieces: 1000 })
  scripted = await startUpstream()
  const provide = (base_url: string) => ({ protocol: 'gemini', base_url, api_key: 'mock' })
  server = await startServer({
    config: {
      providers: { first: provide(replay.base('gemini')), second: provide(scripted.url) },
      models: [
        ...buildModels(recordings, ({ name }) => ({
          id: `google/${name}`,
          endpoints: [{ provider: 'first', model: name }],
        })),
        { id: 'google/next', endpoints: [{ provider: 'second', model: 'gemini-3' }] },
      ],
    },
  })
  google = new GoogleGenAI({
    apiKey: server.inference_key,
    httpOptions: { baseUrl: server.url, retryOptions: { attempts: 1 } },
  })
})

afterAll(async () => {
  await server?.[Symbol.asyncDispose]()
  await replay?.close()
  await scripted?.close()
})

async function ask({ name, mode }: Recording): Promise<Content[]> {
  const chat = google.chats.create({ model: `google/${name}` })
  if (mode === 'whole') await chat.sendMessage({ message: 'Hi' })
  else await Array.fromAsync(await chat.sendMessageStream({ message: 'Hi' }))
  return chat.getHistory(true)
}

describe.skipIf(!hasRecordings)('Google through its door (recordings from GATEWAY_SHARED)', () => {
  test.each(recordings.map(one => [one.name, one.mode, one] as const))(
    '%s, %s, is sent back to it',
    async (_name, _mode, recording) => {
      const history = await ask(recording)
      scripted.plan(json(ANSWER))
      await google.models.generateContent({
        model: 'google/next',
        contents: [...history, { role: 'user', parts: [{ text: 'And then?' }] }],
      })
      const sent = scripted.hits.at(-1)?.json as { contents: Content[] } | undefined
      const parts = sent?.contents[1]?.parts ?? []
      const said = recording.lines.flatMap(
        line => JSON.parse(line).candidates[0].content?.parts ?? [],
      )
      const expected = assemble(said)
      expect(parts).toMatchObject(expected)
      expect(parts.map(readSignature)).toEqual(expected.map(readSignature))
    },
  )
})

const readSignature = ({ thoughtSignature }: Part) => thoughtSignature ?? null

const ANSWER = { candidates: [{ content: { parts: [{ text: 'Hi' }] }, finishReason: 'STOP' }] }

/**
 * What a model is to get back of its parts. A signature without words is of the part before it, and
 * what comes after the name of a call are pieces of its arguments.
 */
function assemble(said: Part[]): Part[] {
  const parts: Part[] = []
  for (const { text, functionCall, thoughtSignature } of said) {
    const last = parts.at(-1)
    const { name, args } = functionCall ?? {}
    const signed = thoughtSignature ? { thoughtSignature } : {}
    if (name) parts.push({ functionCall: { name, ...(args ? { args } : {}) }, ...signed })
    else if (text) parts.push({ text, ...signed })
    else if (last && thoughtSignature) last.thoughtSignature = thoughtSignature
  }
  return parts
}
