import { describe, expect, test } from 'bun:test'
import { join } from 'node:path'
import type { DestinationType } from '../../../src/observability/destinations/kind.ts'
import { findKind } from '../../../src/observability/destinations/registry.ts'
import type { Trace } from '../../../src/observability/destinations/trace.ts'
import { SAMPLES, WORLD } from '../../support/destination-samples.ts'
import { describeOtlp, listDescribedSpans, readProtobufTexts } from '../../support/protobuf.ts'
import { CANCELLED_TRACE, PRIVATE_TRACE, TRACE } from '../../support/trace-samples.ts'

/*
 * What the vendors' own SDKs send (`test/fixtures/destinations/record.ts`), beside what is sent here
 * with the same credentials: the path, the headers that authenticate, the envelope and its fields.
 */

const TYPES = [
  ...(['arize', 'braintrust', 'datadog', 'grafana', 'langfuse', 'langsmith', 'newrelic'] as const),
  ...(['opik', 'posthog', 'ramp', 'sentry', 'snowflake', 'weave'] as const),
]

const read = (type: DestinationType) =>
  Bun.file(join(import.meta.dir, `../../fixtures/destinations/${type}.json`)).json()

/** What the SDKs sent, by their types: `requests`, and what one only `told`. */
const GOLDEN = Object.fromEntries(
  await Promise.all(TYPES.map(async type => [type, await read(type)])),
)

const render = (type: DestinationType, config: object, traces: Trace[] = [TRACE]) =>
  findKind(type).render(WORLD, config as never, traces)

const findPath = (url: string) => new URL(url).pathname

interface Attribute {
  key: string
  value: Record<string, unknown>
}

/** Reads the attributes of the first span of an export in JSON. */
const readSpan = (body: ReturnType<typeof JSON.parse>): Record<string, unknown> => {
  const { attributes } = body.resourceSpans[0].scopeSpans[0].spans[0]
  return Object.fromEntries(
    (attributes as Attribute[]).map(({ key, value }) => [key, Object.values(value)[0]]),
  )
}

describe('Arize’s instrumentation', () => {
  const [golden] = GOLDEN.arize.requests
  const config = { apiKey: 'ak-test', spaceKey: 'space-test', modelId: 'a project' }
  const { url, headers, body } = render('arize', config)
  const [theirs] = listDescribedSpans(golden.body)
  const [ours] = listDescribedSpans(describeOtlp(body as Uint8Array))

  test('sends to the same path, with the same headers', () => {
    expect(findPath(url)).toBe(golden.path)
    expect(headers).toMatchObject(golden.headers)
  })

  test('names the same project and the same attributes', () => {
    expect(Object.keys(theirs?.attributes ?? {}).length).toBeGreaterThan(12)
    for (const [name, value] of Object.entries(theirs?.attributes ?? {})) {
      expect(ours?.attributes).toHaveProperty([name])
      expect(typeof ours?.attributes[name]).toBe(typeof value)
    }
    expect(ours?.resource).toMatchObject(theirs?.resource ?? {})
    for (const name of ['openinference.span.kind', 'input.mime_type', 'output.mime_type'])
      expect(ours?.attributes[name]).toBe(theirs?.attributes[name])
  })
})

/*
 * These publish no exporter: they document OpenTelemetry's, with their URL and headers. Ramp has
 * the URL and the token alone, and no example.
 */
describe('OpenTelemetry’s exporter, as it is set up for', () => {
  test.each([
    ['grafana', { apiKey: 'glc_test', instanceId: '123456' }],
    ['newrelic', { licenseKey: 'nr-test' }],
    ['ramp', { apiKey: 'ramp-test' }],
  ] as const)('%s, sends to the same path, with the same headers', (type, config) => {
    const [golden] = GOLDEN[type].requests
    const { method, url, headers } = render(type, config)
    expect(method).toBe(golden.method)
    expect(findPath(url)).toBe(golden.path)
    expect(headers).toEqual(golden.headers)
  })

  test.each(['grafana', 'newrelic', 'ramp'] as const)('%s, has spans of the same form', type => {
    const findSpan = (body: ReturnType<typeof JSON.parse>) =>
      body.resourceSpans[0].scopeSpans[0].spans[0]
    const { least } = SAMPLES[type]
    const theirs = findSpan(GOLDEN[type].requests[0].body)
    const ours = findSpan(JSON.parse(String(render(type, least).body)))
    // What nothing was dropped of, and what has no members, may be left out.
    const optional = /^(dropped\w+|events|links|flags)$/
    for (const name of Object.keys(theirs).filter(one => !optional.test(one))) {
      expect(ours).toHaveProperty(name)
      expect(typeof ours[name]).toBe(typeof theirs[name])
    }
    expect(ours.kind).toBe(theirs.kind)
    for (const { key, value } of theirs.attributes) {
      const own = ours.attributes.find((attribute: Attribute) => attribute.key === key)
      expect(Object.keys(own.value)).toEqual(Object.keys(value))
    }
  })
})

