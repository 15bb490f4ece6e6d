import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { protocols } from '../../src/translation/protocols/registry.ts'
import { chat } from '../support/dialects/chat.ts'
import type { ClientReading, ClientRequest, DialectClient } from '../support/dialects/dialect.ts'
import { messages } from '../support/dialects/messages.ts'
import { responses } from '../support/dialects/responses.ts'
import {
  type FakeProviderServer,
  type Scenario,
  startFakeProviders,
} from '../support/fake-provider-server.ts'
import type { ReceivedRequest } from '../support/fake-providers/fake-provider.ts'
import { TOKENS } from '../support/fake-providers/fake-provider.ts'
import { fakeProviders } from '../support/fake-providers.ts'
import { type LocalServer, startLocalServer } from '../support/server.ts'

/*
 * Every client's dialect with every provider's protocol, in everything that both support: official
 * clients on one side, a server for the protocol on the other. A new dialect or protocol is in the
 * table as soon as it is listed.
 */

const DIALECTS: Record<string, DialectClient> = { chat, messages, responses }
const PROTOCOLS = Object.keys(protocols.text).filter(name => name !== 'sandbox')

/** Combinations that are impossible, and why. */
const HOLES: Record<string, string> = {
  'chat cohere-chat reasoning': 'Cohere signs no thoughts and takes none back',
  'messages cohere-chat reasoning': 'Cohere signs no thoughts and takes none back',
  'responses cohere-chat reasoning': 'Cohere signs no thoughts and takes none back',
}

const INPUT = '{"city":"Paris","id":12345678901234567890}'
const call = (id: string, name: string) => ({ id, name, input: INPUT })
const PNG =
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=='
const SCHEMA = {
  type: 'object',
  properties: { city: { type: 'string' } },
  required: ['city'],
  additionalProperties: false,
}
const ANSWER = '{"city":"Paris"}'
const THOUGHT = { text: 'Which city is it?', signature: 'c2lnbmVkIGJ5IHRoZSBwcm92aWRlcg==' }

const SCENES: Record<string, Scenario> = {
  text: () => ({ answer: { text: 'Hello there', finish: 'stop' } }),
  tool: () => ({ answer: { calls: [call('call_1', 'get_weather')], finish: 'tool_calls' } }),
  parallel: heard =>
    heard.results.length > 0
      ? { answer: { text: 'Sunny', finish: 'stop' } }
      : {
          answer: {
            text: 'Let me see.',
            calls: [call('call_1', 'get_weather'), call('call_2', 'get_time')],
            finish: 'tool_calls',
          },
        },
  schema: heard =>
    heard.tools.includes('json')
      ? { answer: { calls: [{ id: 'call_1', name: 'json', input: ANSWER }], finish: 'tool_calls' } }
      : { answer: { text: ANSWER, finish: 'stop' } },
  thinker: heard =>
    heard.results.length > 0
      ? { answer: { text: 'Sunny', finish: 'stop' } }
      : {
          answer: {
            thought: THOUGHT,
            calls: [call('call_1', 'get_weather')],
            finish: 'tool_calls',
          },
        },
  refusal: () => ({ answer: { finish: 'refusal' } }),
  length: () => ({ answer: { text: 'Hello th', finish: 'length' } }),
  busy: () => 'is overloaded',
  broken: () => ({ failsAfter: 'Hello th' }),
}

let server: LocalServer
let upstream: FakeProviderServer

/** One cell: a client that calls through the gateway, and what the provider received. */
interface Cell {
  ask(scene: string, asking?: Partial<ClientRequest>): Promise<ClientReading>
  heard(): ReceivedRequest
}

const read = (given: Partial<ClientReading>) => ({
  thought: '',
  calls: [],
  failure: null,
  tokens: TOKENS,
  ...given,
})
const TOOLS = ['get_weather', 'get_time']
const inputOf = (calls: { name: string; input: unknown }[]) =>
  calls.map(({ name, input }) => [name, input])
const heardInputs = ({ calls }: ReceivedRequest) =>
  calls.map(({ name, input }) => [name, JSON.parse(input)])

