import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import { Agent, hostedMcpTool, OpenAIProvider, Runner } from '@openai/agents'
import { OpenRouter } from '@openrouter/sdk'
import type { OpenResponsesResult, ResponsesRequest } from '@openrouter/sdk/models'
import OpenAI from 'openai'
import {
  type FakeProviderServer,
  type Scenario,
  startFakeProviders,
} from '../support/fake-provider-server.ts'
import { startMcpServer, type TestMcpServer, textResult } from '../support/mcp-server.ts'
import { type LocalServer, startLocalServer } from '../support/server.ts'
import { hasWirecheck, startWirecheck, type Wirecheck } from '../support/wirecheck.ts'

/*
 * The official clients use MCP servers through the gateway, in the form of OpenAI's API, over
 * providers that know nothing of it: unmodified and watched.
 */

const scenario: Scenario = heard =>
  heard.results.length > 0
    ? { answer: { text: 'It is gone.', finish: 'stop' } }
    : {
        answer: {
          text: 'Let me see. ',
          calls: [{ id: 'call_1', name: 'files__delete', input: '{"path":"a.txt"}' }],
          finish: 'tool_calls',
        },
      }

// The public schema has a closed list of provider names, so these use some of them.
const PROVIDERS = {
  together: { name: 'Together', protocol: 'openai-chat' },
  groq: { name: 'Groq', protocol: 'anthropic-messages' },
  mistral: { name: 'Mistral', protocol: 'gemini' },
  fireworks: { name: 'Fireworks', protocol: 'openai-responses' },
}
const MODELS = Object.entries(PROVIDERS).map(
  ([name, { protocol }]) => [`acme/${name}`, protocol] as const,
)

let files: TestMcpServer
let deleted: number
let upstream: FakeProviderServer
let server: LocalServer
let wirecheck: Wirecheck | undefined
let openai: OpenAI
let runner: Runner
let openrouter: OpenRouter

beforeAll(async () => {
  files = startMcpServer({
    tools: [
      {
        name: 'delete',
        description: 'Deletes a file',
        inputSchema: { type: 'object', properties: { path: { type: 'string' } } },
        run: ({ path }) => {
          deleted += 1
          return textResult(`Deleted ${path}`)
        },
      },
    ],
  })
  upstream = startFakeProviders({ loop: scenario })
  const providers = Object.entries(PROVIDERS).map(([id, { name, protocol }]) => [
    id,
    { name, protocol, base_url: upstream.getBaseUrl(protocol), api_key: 'mock' },
  ])
  server = await startLocalServer({
    security: { allow_private_urls: [new URL(files.url).host] },
    providers: Object.fromEntries(providers),
    models: Object.keys(PROVIDERS).map(provider => ({
      id: `acme/${provider}`,
      context_length: 100_000,
      endpoints: [
        { provider, model: 'loop', usd_per_million_tokens: { prompt: 1, completion: 2 } },
      ],
    })),
  })
  wirecheck = hasWirecheck ? await startWirecheck(server.url) : undefined
  const base = `${wirecheck?.url ?? server.url}/api/v1`
  openai = new OpenAI({ baseURL: base, apiKey: server.inference_key, maxRetries: 0 })
  const modelProvider = new OpenAIProvider({ openAIClient: openai, useResponses: true })
  runner = new Runner({ modelProvider, tracingDisabled: true })
  openrouter = new OpenRouter({ serverURL: base, apiKey: server.inference_key })
})
afterAll(async () => {
  await wirecheck?.close()
  await server?.[Symbol.asyncDispose]()
  await upstream?.close()
  await files?.close()
})
beforeEach(() => {
  deleted = 0
})

const TOKEN = 'token-of-the-client-0123456789'
const buildTool = (require_approval: 'always' | 'never') => ({
  type: 'mcp' as const,
  server_label: 'files',
  server_url: files.url,
  authorization: TOKEN,
  require_approval,
})
const TEXT = 'Let me see. It is gone.'
const USES = ['mcp_list_tools', 'message', 'mcp_call', 'message']

