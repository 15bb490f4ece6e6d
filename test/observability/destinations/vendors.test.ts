import { describe, expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { judgeAnswer, passesTest } from '../../../src/observability/destinations/judge.ts'
import type { DestinationType } from '../../../src/observability/destinations/kind.ts'
import { findKind } from '../../../src/observability/destinations/registry.ts'
import { COLUMNS } from '../../../src/observability/destinations/rows.ts'
import type { Trace } from '../../../src/observability/destinations/trace.ts'
import { SAMPLES, WORLD } from '../../support/destination-samples.ts'
import { describeOtlp, listDescribedSpans } from '../../support/protobuf.ts'
import { PRIVATE_TRACE, TRACE } from '../../support/trace-samples.ts'

const render = (type: DestinationType, traces: Trace[] = [TRACE], config: object = {}) =>
  findKind(type).render(WORLD, { ...SAMPLES[type].least, ...config } as never, traces)

const renderTest = (type: DestinationType, config: object = {}) =>
  findKind(type).renderTest(WORLD, { ...SAMPLES[type].least, ...config } as never)

describe('a test of a webhook', () => {
  test('has no spans, and says so in a header (G.6)', () => {
    const { method, url, headers, body } = renderTest('webhook', { method: 'PUT' })
    expect([method, url, body]).toEqual([
      'PUT',
      'https://hooks.example.com/traces',
      '{"resourceSpans":[]}',
    ])
    expect(headers).toEqual({ 'content-type': 'application/json', 'x-test-connection': 'true' })
    expect(render('webhook').headers).not.toHaveProperty('x-test-connection')
  })

  test('passes with 2xx and with 400 (G.6)', () => {
    const passes = (status: number) => passesTest(findKind('webhook'), { status, text: 'no' })
    for (const status of [200, 204, 299, 400]) expect(passes(status)).toBe(true)
    for (const status of [199, 300, 401, 404, 413, 422, 500]) expect(passes(status)).toBe(false)
  })
})

describe('D-10 the signature of a webhook', async () => {
  const docs = await Bun.file(join(import.meta.dir, '../../../docs/destinations/types.md')).text()
  const [, example = ''] = /```js\n([\s\S]*?)```/.exec(docs) ?? []
  // The receiver's side as the docs have it.
  const home = mkdtempSync(join(tmpdir(), 'gateway-receiver-'))
  await Bun.write(join(home, 'receiver.mjs'), example)
  const { isGenuine } = await import(join(home, 'receiver.mjs'))
  rmSync(home, { recursive: true })
  const secret = 'SECRET-signing-0123456789'
  const { headers, body } = render('webhook', [TRACE], { signingSecret: secret })
  const header = headers['x-gateway-signature'] ?? ''
  const text = String(body)

  test('is accepted by the receiver of the docs', () => {
    expect(isGenuine(secret, header, text, WORLD.now + 299_000)).toBe(true)
    const trial = renderTest('webhook', { signingSecret: secret })
    expect(isGenuine(secret, trial.headers['x-gateway-signature'], trial.body, WORLD.now)).toBe(
      true,
    )
  })

  test.each<[string, string, string, string, number]>([
    ['another body', secret, header, `${text} `, 0],
    ['another secret', `${secret}x`, header, text, 0],
    ['another time', secret, header.replace(/^t=\d/, 't=2'), text, 0],
    ['an old time', secret, header, text, 301_000],
    ['a time to come', secret, header, text, -302_000],
    ['no signature', secret, '', text, 0],
    ['half a signature', secret, header.slice(0, -1), text, 0],
  ])('is refused with %s', (_, key, signature, content, later) => {
    expect(isGenuine(key, signature, content, WORLD.now + later)).toBe(false)
  })

  test('is not sent without a secret', () => {
    expect(render('webhook').headers).not.toHaveProperty('x-gateway-signature')
  })
})

describe('a test of a collector', () => {
  test('is the span of the public service (G.6)', () => {
    expect(JSON.parse(String(renderTest('otel-collector').body))).toEqual({
      resourceSpans: [
        {
          resource: { attributes: [{ key: 'service.name', value: { stringValue: 'openrouter' } }] },
          scopeSpans: [
            {
              scope: { name: 'openrouter' },
              spans: [
                {
                  traceId: '00000000000000000000000000000001',
                  spanId: '0000000000000001',
                  name: 'openrouter-connection-test',
                  kind: 1,
                  startTimeUnixNano: '1795341660000000000',
                  endTimeUnixNano: '1795341660001000000',
                  attributes: [],
                  status: { code: 1 },
                },
              ],
            },
          ],
        },
      ],
    })
  })

  test.each([
    ['https://otel.example.com', 'https://otel.example.com/v1/traces'],
    ['https://otel.example.com:4318/', 'https://otel.example.com:4318/v1/traces'],
    ['https://otel.example.com/v1/traces', 'https://otel.example.com/v1/traces'],
    ['https://otel.example.com/otlp', 'https://otel.example.com/otlp'],
    ['https://otel.example.com/?key=1', 'https://otel.example.com/?key=1'],
  ])('%s is called at %s', (endpoint, url) => {
    expect(render('otel-collector', [TRACE], { endpoint }).url).toBe(url)
    expect(renderTest('otel-collector', { endpoint }).url).toBe(url)
  })
})

describe('Arize', () => {
  const readSpans = (traces?: Trace[]) =>
    listDescribedSpans(describeOtlp(render('arize', traces).body as Uint8Array))
  const [root, attempt] = readSpans()

  test('names the project in the resource', () => {
    expect(root?.resource).toMatchObject({
      'openinference.project.name': 'my-project',
      model_id: 'my-project',
    })
  })

  test('has OpenInference’s attributes', () => {
    expect(root?.attributes).toMatchObject({
      'openinference.span.kind': 'LLM',
      'input.value': JSON.stringify({ messages: TRACE.input }),
      'input.mime_type': 'application/json',
      'output.value': JSON.stringify(TRACE.output),
      'output.mime_type': 'application/json',
      'llm.model_name': 'anthropic/claude-sonnet-4.5',
      'llm.provider': 'anthropic',
      'llm.invocation_parameters': JSON.stringify(TRACE.facts.parameters),
      'llm.input_messages.0.message.role': 'system',
      'llm.input_messages.0.message.content': 'CONTENT-RULES',
      'llm.input_messages.1.message.content': 'CONTENT-QUESTION',
      'llm.input_messages.2.message.tool_calls.0.tool_call.id': 'call_1',
      'llm.input_messages.2.message.tool_calls.0.tool_call.function.name': 'find',
      'llm.input_messages.2.message.tool_calls.0.tool_call.function.arguments':
        '{"q":"CONTENT-ARGUMENT"}',
      'llm.output_messages.0.message.role': 'assistant',
      'llm.output_messages.0.message.content': 'CONTENT-ANSWER',
      'llm.output_messages.0.message.tool_calls.0.tool_call.function.name': 'pay',
      'llm.token_count.prompt': 120,
      'llm.token_count.completion': 30,
      'llm.token_count.total': 150,
      'llm.token_count.prompt_details.cache_read': 100,
      'llm.cost.total': 0.00081,
      'user.id': 'user-7',
      'session.id': 'session-9',
      metadata: JSON.stringify(TRACE.metadata),
    })
    expect(attempt?.attributes['openinference.span.kind']).toBe('CHAIN')
  })

  test('has a bounded number of messages', () => {
    const input = Array.from({ length: 250 }, (_, i) => ({ role: 'user', content: `no. ${i}` }))
    const attributes = readSpans([{ ...TRACE, input }])[0]?.attributes
    expect(attributes).toHaveProperty(['llm.input_messages.99.message.content'])
    expect(attributes).not.toHaveProperty(['llm.input_messages.100.message.content'])
    expect(attributes?.['input.value']).toContain('no. 249')
  })
})

describe('Snowflake', () => {
  const read = (config: object = {}, traces = [TRACE, PRIVATE_TRACE]) =>
    JSON.parse(String(render('snowflake', traces, config).body))

  test('gets one statement with a binding for every value', () => {
    const { statement, bindings, ...rest } = read()
    const names = Object.keys(COLUMNS)
    const row = `(${names.map(() => '?').join(', ')})`
    expect(statement).toBe(
      `INSERT INTO SNOWFLAKE_LEARNING_DB.PUBLIC.OPENROUTER_TRACES (${names.join(', ')}) SELECT ` +
        'column1, TO_TIMESTAMP_TZ(column2), column3, column4, column5, column6, column7, column8, ' +
        'column9, column10, column11, column12, column13, column14, column15, column16, ' +
        'PARSE_JSON(column17), PARSE_JSON(column18), PARSE_JSON(column19), PARSE_JSON(column20), ' +
        `PARSE_JSON(column21) FROM VALUES ${row}, ${row}`,
    )
    expect(Object.keys(bindings)).toEqual(Array.from({ length: 42 }, (_, i) => String(i + 1)))
    expect(bindings[2]).toEqual({ type: 'TEXT', value: '2026-11-22T10:00:00.250Z' })
    expect(bindings[12]).toEqual({ type: 'FIXED', value: '120' })
    expect(bindings[15]).toEqual({ type: 'REAL', value: '0.00081' })
    expect(JSON.parse(bindings[17].value)).toEqual({ messages: TRACE.input })
    expect(bindings[38]).toEqual({ type: 'TEXT', value: null })
    expect(rest).toEqual({ timeout: 60, warehouse: 'COMPUTE_WH' })
  })

  test('quotes names that are not plain, so that none ends the statement', () => {
    const config = { database: 'my db', schema: 'x"; DROP TABLE y; --', table: 'traces' }
    expect(read(config).statement).toStartWith(
      'INSERT INTO "my db"."x""; DROP TABLE y; --".traces (TRACE_ID,',
    )
    expect(read({ warehouse: 'small' }).warehouse).toBe('SMALL')
    expect(read({ warehouse: 'my wh' }).warehouse).toBe('my wh')
  })

  test('gets a programmatic access token, or another type that a header names', () => {
    const name = 'x-snowflake-authorization-token-type'
    const { headers, url } = render('snowflake')
    expect(headers.authorization).toBe('Bearer SECRET-token')
    expect(headers[name]).toBe('PROGRAMMATIC_ACCESS_TOKEN')
    expect(url).toEndWith(`?requestId=${WORLD.createId()}`)
    const custom = { headers: { 'X-Snowflake-Authorization-Token-Type': 'OAUTH' } }
    expect(render('snowflake', [TRACE], custom).headers[name]).toBe('OAUTH')
  })

  test('is tested with the same statement without rows', () => {
    const { statement, bindings } = JSON.parse(String(renderTest('snowflake').body))
    expect(statement).toEndWith(' WHERE 1 = 0')
    expect(bindings).toEqual({})
  })

  test.each([
    [200, '{"code":"090001","message":"Statement executed successfully."}', 'delivered'],
    [202, '{"code":"333334","message":"Asynchronous execution in progress."}', 'delivered'],
    [200, '{"code":"000904","message":"invalid identifier"}', 'refused'],
    [408, '{"code":"000630","message":"Statement reached its timeout"}', 'retry'],
    [422, '{"code":"002003","message":"Table does not exist"}', 'refused'],
    [429, '{"code":"390429"}', 'retry'],
  ] as const)('its answer %i %s is %s', (status, text, verdict) => {
    expect(judgeAnswer(findKind('snowflake'), { status, text })).toBe(verdict)
  })
})

describe('a success that says otherwise', () => {
  const OTLP = [
    ...(['arize', 'braintrust', 'grafana', 'langfuse', 'langsmith', 'newrelic'] as const),
    ...(['opik', 'otel-collector', 'ramp', 'sentry', 'weave'] as const),
  ]

  test.each(OTLP)('%s: rejected spans split the batch, and none is a delivery', type => {
    const judge = (partialSuccess: unknown) =>
      judgeAnswer(findKind(type), { status: 200, text: JSON.stringify({ partialSuccess }) })
    expect(judge({ rejectedSpans: '2', errorMessage: 'too large' })).toBe('split')
    expect(judge({ rejectedSpans: 2 })).toBe('split')
    for (const partial of [{}, { rejectedSpans: '0' }, { rejectedSpans: 0 }, null, 'x'])
      expect(judge(partial)).toBe('delivered')
    expect(judge({ errorMessage: 'a warning' })).toBe('delivered')
  })

  test('datadog: errors in the body refuse it', () => {
    const judge = (text: string) => judgeAnswer(findKind('datadog'), { status: 202, text })
    expect(judge('{"errors":["ml_app is too long"]}')).toBe('refused')
    expect(judge('{"errors":[]}')).toBe('delivered')
    expect(judge('')).toBe('delivered')
  })
})

describe('Grafana', () => {
  test.each([
    'https://otlp.example.com',
    'https://otlp.example.com/',
    'https://otlp.example.com/otlp',
    'https://otlp.example.com/otlp/',
  ])('%s is called below /otlp', baseUrl => {
    expect(render('grafana', [TRACE], { baseUrl }).url).toBe(
      'https://otlp.example.com/otlp/v1/traces',
    )
  })

  test('authenticates with the instance and the token', () => {
    const [, code = ''] = render('grafana').headers.authorization?.split('Basic ') ?? []
    expect(Buffer.from(code, 'base64').toString()).toBe('123456:SECRET-apiKey')
  })
})
