import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import { LLMock } from '@copilotkit/aimock'
import { askDoor, DOORS } from '../support/doors.ts'
import { type LocalServer, startLocalServer } from '../support/server.ts'

/*
 * The loop over an independent mock of four providers' APIs, which refuses what they refuse: the
 * gateway sends it a turn's calls and the results in each protocol's own form.
 */

let mock: LLMock
let server: LocalServer

/** The providers that the mock speaks for, with the paths of their APIs. */
const PATHS = {
  'openai-chat': '/v1',
  'anthropic-messages': '/v1',
  'openai-responses': '/v1',
  gemini: '/v1beta',
}
const PROTOCOLS = Object.keys(PATHS)

beforeAll(async () => {
  mock = new LLMock({ port: 0, strict: true })
  await mock.start()
  const providers = Object.entries(PATHS).map(([protocol, path]) => [
    protocol,
    { protocol, base_url: mock.url + path, api_key: 'mock' },
  ])
  server = await startLocalServer({
    providers: Object.fromEntries(providers),
    models: PROTOCOLS.map(provider => ({
      id: `acme/${provider}`,
      context_length: 100_000,
      endpoints: [
        { provider, model: 'loop', usd_per_million_tokens: { prompt: 1, completion: 2 } },
      ],
    })),
  })
})
afterAll(async () => {
  await server[Symbol.asyncDispose]()
  await mock.stop()
})

type Message = { role: string; content: unknown }

const ZONES = ['Asia/Tokyo', 'Europe/Berlin']
const toCalls = (name: string, inputs: object[]) =>
  inputs.map((input, i) => ({ id: `call_${i}`, name, arguments: JSON.stringify(input) }))

beforeEach(() => {
  mock.clearFixtures().clearRequests()
  mock.on(
    { hasToolResult: false },
    {
      toolCalls: toCalls(
        'datetime',
        ZONES.map(timezone => ({ timezone })),
      ),
    },
  )
  mock.on({ hasToolResult: true }, { content: 'It is noon.' })
})

const CASES = PROTOCOLS.flatMap(protocol =>
  DOORS.flatMap(door => [false, true].map(stream => [protocol, door, stream] as const)),
)

describe('a loop over a third party’s mock', () => {
  test.each(CASES)('%s at %s, streamed %p', async (protocol, door, stream) => {
    const { gateway } = server
    const { status, text } = await askDoor(gateway, server.inference_key, door, {
      ...{ model: `acme/${protocol}`, stream, text: 'What time is it?' },
      more: { tools: [{ type: 'gateway:datetime' }] },
    })
    expect([status, text]).toEqual([200, 'It is noon.'])
    const [first, second, ...more] = mock.getRequests()
    expect([first?.response.status, second?.response.status, more]).toEqual([200, 200, []])
    // The mock reads every protocol into one form: so both results arrived in that of this one.
    const { messages = [] } = (second?.body ?? {}) as { messages?: Message[] }
    const results = messages.filter(({ role }) => role === 'tool').map(one => String(one.content))
    expect(results).toHaveLength(ZONES.length)
    for (const [i, zone] of ZONES.entries()) expect(results[i]).toContain(zone)
    await gateway.recorder.flush()
    const [generation] = await gateway.store.generations.list({}, 1)
    expect(generation?.steps.map(({ type }) => type)).toEqual(['model', 'tool', 'tool', 'model'])
  })
})