describe.each(MODELS)('%s', (model, protocol) => {
  const heardResult = () => upstream.getLastRequest(protocol).results[0]?.text

  test('OpenAI’s client reads lists and calls, whole and streamed', async () => {
    const body = { model, input: 'Delete it', tools: [buildTool('never')] }
    const whole = await openai.responses.create(body)
    expect(whole.output.map(({ type }) => type)).toEqual(USES as never)
    expect(whole.output[2]).toMatchObject({
      ...{ type: 'mcp_call', server_label: 'files', name: 'delete', status: 'completed' },
      ...{ arguments: '{"path":"a.txt"}', output: 'Deleted a.txt', error: null },
    })
    expect(whole.output_text).toBe(TEXT)
    const types = new Set<string>()
    const stream = openai.responses.stream(body)
    for await (const { type } of stream) types.add(type)
    const streamed = await stream.finalResponse()
    expect(streamed.output.map(({ type }) => type)).toEqual(USES as never)
    expect([...types]).toEqual(
      expect.arrayContaining([
        ...['response.mcp_list_tools.in_progress', 'response.mcp_list_tools.completed'],
        ...['response.mcp_call.in_progress', 'response.mcp_call.completed'],
        ...['response.mcp_call_arguments.delta', 'response.mcp_call_arguments.done'],
      ]),
    )
    expect(deleted).toBe(2)
    expect(JSON.stringify([whole, streamed])).not.toContain(TOKEN)
  })

  test.each([true, false])('OpenAI’s client approves: %p', async isApproved => {
    const tools = [buildTool('always')]
    const input: OpenAI.Responses.ResponseInput = [{ role: 'user', content: 'Delete it' }]
    const asked = await openai.responses.create({ model, input, tools })
    const request = asked.output.at(-1)
    if (request?.type !== 'mcp_approval_request') throw new Error('Nothing was asked')
    expect([request.name, request.arguments, deleted]).toEqual(['delete', '{"path":"a.txt"}', 0])
    input.push(...(asked.output as OpenAI.Responses.ResponseInput))
    input.push({
      type: 'mcp_approval_response',
      approval_request_id: request.id,
      approve: isApproved,
    })
    const final = await openai.responses.stream({ model, input, tools }).finalResponse()
    expect(final.output.map(({ type }) => String(type))).toEqual(
      isApproved ? ['mcp_call', 'message'] : ['message'],
    )
    expect(final.output_text).toBe('It is gone.')
    expect(deleted).toBe(isApproved ? 1 : 0)
    expect(heardResult()).toContain(isApproved ? 'Deleted a.txt' : 'did not approve')
  })

  const buildAgent = (tool: ReturnType<typeof hostedMcpTool>) =>
    new Agent({ name: 'Clerk', instructions: 'Delete files', model, tools: [tool] })
  const HOSTED = () => ({ serverLabel: 'files', serverUrl: files.url, authorization: TOKEN })

  test.each([false, true])('an agent uses a hosted server; streamed %p', async stream => {
    const agent = buildAgent(hostedMcpTool({ ...HOSTED(), requireApproval: 'never' }))
    if (stream) {
      const result = await runner.run(agent, 'Delete it', { stream: true })
      await result.completed
      expect(result.finalOutput).toBe('It is gone.')
    } else expect((await runner.run(agent, 'Delete it')).finalOutput).toBe('It is gone.')
    expect(deleted).toBe(1)
    expect(heardResult()).toContain('Deleted a.txt')
  })

  test.each([true, false])('an agent is asked by a callback, which says %p', async isApproved => {
    const agent = buildAgent(
      hostedMcpTool({
        ...HOSTED(),
        requireApproval: 'always',
        onApproval: async () =>
          isApproved ? { approve: true } : { approve: false, reason: 'Too dangerous' },
      }),
    )
    const result = await runner.run(agent, 'Delete it')
    expect(result.finalOutput).toBe('It is gone.')
    expect(deleted).toBe(isApproved ? 1 : 0)
    expect(heardResult()).toContain(isApproved ? 'Deleted a.txt' : 'Too dangerous')
    // The conversation goes on, and nothing runs again.
    const next = await runner.run(agent, [...result.history, { role: 'user', content: 'And?' }])
    expect(next.finalOutput).toBe('It is gone.')
    expect(deleted).toBe(isApproved ? 1 : 0)
  })

  test.each([false, true])('an agent waits for its user; streamed %p', async stream => {
    const agent = buildAgent(hostedMcpTool({ ...HOSTED(), requireApproval: 'always' }))
    const run = async (input: Parameters<typeof runner.run>[1]) => {
      if (!stream) return runner.run(agent, input as string)
      const result = await runner.run(agent, input as string, { stream: true })
      await result.completed
      return result
    }
    const first = await run('Delete it')
    const [interruption] = first.interruptions
    if (!interruption) throw new Error('Nobody was asked')
    expect(deleted).toBe(0)
    first.state.approve(interruption)
    const second = await run(first.state as never)
    expect([second.finalOutput, deleted]).toEqual(['It is gone.', 1])
  })

  test('OpenRouter’s client reads them, and sends them back', async () => {
    const send = async (fields: object) =>
      (await openrouter.beta.responses.send({
        responsesRequest: { model, stream: false, ...fields } as unknown as ResponsesRequest,
      })) as unknown as OpenResponsesResult
    const tools = [
      {
        ...{ type: 'mcp', serverLabel: 'files', serverUrl: files.url, requireApproval: 'always' },
        authorization: TOKEN,
      },
    ]
    const user = { role: 'user', content: 'Delete it' }
    const { output = [] } = await send({ input: [user], tools })
    const items = output as unknown as Record<string, unknown>[]
    expect(items.map(({ type, raw }) => type ?? raw)).toHaveLength(3)
    const request = JSON.parse(JSON.stringify(items.at(-1)))
    const id = request.id ?? request.raw?.id
    expect(id).toStartWith('mcpr_')
    const sent = {
      ...{ type: 'mcp_approval_request', id, serverLabel: 'files', name: 'delete' },
      arguments: '{"path":"a.txt"}',
    }
    const answer = { type: 'mcp_approval_response', approvalRequestId: id, approve: true }
    const second = await send({ input: [user, sent, answer], tools })
    expect(JSON.stringify(second.output)).toContain('It is gone.')
    expect(deleted).toBe(1)
  })
})

test.skipIf(!hasWirecheck)('all answers are what the public schema says', async () => {
  const report = await wirecheck?.report()
  expect(report?.violations).toEqual([])
  expect(report?.seen['createResponses 200']).toBeGreaterThan(50)
})