describe('Snowflake', () => {
  const [driver, example] = GOLDEN.snowflake.requests
  const { url, headers, body } = render('snowflake', {
    ...{ account: 'org-account', token: 'pat-test' },
  })
  const ours = JSON.parse(String(body))

  test('documents the same request of its SQL API', () => {
    const [path, query] = example.path.split('?')
    expect(findPath(url)).toBe(path)
    expect([...new URL(url).searchParams.keys()]).toEqual([...new URLSearchParams(query).keys()])
    expect(headers).toEqual(example.headers)
    for (const [name, value] of Object.entries(ours)) {
      expect(example.body).toHaveProperty(name)
      expect(typeof value).toBe(typeof example.body[name])
    }
  })

  test('binds values in the form of the vendor’s driver', () => {
    const forms = new Map<string, object>()
    for (const { type, value } of Object.values<{ type: string; value: string | null }>(
      driver.body.bindings,
    ))
      forms.set(`${type} ${value === null}`, {
        type,
        value: value === null ? null : expect.any(String),
      })
    expect(Object.keys(driver.body.bindings)).toEqual(['1', '2', '3', '4'])
    for (const { type, value } of Object.values<{ type: string; value: string | null }>(
      ours.bindings,
    ))
      expect({ type, value }).toEqual((forms.get(`${type} ${value === null}`) ?? {}) as never)
  })
})

describe('Langfuse’s SDK', () => {
  const [golden] = GOLDEN.langfuse.requests
  const config = {
    ...{ publicKey: 'pk-test', secretKey: 'sk-test' },
    baseUrl: 'https://langfuse.example.com',
  }
  const theirs = readSpan(golden.body)
  const failed = render('langfuse', config, [
    { ...TRACE, facts: CANCELLED_TRACE.facts, spans: CANCELLED_TRACE.spans },
  ])
  const ours = readSpan(JSON.parse(String(failed.body)))

  test('sends to the same path, with the same authentication and type', () => {
    expect(findPath(failed.url)).toBe(golden.path)
    expect(failed.headers.authorization).toBe(golden.headers.authorization)
    expect(failed.headers['content-type']).toBe(golden.headers['content-type'])
  })

  test('names the same attributes, but for contents, which are read from gen_ai.*', () => {
    const names = Object.keys(theirs).filter(name => !/internal|input|output|team/.test(name))
    for (const name of names) expect(ours).toHaveProperty([name])
    for (const name of ['usage_details', 'cost_details', 'model.parameters']) {
      const key = `langfuse.observation.${name}`
      const [their, our] = [theirs, ours].map(span => JSON.parse(String(span[key])))
      for (const value of Object.values({ ...their, ...our }))
        expect(typeof value === 'number' || name === 'model.parameters').toBe(true)
    }
    expect(ours['langfuse.observation.completion_start_time']).not.toBeUndefined()
    expect(ours['langfuse.trace.metadata.team']).toBe('META-TEAM')
    expect(ours['langfuse.observation.type']).toBe(theirs['langfuse.observation.type'])
    expect(ours['langfuse.observation.level']).toBe(theirs['langfuse.observation.level'])
  })

  test('writes the time of the first token in the same form', () => {
    const key = 'langfuse.observation.completion_start_time'
    expect(theirs[key]).toBe('"2026-11-22T10:00:00.420Z"')
    expect(ours[key]).toBe('"2026-11-22T10:00:00.670Z"')
  })

  test('counts each token once', () => {
    const { total, ...parts } = JSON.parse(String(ours['langfuse.observation.usage_details']))
    expect(Object.values<number>(parts).reduce((sum, part) => sum + part, 0)).toBe(total)
  })
})

describe('LangSmith’s SDK', () => {
  const [golden] = GOLDEN.langsmith.requests
  const request = render('langsmith', { apiKey: 'ls-test', project: 'a project' })

  test('sends to the same path, with the same key', () => {
    expect(findPath(request.url)).toBe(golden.path)
    expect(request.headers['x-api-key']).toBe(golden.headers['x-api-key'])
  })

  test('names the same attributes', () => {
    const names = JSON.stringify(golden.body).match(/(langsmith|gen_ai)\.[a-z_.]+/g) ?? []
    expect(names.length).toBeGreaterThan(5)
    const ours = readSpan(JSON.parse(String(request.body)))
    // The project stands in a header.
    for (const name of names.filter(one => one !== 'langsmith.trace.session_name'))
      expect(ours).toHaveProperty([name])
    expect(ours['langsmith.span.kind']).toBe('llm')
    expect(Object.keys(JSON.parse(String(ours['langsmith.usage_metadata'])))).toContainValues([
      ...['input_tokens', 'output_tokens', 'total_tokens'],
    ])
  })
})

