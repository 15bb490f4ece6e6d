import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { type Json, readObject, readObjects } from '../../src/base/json.ts'
import { AwsEventStreamScanner } from '../../src/network/part-stream.ts'
import {
  buildModels,
  hasRecordings,
  listRecordings,
  type Recording,
} from '../support/recordings.ts'
import { type Replay, startReplay } from '../support/replay.ts'
import { type LocalServer, startLocalServer } from '../support/server.ts'

/*
 * A client of Bedrock gets the answers of its models through the gateway unchanged: those of
 * Converse by `converse`, those of Anthropic’s own API by `invoke` as `/messages` has them.
 */

const converse = listRecordings('bedrock-converse')
const anthropic = listRecordings('anthropic-messages')

let replay: Replay
let server: LocalServer

beforeAll(async () => {
  if (!hasRecordings) return
  replay = startReplay({ pieces: 1000 })
  const provide = (protocol: string) => ({
    ...{ protocol, base_url: replay.base(protocol), api_key: 'mock', fetches_urls: true },
  })
  server = await startLocalServer({
    providers: {
      converse: provide('bedrock-converse'),
      claude: provide('anthropic-messages'),
    },
    models: [
      ...buildModels(converse, ({ name }) => ({
        id: `converse/${name}`,
        endpoints: [{ provider: 'converse', model: name }],
      })),
      ...buildModels(anthropic, ({ name }) => ({
        id: `claude/${name}`,
        endpoints: [{ provider: 'claude', model: name }],
      })),
    ],
  })
})

afterAll(async () => {
  await server?.[Symbol.asyncDispose]()
  await replay?.close()
})

async function post(path: string, body: Json): Promise<Buffer> {
  const response = await fetch(server.url + path, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${server.inference_key}`,
      'content-type': 'application/json',
    },
    body: JSON.stringify(body),
  })
  expect(response.status).toBe(200)
  return Buffer.from(await response.arrayBuffer())
}

/** The frames of a stream, each as an event by its name. */
function openFrames(bytes: Buffer): [event: string, data: Json][] {
  const scanner = new AwsEventStreamScanner()
  return [...scanner.feed(bytes), ...scanner.end()].map(({ event, data }) => [
    event ?? '',
    JSON.parse(data),
  ])
}

/** What a client reads from the events of `converse-stream`. */
function assemble(events: [event: string, data: Json][]) {
  const content: Json[] = []
  const rest: Json = {}
  for (const [event, data] of events) {
    const at = Number(data.contentBlockIndex)
    if (event === 'contentBlockStart') content[at] = { ...readObject(data, 'start') }
    if (event === 'contentBlockDelta') content[at] = gain(content[at] ?? {}, data.delta as Json)
    if (event === 'messageStop') rest.stopReason = data.stopReason
    if (event === 'metadata') rest.usage = data.usage
  }
  return { content: content.filter(Boolean), ...rest } as Reading
}

function gain(block: Json, delta: Json): Json {
  const merged: Json = { ...block }
  for (const [name, more] of Object.entries(delta))
    merged[name] =
      typeof more === 'string'
        ? `${block[name] ?? ''}${more}`
        : gain(readObject(block, name), more as Json)
  return merged
}

interface Reading {
  content: Json[]
  stopReason: unknown
  usage: Json
}

function readWhole({ output, stopReason, usage }: Json): Reading {
  const content = readObjects(readObject(readObject({ output }, 'output'), 'message').content)
  return { content, stopReason, usage: readObject({ usage }, 'usage') }
}

/** What is compared. A recording may lack the counts, and have fields that Converse has not. */
const show = ({ content, stopReason, usage }: Reading, isCounted: boolean) => {
  const { inputTokens, outputTokens, cacheReadInputTokens, cacheWriteInputTokens } = usage ?? {}
  const counts = [inputTokens, outputTokens, cacheReadInputTokens || 0, cacheWriteInputTokens || 0]
  const blocks = content.map(({ type: _, ...block }) => nameNothing(block))
  return { blocks, stopReason, counts: isCounted ? counts : null }
}

/** No arguments may be no text, or an empty object. */
function nameNothing(block: Json): Json {
  const { input, ...toolUse } = readObject(block, 'toolUse')
  return input === '' ? { toolUse: { ...toolUse, input: '{}' } } : block
}

/** The ids and times of two calls differ. */
const withoutIds = (value: unknown): unknown =>
  JSON.parse(JSON.stringify(value), (name, inner) =>
    ['id', 'created', 'cost'].includes(name) && typeof inner !== 'object' ? null : inner,
  )

const named = (recordings: Recording[]) => recordings.map(one => [one.name, one.mode, one] as const)

describe.skipIf(!hasRecordings)('Bedrock’s doors (recordings from GATEWAY_SHARED)', () => {
  test.each(named(converse))('%s, %s, loses nothing', async (name, mode, { lines }) => {
    const action = mode === 'whole' ? 'converse' : 'converse-stream'
    const bytes = await post(`/model/converse%2F${name}/${action}`, {
      messages: [{ role: 'user', content: [{ text: 'Hi' }] }],
    })
    const given =
      mode === 'whole' ? readWhole(JSON.parse(bytes.toString())) : assemble(openFrames(bytes))
    const said =
      mode === 'whole'
        ? readWhole(JSON.parse(lines.join('')))
        : assemble(lines.flatMap(line => Object.entries<Json>(JSON.parse(line))))
    const isCounted = said.usage !== undefined
    expect(show(given, isCounted)).toEqual(show(said, isCounted))
  })

  test.each(named(anthropic))('%s, %s, is what /messages has', async (name, mode) => {
    const stream = mode === 'streamed'
    const body = { max_tokens: 100, messages: [{ role: 'user', content: 'Hi' }] }
    const response = await server.fetch('/messages', {
      json: { ...body, model: `claude/${name}`, stream },
    })
    const expected = await response.text()
    const action = stream ? 'invoke-with-response-stream' : 'invoke'
    const bytes = await post(`/model/claude%2F${name}/${action}`, body)
    if (!stream)
      return expect(withoutIds(JSON.parse(bytes.toString()))).toEqual(
        withoutIds(JSON.parse(expected)),
      )
    const events = openFrames(bytes).map(([, { bytes: chunk }]) =>
      JSON.parse(Buffer.from(String(chunk), 'base64').toString()),
    )
    const said = expected.split('\n').filter(line => line.startsWith('data: '))
    expect(withoutIds(events)).toEqual(withoutIds(said.map(line => JSON.parse(line.slice(6)))))
  })
})
