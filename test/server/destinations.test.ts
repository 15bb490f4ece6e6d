import { afterEach, describe, expect, test } from 'bun:test'
import { datetime } from '../../src/extensions/tools/datetime.ts'
import { createDestination, updateDestination } from '../../src/observability/destinations.ts'
import { getOperator } from '../../src/resources/actor.ts'
import { createKey } from '../../src/resources/keys.ts'
import { updateWorkspace } from '../../src/resources/workspaces.ts'
import { getApp } from '../support/app.ts'
import {
  type BroadcastHouse,
  listIds,
  listSpans,
  openBroadcastHouse,
  readAttributes,
  watchDeliveries,
} from '../support/broadcast.ts'
import { startMcpServer, textResult } from '../support/mcp-server.ts'
import { openLoopStage } from '../support/tool-loop.ts'

let house: BroadcastHouse
afterEach(() => house.close())

const open = async (...args: Parameters<typeof openBroadcastHouse>) => {
  house = await openBroadcastHouse(...args)
  return house
}

/** Delivers what waits, and returns the spans of the only request. */
async function deliver(count: number) {
  const { waitForCalls } = watchDeliveries(house.gateway)
  await house.gateway.deliveries.start()
  await waitForCalls(count)
  return house.receiver.requests.flatMap(({ body }) => listSpans(body))
}

test('a tool that an MCP host uses is told, with its arguments, its result and its price', async () => {
  const server = startMcpServer({ tools: [{ name: 'add', run: () => textResult('forty-two') }] })
  try {
    const mcp_servers = { files: { url: server.url, usd_per_call: 0.25 } }
    const { gateway, keys, addWebhook } = await open({ config: { mcp_servers } })
    await addWebhook()
    const params = { name: 'add', arguments: { a: 'canary-argument' } }
    const headers = {
      ...{ authorization: `Bearer ${keys.inference}`, 'content-type': 'application/json' },
    }
    const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params })
    const request = new Request('http://localhost/mcp/files', { method: 'POST', headers, body })
    expect((await getApp(gateway).handle(request)).status).toBe(200)
    const [root, tool] = await deliver(1)
    if (!root) throw new Error('A span is missing')
    const told = readAttributes(root)
    expect([told['gen_ai.request.model'], told['gen_ai.usage.total_cost'], tool?.name]).toEqual([
      ...['mcp/files', 0.25],
      'execute_tool mcp',
    ])
    expect([told['trace.input'], told['trace.output']]).toEqual([
      expect.stringContaining('canary-argument'),
      expect.stringContaining('forty-two'),
    ])
  } finally {
    await server.close()
  }
})

const CANARY = { messages: [{ role: 'user', content: 'canary-question' }] }