describe('Braintrust’s SDK', () => {
  test('sends to the same path, with the same authentication, parent and type', () => {
    const [golden] = GOLDEN.braintrust.requests
    const request = render('braintrust', { apiKey: 'bt-test', projectId: 'project-1' })
    expect(findPath(request.url)).toBe(golden.path)
    expect(request.headers).toEqual(golden.headers)
    expect(readSpan(JSON.parse(String(request.body)))).toHaveProperty(['gen_ai.prompt'])
  })
})

describe('Opik’s SDK', () => {
  test('authenticates in the same way', () => {
    const [golden] = GOLDEN.opik.requests
    const { headers, url } = render('opik', {
      ...{ apiKey: 'opik-test', projectName: 'a project', workspace: 'a-workspace' },
    })
    for (const name of ['authorization', 'comet-workspace', 'content-type'] as const)
      expect(headers[name]).toBe(golden.headers[name])
    expect(url).toEndWith('/v1/private/otel/v1/traces')
  })
})

describe('Weave’s SDK', () => {
  const [golden] = GOLDEN.weave.requests
  const config = { apiKey: 'wandb-test', entity: 'team', project: 'project-1' }
  const { headers, body } = render('weave', config)

  test('authenticates in the same way, and names the project alike', () => {
    expect(headers.authorization).toBe(golden.headers.authorization)
    const { start } = golden.body.batch[0].req
    expect(headers.project_id).toBe(start.project_id)
  })

  test('gets Protocol Buffers with the entity and the project', () => {
    expect(headers['content-type']).toBe('application/x-protobuf')
    const texts = readProtobufTexts(body as Uint8Array)
    for (const text of ['wandb.entity', 'team', 'wandb.project', 'project-1', 'wandb.thread_id'])
      expect(texts).toContain(text)
  })
})

describe('Sentry’s SDK', () => {
  test('sends to the same URL, but for its last slash, with the same header', () => {
    const { dsn, url, headers } = GOLDEN.sentry.told
    const endpoint = 'https://o1.ingest.us.sentry.io/api/42/integration/otlp'
    for (const otlpEndpoint of [endpoint, `${endpoint}/`, `${endpoint}/v1/traces`, url]) {
      const request = render('sentry', { dsn, otlpEndpoint })
      expect(`${request.url}/`).toBe(url)
      expect(request.headers['x-sentry-auth']).toBe(headers['X-Sentry-Auth'])
    }
  })
})

