import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { createAmazonBedrock } from '@ai-sdk/amazon-bedrock'
import { createAzure } from '@ai-sdk/azure'
import { createGoogle } from '@ai-sdk/google'
import { createOpenAI } from '@ai-sdk/openai'
import { createOpenRouter } from '@openrouter/ai-sdk-provider'
import { PROVIDERS } from '../../src/resources/providers.data.ts'
import { createOracle } from '../support/oracles.ts'
import { LONG } from '../support/random.ts'
import { type Model, type Reading, readAnswer } from '../support/reading.ts'
import {
  buildModels,
  hasRecordings,
  listRecordings,
  type Mode,
  type Recording,
  TEXT_PROTOCOLS,
} from '../support/recordings.ts'
import { type Replay, startReplay } from '../support/replay.ts'
import { type LocalServer, startLocalServer } from '../support/server.ts'

/*
 * A provider's own client and a client of each dialect read the same from an answer: text,
 * reasoning, tool calls, finish reason and usage. All ask the same plain question, without tools
 * or response format. The answer is read as it is: a tool that a client would add to get JSON is an
 * ordinary tool here.
 *
 * Not compared, because the chat format cannot express them: calls that the provider ran
 * itself (`providerExecuted`) and their results. Not compared, because this test is not about them:
 * sources, files, ids of messages, signatures.
 */

/** The compared fields of a reading, flattened so that an exception can name them. */
type Comparable = Partial<ReturnType<typeof flat>>
type Aspect = keyof Comparable

const EVERYTHING: Aspect[] = [
  ...(['text', 'reasoning', 'calls', 'ids', 'finish', 'failure'] as const),
  ...(['input', 'output', 'cached', 'reasoned'] as const),
]

type Exceptions = Record<string, { mode?: Mode; without: Aspect[]; why: string }>

const UNCOUNTED: Exceptions = {
  'openai__programmatic-tool-calling.2': {
    without: ['input', 'output'],
    why: 'A count of nothing at all is estimated',
  },
}

const CALLS_OF_OPENAI: Exceptions = {
  'openai__openai-local-shell-tool.1': {
    mode: 'whole',
    without: ['calls'],
    why: 'The client has other names for the arguments in a whole answer than in a streamed one',
  },
  'openai__openai-shell-container.1': {
    without: ['calls'],
    why: 'Unless it has asked for a container, the client takes one for its own',
  },
}

const ENDS_OF_OPENAI: Exceptions = Object.fromEntries(
  ['openai-client-tool-search.1', 'openai-local-shell-tool.1', 'openai-shell-tool.1'].map(name => [
    `openai__${name}`,
    {
      without: ['finish'],
      why: 'With calls an answer ends in them; for OpenAI’s client in those of functions only',
    },
  ]),
)

/** The accepted differences: the provider's client is wrong, or the format cannot express it. */
const EXCEPTIONS: Record<string, Exceptions[]> = {
  chat: [UNCOUNTED, CALLS_OF_OPENAI],
  responses: [
    UNCOUNTED,
    {
      'xai__xai-file-search-tool.1': {
        mode: 'whole',
        without: EVERYTHING,
        why: 'OpenAI’s client refuses results without attributes, and those of xAI have none',
      },
      'xai__xai-x-search-tool.1': {
        mode: 'whole',
        without: EVERYTHING,
        why: 'OpenAI’s client refuses items of types that it does not know, such as xAI’s searches',
      },
    },
  ],
  gemini: [UNCOUNTED, CALLS_OF_OPENAI, ENDS_OF_OPENAI],
  converse: [
    UNCOUNTED,
    CALLS_OF_OPENAI,
    ENDS_OF_OPENAI,
    {
      'openai__openai-image-generation-tool.1': {
        without: ['text'],
        why: 'The picture is cut in the recording: what is none is shown in words',
      },
      'xai__xai-image-generation-tool.1': {
        mode: 'streamed',
        without: ['failure'],
        why: 'This client refuses a picture in a stream, which Converse and AWS’s own client have',
      },
    },
  ],
  azure: [UNCOUNTED, CALLS_OF_OPENAI],
  completions: [
    UNCOUNTED,
    {
      'openai__openai-image-generation-tool.1': {
        mode: 'streamed',
        without: ['text'],
        why: 'A picture stands in a completion’s text, and beside it elsewhere',
      },
    },
  ],
}