describe('a call', () => {
  test('is told with its tree, its content, and what the client says about it', async () => {
    const { call, addWebhook } = await open()
    await addWebhook()
    const trace = {
      trace_id: '0af7651916cd43dd8448eb211c80319c',
      parent_span_id: 'b7ad6b7169203331',
      trace_name: 'Support',
      span_name: 'answer',
      generation_name: 'draft',
      team: 'blue',
    }
    const messages = [
      { role: 'system', content: 'Be brief' },
      {
        role: 'user',
        content: [
          { type: 'text', text: 'What is this?' },
          { type: 'image_url', image_url: { url: 'data:image/png;base64,iVBORw0KGgo=' } },
        ],
      },
    ]
    const [id = ''] = await call(1, { messages, trace, user: 'u'.repeat(200), session_id: 's-1' })
    const [root, span, attempt, generation, ...rest] = await deliver(1)
    expect(rest).toEqual([])
    if (!root || !span || !attempt || !generation) throw new Error('A span is missing')
    expect([root, span, attempt, generation].map(({ name }) => name)).toEqual([
      'Support',
      'answer',
      'provider attempt 1: Sandbox',
      'draft',
    ])
    expect(new Set([root, span, attempt, generation].map(({ traceId }) => traceId))).toEqual(
      new Set([trace.trace_id]),
    )
    expect(root.parentSpanId).toBe(trace.parent_span_id)
    expect([span.parentSpanId, attempt.parentSpanId, generation.parentSpanId]).toEqual([
      root.spanId,
      span.spanId,
      span.spanId,
    ])
    const attributes = readAttributes(root)
    expect(attributes).toMatchObject({
      'trace.name': 'Support',
      'trace.metadata.team': 'blue',
      'user.id': 'u'.repeat(128),
      'session.id': 's-1',
      'gen_ai.response.id': id,
      'gen_ai.request.model': 'sandbox/echo',
      'gen_ai.response.finish_reason': 'stop',
      'trace.metadata.openrouter.api_key_name': 'inference',
      'trace.metadata.openrouter.provider_slug': 'sandbox',
    })
    expect(JSON.parse(String(attributes['gen_ai.prompt']))).toEqual({
      messages: [
        { role: 'system', content: 'Be brief' },
        {
          role: 'user',
          content: [
            { type: 'text', text: 'What is this?' },
            { type: 'text', text: '[image]' },
          ],
        },
      ],
    })
    expect(JSON.parse(String(attributes['gen_ai.completion']))).toMatchObject({
      reasoning: null,
      completion: expect.stringContaining('What is this?'),
      rawRequest: {
        ...{ model: 'sandbox/echo', stream: false, trace: { team: 'blue' } },
        ...{ user: 'u'.repeat(128), session_id: 's-1' },
      },
    })
    expect(house.receiver.requests[0]?.body).not.toContain('iVBORw0KGgo')
  })

  test('that streams is told with all that was streamed', async () => {
    const { addWebhook, gateway, keys } = await open()
    await addWebhook()
    const response = await getApp(gateway).handle(
      new Request('http://localhost/api/v1/chat/completions', {
        method: 'POST',
        headers: { authorization: `Bearer ${keys.inference}` },
        body: JSON.stringify({
          model: 'sandbox/echo',
          stream: true,
          messages: [{ role: 'user', content: 'one two three' }],
        }),
      }),
    )
    await response.text()
    const [root] = await deliver(1)
    const attributes = root ? readAttributes(root) : {}
    expect(JSON.parse(String(attributes['gen_ai.completion']))).toMatchObject({
      completion: 'one two three',
    })
  })

  test('whose client leaves is told as failed, with what was delivered', async () => {
    const { addWebhook, gateway, keys } = await open()
    await addWebhook()
    const client = new AbortController()
    const response = await getApp(gateway).handle(
      new Request('http://localhost/api/v1/chat/completions', {
        method: 'POST',
        signal: client.signal,
        headers: { authorization: `Bearer ${keys.inference}` },
        body: JSON.stringify({
          model: 'sandbox/echo',
          stream: true,
          messages: [{ role: 'user', content: 'one two three' }],
        }),
      }),
    )
    const reader = response.body?.getReader()
    await reader?.read()
    client.abort()
    await reader?.cancel()
    const [root] = await deliver(1)
    expect(root?.status).toMatchObject({ code: 2, message: 'The client closed the request' })
    expect(readAttributes(root as never)).not.toHaveProperty('gen_ai.response.finish_reason')
  })

  test('that fails is told with its error and its attempts', async () => {
    const { addWebhook, api } = await open({
      config: {
        providers: {
          gone: { protocol: 'openai-chat', base_url: 'http://127.0.0.1:9/v1', api_key: 'k' },
        },
        models: [
          { id: 'acme/gone', context_length: 1_000, endpoints: [{ provider: 'gone', model: 'm' }] },
        ],
      },
    })
    await addWebhook()
    const { status } = await api('POST', '/chat/completions', {
      body: { model: 'acme/gone', ...CANARY },
    })
    expect(status).toBe(502)
    const [root, attempt] = await deliver(1)
    expect([root?.status.code, attempt?.status.code]).toEqual([2, 2])
    expect(attempt?.name).toBe('provider attempt 1: gone')
    expect(readAttributes(root as never)['gen_ai.prompt']).toContain('canary-question')
  })

  test.each(['embeddings', 'images', 'rerank'])('to /%s is told, without its media', async path => {
    const { addWebhook, api } = await open()
    await addWebhook()
    const bodies: Record<string, object> = {
      embeddings: { model: 'sandbox/embed', input: ['canary-input', 'two'] },
      images: { model: 'sandbox/image', prompt: 'canary-input' },
      rerank: { model: 'sandbox/embed', query: 'canary-input', documents: ['a', 'b'] },
    }
    const { status } = await api('POST', `/${path}`, { body: bodies[path] })
    expect(status).toBe(200)
    const [root] = await deliver(1)
    const attributes = readAttributes(root as never)
    expect(attributes['gen_ai.prompt']).toContain('canary-input')
    expect(JSON.parse(String(attributes['gen_ai.completion'])).completion).toBeNull()
  })
})

