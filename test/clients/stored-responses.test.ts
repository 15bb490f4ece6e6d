import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { createOpenAI } from '@ai-sdk/openai'
import { Agent, OpenAIProvider, Runner, tool } from '@openai/agents'
import { tool as aiTool, generateText, isStepCount, jsonSchema } from 'ai'
import OpenAI from 'openai'
import { z } from 'zod'
import {
  type FakeProviderServer,
  type Scenario,
  startFakeProviders,
} from '../support/fake-provider-server.ts'
import { type LocalServer, startLocalServer } from '../support/server.ts'

/*
 * Clients that go on from what is stored (`responses.store`), unmodified and with their defaults:
 * they send what is new, and name what was before.
 */

const PROTOCOLS = ['openai-chat', 'anthropic-messages', 'openai-responses']
const CITY = '{"city":"Paris"}'
const THOUGHT = { text: 'Which city is it?', signature: 'c2lnbmVkIGJ5IHRoZSBwcm92aWRlcg==' }
const CALL = { id: 'call_1', name: 'get_weather', input: CITY }

const SCENES: Record<string, Scenario> = {
  weather: heard =>
    heard.results.length > 0
      ? { answer: { text: 'Sunny', finish: 'stop' } }
      : { answer: { thought: THOUGHT, calls: [CALL], finish: 'tool_calls' } },
  hello: () => ({ answer: { text: 'Hello there', finish: 'stop' } }),
}

let upstream: FakeProviderServer
let server: LocalServer
let openai: OpenAI
beforeAll(async () => {
  upstream = startFakeProviders(SCENES)
  server = await startLocalServer({
    responses: { store: true },
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
  const baseURL = `${server.url}/api/v1`
  openai = new OpenAI({ baseURL, apiKey: server.inference_key, maxRetries: 0 })
})
afterAll(async () => {
  await server?.[Symbol.asyncDispose]()
  await upstream?.close()
})

describe.each(PROTOCOLS)('over %s', protocol => {
  test('the AI SDK finishes two steps, and names the items of the first', async () => {
    const baseURL = `${server.url}/api/v1`
    const sent: string[] = []
    const note = Object.assign(
      (url: RequestInfo | URL, init?: RequestInit) => {
        sent.push(String(init?.body))
        return fetch(url, init)
      },
      { preconnect: () => undefined },
    )
    const provider = createOpenAI({ baseURL, apiKey: server.inference_key, fetch: note })
    const result = await generateText({
      model: provider(`${protocol}/weather`),
      prompt: 'Weather in Paris?',
      stopWhen: isStepCount(3),
      tools: {
        get_weather: aiTool({
          inputSchema: jsonSchema<{ city: string }>({
            type: 'object',
            properties: { city: { type: 'string' } },
            required: ['city'],
            additionalProperties: false,
          }),
          execute: ({ city }) => `Sunny in ${city}`,
        }),
      },
    })
    expect(result.text).toBe('Sunny')
    expect(result.steps).toHaveLength(2)
    expect(sent).toHaveLength(2)
    expect(sent[1]).toContain('item_reference')
    expect(upstream.getLastRequest(protocol).results).toMatchObject([{ text: 'Sunny in Paris' }])
  })

  test.each([false, true])('agents go on from the last response, streamed: %p', async stream => {
    const runner = new Runner({
      modelProvider: new OpenAIProvider({ openAIClient: openai, useResponses: true }),
      tracingDisabled: true,
    })
    const weather = tool({
      name: 'get_weather',
      description: 'The weather of a city',
      parameters: z.object({ city: z.string() }),
      execute: ({ city }) => `Sunny in ${city}`,
    })
    const agent = new Agent({
      name: 'Forecaster',
      model: `${protocol}/weather`,
      tools: [weather],
      modelSettings: { store: true },
    })
    const first = stream
      ? await runner.run(agent, 'Weather in Paris?', { stream: true })
      : await runner.run(agent, 'Weather in Paris?')
    if ('completed' in first) await first.completed
    expect(first.finalOutput).toBe('Sunny')
    const previousResponseId = first.lastResponseId as string
    const second = await runner.run(agent, 'And now?', { previousResponseId })
    expect(second.finalOutput).toBe('Sunny')
    const { data } = await openai.responses.inputItems.list(second.lastResponseId as string)
    expect(data).toMatchObject([{ type: 'message', content: [{ text: 'And now?' }] }])
  })

  test('the client polls, cancels and deletes', async () => {
    const model = `${protocol}/hello`
    const begun = await openai.responses.create({ model, input: 'Hi', background: true })
    expect(begun).toMatchObject({ status: 'queued', background: true, output: [] })
    let found = begun
    while (found.status === 'queued' || found.status === 'in_progress')
      found = await openai.responses.retrieve(begun.id)
    expect(found).toMatchObject({ status: 'completed', output_text: 'Hello there' })
    expect(await openai.responses.cancel(begun.id)).toMatchObject({ status: 'completed' })
    const next = await openai.responses.create({
      model,
      input: 'Again',
      previous_response_id: begun.id,
      stream: true,
    })
    const events = await Array.fromAsync(next)
    expect(events.at(-1)).toMatchObject({
      type: 'response.completed',
      response: { previous_response_id: begun.id, store: true },
    })
    await openai.responses.delete(begun.id)
    const gone = async () => openai.responses.retrieve(begun.id)
    await expect(gone()).rejects.toMatchObject({ status: 404 })
  })

  test('the client streams in the background, leaves, and streams on', async () => {
    const body = {
      model: `${protocol}/hello`,
      input: 'Hi',
      background: true,
      stream: true,
    } as const
    const begun = await openai.responses.create(body)
    let cursor = -1
    let id = ''
    for await (const event of begun) {
      if (event.type === 'response.created') id = event.response.id
      cursor = event.sequence_number
      if (event.type === 'response.in_progress') break
    }
    const rest = openai.responses.stream({ response_id: id, starting_after: cursor })
    expect((await Array.fromAsync(rest)).map(event => event.sequence_number)[0]).toBe(cursor + 1)
    expect(await rest.finalResponse()).toMatchObject({ id, output_text: 'Hello there' })
  })
})