/** What the form of a dialect, or its own client, has no place for. */
const UNSAID: Record<string, { without: Aspect[]; why: string }> = {
  converse: { without: ['reasoned'], why: 'Converse counts reasoning among all that is said' },
  azure: { without: ['reasoning'], why: 'OpenAI’s client reads no reasoning of chat completions' },
  completions: {
    without: ['reasoning', 'calls', 'cached', 'reasoned'],
    why: 'A completion is a text, and its client reads no details of the counts',
  },
}

/** The fields that a package's client never reads, although its provider sends them. */
const UNREAD: Record<string, { without: Aspect[]; why: string }> = {
  cohere: { without: ['cached'], why: 'The client has no place for cached_tokens' },
  google: {
    without: ['ids'],
    why: 'The provider gives calls no ids, so each client makes up its own',
  },
}

const played = listRecordings(...TEXT_PROTOCOLS)

let replay: Replay
let server: LocalServer
let doors: Record<string, (id: string) => Model>

beforeAll(async () => {
  if (played.length === 0) return
  replay = startReplay({ pieces: 1000 })
  server = await startLocalServer({
    providers: providersOf(played),
    models: buildModels(played, modelOf),
  })
  const apiKey = server.inference_key
  const address = { baseURL: server.base, apiKey }
  const openrouter = createOpenRouter({ ...address, compatibility: 'strict' })
  const openai = createOpenAI(address)
  const azure = createAzure({
    ...{ baseURL: `${server.url}/openai`, apiKey },
    ...{ useDeploymentBasedUrls: true, apiVersion: '2024-10-21' },
  })
  doors = {
    chat: id => openrouter.chat(id) as Model,
    responses: id => openai.responses(id) as Model,
    gemini: createGoogle({ baseURL: `${server.url}/v1beta`, apiKey }),
    converse: createAmazonBedrock({ baseURL: server.url, apiKey, region: 'us-east-1' }),
    azure: azure.chat,
    completions: azure.completion,
  }
})

afterAll(async () => {
  for (const line of report()) process.stdout.write(`${line}\n`)
  await server?.[Symbol.asyncDispose]()
  await replay?.close()
})

const named = (recording: Recording) => [recording.name, recording.mode, recording] as const

/**
 * Whether the normal run reads a recording through a door: each through two of the six, by turns, and
 * through all that read it otherwise than its provider's client does.
 */
const isRead = (door: string, recording: Recording): boolean =>
  LONG ||
  exceptionsOf(door, recording).length > 0 ||
  (played.indexOf(recording) + Object.keys(EXCEPTIONS).indexOf(door)) % 3 === 0

for (const door of Object.keys(EXCEPTIONS))
  for (const protocol of TEXT_PROTOCOLS) {
    describe(`${protocol} recordings through ${door}`, () => {
      if (!hasRecordings)
        test.skip(`${protocol} recordings are not on this machine (GATEWAY_SHARED)`, () => {})
      else
        test.each(played.filter(one => one.protocol === protocol && isRead(door, one)).map(named))(
          '%s, %s, read the same as with the provider’s own client',
          (_name, _mode, recording) => agree(door, recording),
        )
    })
  }

test.skipIf(!hasRecordings)('every exception is for an existing recording', () => {
  const names = new Set(played.flatMap(one => [one.name, one.package]))
  const excepted = Object.values(EXCEPTIONS).flat().flatMap(Object.keys)
  expect([...excepted, ...Object.keys(UNREAD)].filter(name => !names.has(name))).toEqual([])
})

async function agree(door: string, recording: Recording): Promise<void> {
  const own = await readOwn(recording)
  const model = doors[door]
  if (!model) throw new Error(`There is no client of ${door}`)
  const ours = await readAnswer(model(idOf(recording)), recording.mode)
  const [expected, given] = compared(door, recording, own, ours)
  count(door, recording, Bun.deepEquals(given, expected))
  expect(given).toEqual(expected)
}

const own = new Map<Recording, Promise<Reading>>()