describe('D-08 what is told', () => {
  const GROUPS = ['cost', 'identity', 'request_context'] as const
  const NAMES = { cost: 'usage', identity: 'workspace_slug', request_context: 'api_type' }

  test.each(Array.from({ length: 16 }, (_, i) => i))(
    'depends on privacy and groups: %d',
    async bits => {
      const { call, addWebhook } = await open()
      const on = GROUPS.map((_, i) => (bits & (1 << i)) !== 0)
      const privacy_mode = bits >= 8
      await addWebhook({
        privacy_mode,
        broadcast_generation_cost: on[0] === true,
        broadcast_generation_identity: on[1] === true,
        broadcast_generation_request_context: on[2] === true,
      })
      await call(1, { ...CANARY, trace: { team: 'blue' }, user: 'ada' })
      const [root] = await deliver(1)
      const attributes = readAttributes(root as never)
      GROUPS.forEach((group, i) => {
        const key = `openrouter_generation.${NAMES[group]}`
        expect(`trace.metadata.${key}` in attributes).toBe(on[i] === true)
        expect(`span.metadata.${key}` in attributes).toBe(on[i] === true)
      })
      expect(house.receiver.requests[0]?.body.includes('canary')).toBe(!privacy_mode)
      expect(attributes).toMatchObject({
        'trace.metadata.team': 'blue',
        'user.id': 'ada',
        'gen_ai.usage.input_tokens': expect.any(Number),
      })
    },
  )

  test('of its user is told up to 128 characters, wherever it is told', async () => {
    const { call, addWebhook } = await open()
    await addWebhook({ broadcast_generation_identity: true })
    await call(1, { user: 'u'.repeat(129), session_id: 's'.repeat(256) })
    const [root] = await deliver(1)
    expect(readAttributes(root as never)).toMatchObject({
      'trace.metadata.openrouter_generation.external_user': 'u'.repeat(128),
      'trace.metadata.openrouter_generation.session_id': 's'.repeat(256),
      'user.id': 'u'.repeat(128),
    })
    expect(house.receiver.requests[0]?.body).not.toContain('u'.repeat(129))
  })

  test('of private calls is not kept either: nothing is gathered, and nothing is sealed', async () => {
    const { call, addWebhook, gateway } = await open()
    await addWebhook({ privacy_mode: true })
    await call(1, CANARY)
    const [row] = await gateway.store.outbox.listPending(1)
    expect(row?.payload).toStartWith('{')
    expect(row?.payload).not.toContain('canary')
  })

  test('of a call that nobody may keep has none of its words', async () => {
    const { call, addWebhook } = await open()
    await addWebhook()
    await call(1, { ...CANARY, provider: { zdr: true } })
    const [root] = await deliver(1)
    expect(readAttributes(root as never)).toMatchObject({
      'gen_ai.usage.input_tokens': expect.any(Number),
    })
    expect(house.receiver.requests[0]?.body).not.toContain('canary')
  })

  test('with content is sealed as long as it waits', async () => {
    const { call, addWebhook, gateway } = await open()
    await addWebhook()
    await call(1, CANARY)
    const [row] = await gateway.store.outbox.listPending(1)
    expect(row?.payload).toMatch(/^[\w-]+$/)
    expect(Buffer.from(row?.payload ?? '', 'base64url').includes('canary')).toBe(false)
  })
})

