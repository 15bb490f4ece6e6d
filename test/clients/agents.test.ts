import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { Agent, handoff, OpenAIProvider, Runner, tool } from '@openai/agents'
import OpenAI from 'openai'
import { zodTextFormat } from 'openai/helpers/zod'
import { z } from 'zod'
import { protocols } from '../../src/translation/protocols/registry.ts'
import {
  type FakeProviderServer,
  type Scenario,
  startFakeProviders,
} from '../support/fake-provider-server.ts'
import { type LocalServer, startLocalServer } from '../support/server.ts'
import { hasWirecheck, startWirecheck, type Wirecheck } from '../support/wirecheck.ts'

/*
 * OpenAI's agents, and its client with schemas of zod, over every protocol of a provider. Both are
 * used with their defaults, and watched: each answer is what the public schema says.
 */

const PROTOCOLS = Object.keys(protocols.text).filter(name => name !== 'sandbox')
const CITY = '{"city":"Paris"}'
const THOUGHTS = [
  { text: 'Who knows the weather?', signature: 'c2lnbmVkIGJ5IHRoZSBwcm92aWRlcg==' },
  { text: 'I need both', signature: 'c2lnbmVkIGFnYWluIGJ5IHRoZSBvbmU=' },
]
const HANDOFF = { id: 'call_0', name: 'transfer_to_Forecaster', input: '{}' }
const CALLS = [
  { id: 'call_1', name: 'get_weather', input: CITY },
  { id: 'call_2', name: 'get_time', input: CITY },
]

/** Hands over, calls both tools at once, and answers. */
const trip: Scenario = ({ results, tools }) => {
  if (results.some(({ text }) => text.includes('noon')))
    return { answer: { text: CITY, finish: 'stop' } }
  if (tools.includes(HANDOFF.name)) return { answer: { calls: [HANDOFF], finish: 'tool_calls' } }
  return { answer: { calls: CALLS, finish: 'tool_calls' } }
}

const SCENES: Record<string, Scenario> = {
  trip,
  // Cohere signs no thoughts.
  'thoughtful-trip': heard => {
    const outcome = trip(heard)
    if (typeof outcome === 'string' || !('answer' in outcome)) return outcome
    const { answer } = outcome
    const thought = THOUGHTS[heard.results.length]
    return { answer: answer.calls && thought ? { ...answer, thought } : answer }
  },
  place: heard =>
    heard.tools.includes('json')
      ? { answer: { calls: [{ id: 'call_1', name: 'json', input: CITY }], finish: 'tool_calls' } }
      : { answer: { text: CITY, finish: 'stop' } },
}

let upstream: FakeProviderServer
let server: LocalServer
let wirecheck: Wirecheck | undefined
let openai: OpenAI
let runner: Runner

beforeAll(async () => {
  upstream = startFakeProviders(SCENES)
  server = await startLocalServer({
    providers: Object.fromEntries(
      PROTOCOLS.map(name => [
        name,
        { protocol: name, base_url: upstream.getBaseUrl(name), api_key: 'mock' },
      ]),
    ),
    models: PROTOCOLS.flatMap(provider =>
      Object.keys(SCENES).map(model => ({
        id: `${provider}/${model}`,
        endpoints: [{ provider, model, usd_per_million_tokens: { prompt: 1, completion: 2 } }],
      })),
    ),
  })
  wirecheck = hasWirecheck ? await startWirecheck(server.url) : undefined
  const baseURL = `${wirecheck?.url ?? server.url}/api/v1`
  openai = new OpenAI({ baseURL, apiKey: server.inference_key, maxRetries: 0 })
  const modelProvider = new OpenAIProvider({ openAIClient: openai, useResponses: true })
  runner = new Runner({ modelProvider, tracingDisabled: true })
})

afterAll(async () => {
  await wirecheck?.close()
  await server?.[Symbol.asyncDispose]()
  await upstream?.close()
})

const Place = z.object({ city: z.string() })

/** Builds an agent that hands over to another, which has two tools. */
function buildAgents(model: string): Agent {
  const get_weather = tool({
    name: 'get_weather',
    description: 'The weather of a city',
    parameters: Place,
    execute: async ({ city }) => `21 degrees in ${city}`,
  })
  const get_time = tool({
    name: 'get_time',
    description: 'The time in a city',
    parameters: Place,
    execute: async ({ city }) => `noon in ${city}`,
  })
  const forecaster = new Agent({
    name: 'Forecaster',
    instructions: 'Tell the weather',
    model,
    tools: [get_weather, get_time],
  })
  return new Agent({
    name: 'Desk',
    instructions: 'Find who knows',
    model,
    handoffs: [handoff(forecaster)],
  })
}

const tripOf = (protocol: string) =>
  `${protocol}/${protocol === 'cohere-chat' ? 'trip' : 'thoughtful-trip'}`

/** What the provider heard last: every call, both results, and all that the model thought. */
function expectWholeTrip(protocol: string): void {
  const { calls, results, thoughts, system } = upstream.getLastRequest(protocol)
  expect(calls.map(({ name }) => name)).toEqual([HANDOFF.name, 'get_weather', 'get_time'])
  expect(results.map(({ text }) => text).slice(1)).toEqual(['21 degrees in Paris', 'noon in Paris'])
  const signatures = protocol === 'cohere-chat' ? [] : THOUGHTS.map(({ signature }) => signature)
  expect(thoughts.map(({ signature }) => signature)).toEqual(signatures)
  expect(system).toBe('Tell the weather')
}

describe.each(PROTOCOLS)('over %s, an agent with two tools and a handoff', protocol => {
  test('runs to its end', async () => {
    const result = await runner.run(buildAgents(tripOf(protocol)), 'Weather and time in Paris?')
    expect(result.finalOutput).toBe(CITY)
    expect(result.lastAgent?.name).toBe('Forecaster')
    expectWholeTrip(protocol)
  })

  test('runs to its end, streamed', async () => {
    const agents = buildAgents(tripOf(protocol))
    const result = await runner.run(agents, 'Weather and time in Paris?', { stream: true })
    let text = ''
    for await (const event of result)
      if (event.type === 'raw_model_stream_event' && event.data.type === 'output_text_delta')
        text += event.data.delta
    expect(text).toBe(CITY)
    expect(result.finalOutput).toBe(CITY)
    expectWholeTrip(protocol)
  })

  test('answers with an object', async () => {
    const agent = new Agent({
      name: 'Guide',
      instructions: 'Name a city',
      model: `${protocol}/place`,
      outputType: Place,
    })
    const result = await runner.run(agent, 'Where?')
    expect<unknown>(result.finalOutput).toEqual({ city: 'Paris' })
  })
})

describe.each(PROTOCOLS)('over %s, a schema of zod', protocol => {
  const body = {
    model: `${protocol}/place`,
    input: 'Where?',
    text: { format: zodTextFormat(Place, 'place') },
  }

  test('parses a whole answer', async () => {
    const { output_parsed } = await openai.responses.parse(body)
    expect(output_parsed).toEqual({ city: 'Paris' })
  })

  test('parses a stream', async () => {
    const { output_parsed } = await openai.responses.stream(body).finalResponse()
    expect(output_parsed).toEqual({ city: 'Paris' })
  })
})

test.skipIf(!hasWirecheck)('all answers are what the public schema says', async () => {
  const report = await wirecheck?.report()
  expect(report?.violations).toEqual([])
  expect(report?.seen['createResponses 200']).toBeGreaterThan(50)
})