/** Reads a recording with the provider's own client: once for all dialects. */
function readOwn(recording: Recording): Promise<Reading> {
  const known = own.get(recording)
  if (known) return known
  const model = createOracle(recording, replay.base(recording.protocol))
  const read = readAnswer(model, recording.mode)
  own.set(recording, read)
  return read
}

/** Returns the comparable fields of both readings. */
function compared(
  door: string,
  recording: Recording,
  own: Reading,
  ours: Reading,
): [Comparable, Comparable] {
  const joint =
    JOINTS.find(between => own.reasoning.join(between) === ours.reasoning.join('')) ?? ''
  const sides: [Comparable, Comparable] = [flat(own, joint), flat(ours, '')]
  for (const aspect of leftOut(door, recording, own)) for (const side of sides) delete side[aspect]
  return sides
}

/** The separators between reasoning blocks, which the chat format joins into one text. */
const JOINTS = ['', '\n', '\n\n']

const flat = ({ text, reasoning, calls, finish, tokens, failure }: Reading, joint: string) => ({
  text,
  reasoning: reasoning.join(joint),
  calls: calls.map(({ name, input }) => ({ name, input })),
  ids: calls.map(({ id }) => id),
  finish,
  input: tokens?.input ?? null,
  output: tokens?.output ?? null,
  cached: tokens?.cached ?? null,
  reasoned: tokens?.reasoning ?? null,
  failure,
})

/** Finds the exceptions for this recording in its mode. */
const exceptionsOf = (door: string, { name, mode }: Recording) =>
  (EXCEPTIONS[door] ?? [])
    .flatMap(table => table[name] ?? [])
    .filter(exception => (exception.mode ?? mode) === mode)

const COUNTS: Aspect[] = ['input', 'output', 'cached', 'reasoned']

// If the provider has not counted, the gateway estimates.
const leftOut = (door: string, recording: Recording, own: Reading): Aspect[] => [
  ...withIds(exceptionsOf(door, recording).flatMap(({ without }) => without)),
  ...withIds(UNSAID[door]?.without ?? []),
  ...(UNREAD[recording.package]?.without ?? []),
  ...(own.tokens === null ? COUNTS : []),
]

const withIds = (aspects: Aspect[]): Aspect[] =>
  aspects.includes('calls') ? [...aspects, 'ids'] : aspects

const idOf = ({ protocol, name }: Recording) => `${protocol}/${name}`

const modelOf = (recording: Recording) => ({
  id: idOf(recording),
  context_length: 1_000_000,
  endpoints: [
    {
      provider: providerOf(recording),
      model: recording.name,
      usd_per_million_tokens: { prompt: 1, completion: 1 },
    },
  ],
})

/** The gateway's slug for the provider of a package. */
const ROWS: Record<string, string> = { 'amazon-bedrock': 'bedrock' }

/** Returns the built-in provider of this protocol, with its quirks, or one of the test's own. */
function providerOf({ protocol, package: from }: Recording): string {
  const row = ROWS[from] ?? from
  return PROVIDERS_BY_NAME[row]?.protocol === protocol ? row : `${from}-${protocol}`
}

const PROVIDERS_BY_NAME: Record<string, { protocol: string }> = PROVIDERS

const providersOf = (recordings: Recording[]) =>
  Object.fromEntries(
    recordings.map(one => [
      providerOf(one),
      { protocol: one.protocol, base_url: replay.base(one.protocol), api_key: 'mock' },
    ]),
  )

const counts = new Map<string, { agreed: number; inPart: number; asked: number }>()

function count(door: string, recording: Recording, agrees: boolean): void {
  const protocol = `${recording.protocol} through ${door}`
  const { agreed, inPart, asked } = counts.get(protocol) ?? { agreed: 0, inPart: 0, asked: 0 }
  const excepted = exceptionsOf(door, recording).length > 0
  counts.set(protocol, {
    agreed: agreed + Number(agrees),
    inPart: inPart + Number(agrees && excepted),
    asked: asked + 1,
  })
}

const report = () =>
  [...counts].map(
    ([protocol, { agreed, inPart, asked }]) =>
      `recordings: ${protocol}: ${agreed} of ${asked} agree` +
      (inPart > 0 ? `, ${inPart} of them except for a named exception` : ''),
  )