describe('D-09 who is told', () => {
  test('is nobody where the workspace does not broadcast', async () => {
    const { call, addWebhook, gateway, operator, workspace_id } = await open()
    await addWebhook()
    const off = { is_observability_broadcast_enabled: false }
    await updateWorkspace(gateway, operator, workspace_id, off)
    await call(2)
    expect(await gateway.store.outbox.listPending(9)).toEqual([])
  })

  test('depends on the key, the region, the sample and the rules', async () => {
    const { call, addWebhook, gateway, operator, keys, receiver } = await open()
    const other = await createKey(gateway, operator, { name: 'other' })
    const at = (path: string) => ({ config: { url: `${receiver.url}/${path}` } })
    await addWebhook({ ...at('key'), api_key_hashes: [keys.hash] })
    await addWebhook({ ...at('europe'), regions: ['eu'] })
    await addWebhook({ ...at('none'), enabled: false })
    await addWebhook({
      ...at('rules'),
      privacy_mode: true,
      filter_rules: {
        groups: [{ rules: [{ field: 'input', operator: 'contains', value: 'Call 1' }] }],
      },
    })
    const ids = await call(2)
    const [foreign = ''] = await call(1, {}, other.key)
    await gateway.deliveries.start()
    const { waitForCalls } = watchDeliveries(gateway)
    await waitForCalls(3)
    await gateway.deliveries.rest()
    const told = (path: string) =>
      receiver.requests.filter(one => one.path === `/${path}`).flatMap(({ body }) => listIds(body))
    expect(told('key')).toEqual(ids)
    expect(told('rules')).toEqual([ids[1] ?? ''])
    expect([told('europe'), told('none')]).toEqual([[], []])
    expect(receiver.requests.some(({ body }) => body.includes(foreign))).toBe(false)
    const counts = await gateway.store.deliveries.count()
    expect(counts.map(({ skipped, delivered }) => [skipped, delivered])).toContainEqual([2, 1])
  })

  test('is decided for a whole session', async () => {
    const { call, addWebhook, gateway } = await open()
    await addWebhook({ sampling_rate: 0.5 })
    for (let session = 0; session < 8; session++) await call(3, { session_id: `s-${session}` })
    const rows = await gateway.store.outbox.listPending(100)
    expect(rows.length % 3).toBe(0)
    expect(rows.length).toBeGreaterThan(0)
    expect(rows.length).toBeLessThan(24)
  })

  test('follows a key filter that comes later: what waits is not sent', async () => {
    const { call, addWebhook, gateway, operator } = await open()
    const { id } = await addWebhook()
    await call(1)
    const other = await createKey(gateway, operator, { name: 'other' })
    await updateDestination(gateway, operator, id, { api_key_hashes: [other.data.hash] })
    await gateway.deliveries.start()
    await gateway.deliveries.rest()
    expect(house.receiver.requests).toEqual([])
    expect(await house.countAll()).toMatchObject({ skipped: 1, waiting: 0 })
  })
})

test('a loop is told with a span for each turn of the model and each use of a tool', async () => {
  const { receiver } = await open()
  const stage = await openLoopStage(
    heard =>
      heard.results.length === 0
        ? { answer: { calls: [{ id: 'c1', name: 'datetime', input: '{}' }], finish: 'tool_calls' } }
        : { answer: { text: 'It is late.', finish: 'stop' } },
    {
      tools: [datetime],
      config: { security: { allow_private_urls: [receiver.host] } },
      parts: { deliveryPace: { linger: 0 } },
    } as never,
  )
  const { gateway } = stage
  const operator = getOperator(gateway)
  await updateWorkspace(gateway, operator, gateway.memory.owner.workspace_id, {
    is_observability_broadcast_enabled: true,
  })
  await createDestination(gateway, operator, {
    type: 'webhook',
    name: 'hook',
    config: { url: `${receiver.url}/` },
  })
  const { status } = await stage.ask('chat', { tools: [{ type: 'gateway:datetime' }] })
  expect(status).toBe(200)
  const { waitForCalls } = watchDeliveries(gateway)
  await gateway.deliveries.start()
  await waitForCalls(1)
  const spans = listSpans(receiver.requests[0]?.body ?? '')
  expect(spans.map(({ name }) => name.replace(/: .*/, ''))).toEqual([
    'LLM Generation',
    'step 1',
    'provider attempt 1',
    'generation',
    'execute_tool gateway:datetime',
    'step 3',
    'provider attempt 2',
    'generation',
  ])
  expect(new Set(spans.map(({ spanId }) => spanId)).size).toBe(spans.length)
  await stage.close()
})