const CASES: Record<string, (cell: Cell) => Promise<void>> = {
  async text({ ask, heard }) {
    expect(await ask('text', { system: 'Be kind.' })).toMatchObject(
      read({ text: 'Hello there', finish: 'stop' }),
    )
    expect(heard()).toMatchObject({ system: 'Be kind.', lines: ['user: Hi'], tools: [] })
  },
  async tools({ ask, heard }) {
    const reading = await ask('tool', { tools: TOOLS, mustCall: 'get_weather' })
    expect(reading).toMatchObject({ text: '', finish: 'tool_calls', failure: null })
    expect(inputOf(reading.calls)).toEqual([['get_weather', JSON.parse(INPUT)]])
    expect(heard().choice).toBe('get_weather')
    expect(heard().tools).toContain('get_weather')
  },
  async 'parallel tools'({ ask, heard }) {
    const reading = await ask('parallel', { tools: TOOLS })
    expect(reading).toMatchObject({ text: 'Let me see.', finish: 'tool_calls' })
    expect(inputOf(reading.calls)).toEqual(TOOLS.map(name => [name, JSON.parse(INPUT)]))
    expect(new Set(reading.calls.map(({ id }) => id)).size).toBe(2)
    expect(heard().tools).toEqual(TOOLS)
  },
  async 'tool result round trip'({ ask, heard }) {
    const answer = await ask('parallel', { tools: TOOLS })
    const again = await ask('parallel', {
      tools: TOOLS,
      after: { answer, results: ['21 degrees', 'noon'] },
    })
    expect(again).toMatchObject(read({ text: 'Sunny', finish: 'stop' }))
    expect(heardInputs(heard())).toEqual(TOOLS.map(name => [name, JSON.parse(INPUT)]))
    expect(heard().results.map(({ text }) => text)).toEqual(['21 degrees', 'noon'])
    const ids = heard().calls.map(({ id, name }) => id || name)
    expect(heard().results.map(({ id }) => id)).toEqual(ids)
    expect(heard().lines).toEqual(['user: Hi', 'assistant: Let me see.'])
  },
  async 'images in'({ ask, heard }) {
    await ask('text', { text: 'What is it?', image: `data:image/png;base64,${PNG}` })
    expect(heard()).toMatchObject({ images: [PNG], lines: ['user: What is it?'] })
  },
  async 'images by URL'({ ask, heard }) {
    const url = upstream.getImageUrl(PNG)
    await ask('text', { text: 'What is it?', image: url })
    expect([PNG, url]).toContain(heard().images[0] ?? '')
  },
  async 'structured output'({ ask, heard }) {
    const reading = await ask('schema', { schema: SCHEMA })
    expect(reading).toMatchObject({ calls: [], finish: 'stop' })
    expect(JSON.parse(reading.text)).toEqual(JSON.parse(ANSWER))
    expect(heard().schema).toMatchObject({ properties: { city: {} }, required: ['city'] })
  },
  async reasoning({ ask, heard }) {
    const answer = await ask('thinker', { tools: TOOLS, thinks: true })
    expect(answer).toMatchObject({ thought: THOUGHT.text, finish: 'tool_calls' })
    const again = await ask('thinker', {
      tools: TOOLS,
      thinks: true,
      after: { answer, results: ['21 degrees'] },
    })
    expect(again).toMatchObject({ text: 'Sunny', finish: 'stop' })
    expect(heard().thoughts.map(({ signature }) => signature)).toEqual([THOUGHT.signature])
    expect(['', THOUGHT.text]).toContain(heard().thoughts[0]?.text ?? 'none')
  },
  async refusal({ ask }) {
    expect(await ask('refusal')).toMatchObject({ finish: 'refusal', calls: [], failure: null })
  },
  async length({ ask }) {
    expect(await ask('length')).toMatchObject(read({ text: 'Hello th', finish: 'length' }))
  },
  async 'an error before the answer'({ ask }) {
    const { failure } = await ask('busy')
    expect([502, 529]).toContain(failure?.status ?? 0)
    expect(['provider_unavailable', 'provider_overloaded']).toContain(failure?.type ?? '')
  },
}

/** What only a stream can do. */
const STREAMED_CASES: typeof CASES = {
  async 'an error within the answer'({ ask }) {
    expect(await ask('broken')).toMatchObject({
      text: 'Hello th',
      failure: { type: 'provider_unavailable' },
    })
  },
}

beforeAll(async () => {
  upstream = startFakeProviders(SCENES)
  server = await startLocalServer(configOf(upstream))
})

afterAll(async () => {
  await server?.[Symbol.asyncDispose]()
  await upstream?.close()
})

function configOf(voices: FakeProviderServer) {
  return {
    security: { allow_private_urls: [new URL(voices.getBaseUrl('x')).host] },
    providers: Object.fromEntries(
      PROTOCOLS.map(name => [
        name,
        { protocol: name, base_url: voices.getBaseUrl(name), api_key: 'mock' },
      ]),
    ),
    models: PROTOCOLS.flatMap(name => Object.keys(SCENES).map(scene => modelOf(name, scene))),
  }
}

const modelOf = (protocol: string, scene: string) => ({
  id: `${protocol}/${scene}`,
  endpoints: [
    { provider: protocol, model: scene, usd_per_million_tokens: { prompt: 1, completion: 2 } },
  ],
})

const cellOf = (dialect: DialectClient, protocol: string, stream: boolean): Cell => ({
  ask: (scene, asking = {}) =>
    dialect.ask(server.url, server.inference_key, {
      model: `${protocol}/${scene}`,
      stream,
      ...asking,
    }),
  heard: () => upstream.getLastRequest(protocol),
})

test('every protocol that answers with text has a mock here', () => {
  expect(Object.keys(fakeProviders)).toEqual(expect.arrayContaining(PROTOCOLS))
})

for (const [dialect, client] of Object.entries(DIALECTS))
  for (const protocol of PROTOCOLS)
    describe(`${dialect} over ${protocol}`, () => {
      for (const mode of ['whole', 'streamed'])
        for (const [name, play] of Object.entries(
          mode === 'streamed' ? { ...CASES, ...STREAMED_CASES } : CASES,
        )) {
          const hole = HOLES[`${dialect} ${protocol} ${name}`]
          test.skipIf(hole !== undefined)(`${name}, ${mode}${hole ? ` (${hole})` : ''}`, () =>
            play(cellOf(client, protocol, mode === 'streamed')),
          )
        }
    })