describe('PostHog’s SDK', () => {
  const [sent, asked] = GOLDEN.posthog.requests
  const golden = sent.body
  const request = render('posthog', { apiKey: 'phc_test' })
  const ours = JSON.parse(String(request.body))

  test('sends to the same path, in the same envelope', () => {
    expect(findPath(request.url)).toBe(sent.path)
    expect(Object.keys(ours).toSorted()).toEqual(Object.keys(golden).toSorted())
    expect(ours.api_key).toBe('phc_test')
    expect(Object.keys(ours.batch[0]).toSorted()).toEqual(Object.keys(golden.batch[0]).toSorted())
    expect(ours.batch[0].event).toBe('$ai_generation')
    expect(ours.batch[0].uuid).toMatch(
      /^[0-9a-f]{8}-[0-9a-f]{4}-5[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/,
    )
  })

  test('has the same properties of a generation', () => {
    const { properties } = ours.batch[0]
    // Of a wrapper around another SDK: the raw usage, its URL, and who counted.
    const others = ['$ai_usage', '$ai_base_url', '$ai_tokens_source', '$is_server', 'team']
    const names = Object.keys(golden.batch[0].properties)
    for (const name of names.filter(one => !others.includes(one)))
      expect(properties).toHaveProperty([name])
    expect(properties).toMatchObject({
      team: 'META-TEAM',
      trace_name: 'Invoice check',
      $ai_trace_id: TRACE.traceId,
      $ai_session_id: 'session-9',
      $ai_span_name: 'generation',
      $ai_latency: 1.5,
      $ai_time_to_first_token: 0.42,
      $ai_input: TRACE.input as unknown[],
      $ai_total_cost_usd: 0.00081,
    })
    expect(properties).not.toHaveProperty('$process_person_profile')
    expect(ours.batch[0].distinct_id).toBe('user-7')
  })

  test('makes no person of a call without a user', () => {
    const anonymous = { ...PRIVATE_TRACE, facts: { ...TRACE.facts, userId: null } }
    const [event] = JSON.parse(
      String(render('posthog', { apiKey: 'phc_test' }, [anonymous]).body),
    ).batch
    expect(event.distinct_id).toBe(TRACE.traceId)
    expect(event.properties.$process_person_profile).toBe(false)
    expect(event.properties).not.toHaveProperty('$ai_input')
    expect(event.properties).not.toHaveProperty('$ai_output_choices')
  })

  test('lets metadata change no person and no project', () => {
    const metadata = { $set: { email: 'x' }, token: 'phc_other', distinct_id: 'x', $ai_model: 'x' }
    const [event] = JSON.parse(
      String(render('posthog', { apiKey: 'phc_test' }, [{ ...TRACE, metadata }]).body),
    ).batch
    expect(event.properties).toMatchObject({
      trace_$set: { email: 'x' },
      trace_token: 'phc_other',
      trace_distinct_id: 'x',
      trace_$ai_model: 'x',
      $ai_model: TRACE.facts.model,
    })
    for (const name of ['$set', 'token', 'distinct_id'])
      expect(event.properties).not.toHaveProperty(name)
  })

  test('asks for flags as a test does, which needs a real key', () => {
    const trial = findKind('posthog').renderTest(WORLD, { apiKey: 'phc_test' } as never)
    expect(trial.url).toBe(`https://us.i.posthog.com${asked.path}`)
    const body = JSON.parse(String(trial.body))
    expect(body.token).toBe(asked.body.token)
    expect(Object.keys(asked.body)).toContainValues(Object.keys(body))
  })

  test('bears a content that PostHog would refuse', () => {
    const huge = { ...TRACE, input: [{ role: 'user', content: 'x'.repeat(3_000_000) }] }
    const { body } = render('posthog', { apiKey: 'phc_test' }, [huge])
    expect(body.length).toBeLessThan(900_000)
    expect(String(body)).toContain('... [truncated]')
  })
})

describe('Datadog’s SDK', () => {
  const golden = GOLDEN.datadog.requests[0].body[0].spans[0]
  const request = render('datadog', { apiKey: 'dd-test', mlApp: 'an-app' })
  const { data } = JSON.parse(String(request.body))
  const [root, attempt] = data.attributes.spans

  // The SDK's own intake is another than the public one; the spans are alike.
  test('has the same fields of a span', () => {
    expect(request.headers['dd-api-key']).toBe('dd-test')
    for (const name of Object.keys(golden).filter(one => one !== '_dd'))
      expect(root).toHaveProperty([name])
    for (const [name, value] of Object.entries(golden).filter(([, one]) => typeof one !== 'object'))
      expect(typeof root[name]).toBe(typeof value)
    for (const id of [root.span_id, golden.span_id]) expect(id).toMatch(/^\d{1,20}$/)
    for (const id of [root.trace_id, golden.trace_id]) expect(id).toMatch(/^[0-9a-f]{32}$/)
    expect(root.parent_id).toBe(golden.parent_id)
    expect(attempt.parent_id).toBe(root.span_id)
    for (const name of Object.keys(golden.metrics)) expect(root.metrics).toHaveProperty(name)
    expect(root.tags).toContain('service:an-app')
    expect(root.tags).toContain('user_id:user-7')
  })

  test('has messages of the same form', () => {
    const theirs = golden.meta.output.messages[0]
    const [ours] = root.meta.output.messages
    for (const name of Object.keys(theirs)) expect(ours).toHaveProperty(name)
    const [call] = ours.tool_calls
    expect(call).toEqual({ tool_id: 'call_2', name: 'pay', arguments: { sum: 'CONTENT-SUM' } })
    expect(Object.keys(theirs.tool_calls[0])).toContainValues(Object.keys(call))
    for (const { content } of [...root.meta.input.messages, ours]) expect(content).toBeString()
  })

  test('is the envelope of the public API', () => {
    expect({ ...data, attributes: { ...data.attributes, spans: [] } }).toEqual({
      type: 'span',
      attributes: { ml_app: 'an-app', tags: ['service:an-app'], spans: [] },
    })
    expect(root.meta.kind).toBe('llm')
    expect(root.meta.metadata).toMatchObject({ team: 'META-TEAM', temperature: 0.2 })
  })
})
