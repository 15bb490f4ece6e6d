import { describe, expect, test } from 'bun:test'
import { JsonTraceSerializer, ProtobufTraceSerializer } from '@opentelemetry/otlp-transformer'
import { resourceFromAttributes } from '@opentelemetry/resources'
import type { ReadableSpan } from '@opentelemetry/sdk-trace'
import { encodeOtlp } from '../../../src/observability/destinations/otlp/kind.ts'
import {
  buildOtlp,
  LONGEST_VALUE,
  listAttributes,
  type OtlpAttribute,
  type OtlpExport,
  type OtlpSpan,
  type OtlpValue,
  toNanoseconds,
} from '../../../src/observability/destinations/otlp.ts'
import { writeJson } from '../../../src/observability/destinations/text.ts'
import type { Trace } from '../../../src/observability/destinations/trace.ts'
import { describeOtlp } from '../../support/protobuf.ts'
import {
  buildHostileTrace,
  CANCELLED_TRACE,
  EXTENDED_TRACE,
  FAILED_TRACE,
  HOSTILE_TEXTS,
  PRIVATE_TRACE,
  TRACE,
} from '../../support/trace-samples.ts'

const SOURCE = { serviceName: 'openrouter', version: '1.0.0' }

const listSpans = (trace: Trace): OtlpSpan[] =>
  buildOtlp(SOURCE, [trace]).resourceSpans.flatMap(({ scopeSpans }) =>
    scopeSpans.flatMap(({ spans }) => spans),
  )

const readValue = (value: OtlpValue) => Object.values(value)[0]

const readAttributes = (attributes: OtlpAttribute[]): Record<string, unknown> =>
  Object.fromEntries(attributes.map(({ key, value }) => [key, readValue(value)]))

const readRoot = (trace: Trace) => readAttributes(listSpans(trace)[0]?.attributes ?? [])

describe('G.5: an export', () => {
  test('has one entry for each span, with the same resource and scope', () => {
    const { resourceSpans } = buildOtlp(SOURCE, [TRACE, PRIVATE_TRACE])
    expect(resourceSpans).toHaveLength(6)
    for (const { resource, scopeSpans } of resourceSpans) {
      expect(readAttributes(resource.attributes)).toEqual({
        'service.name': 'openrouter',
        'service.version': '1.0.0',
        'openrouter.trace.id': TRACE.id,
      })
      expect(scopeSpans.map(({ scope, spans }) => [scope, spans.length])).toEqual([
        [{ name: 'openrouter' }, 1],
      ])
    }
  })

  test('is a tree: the root, its attempts and the generation', () => {
    const bare = listSpans(TRACE).map(({ attributes: _, ...span }) => span)
    const traceId = TRACE.traceId
    expect(bare).toEqual([
      {
        ...{ traceId, spanId: '5b8aa5a2d2c872e8', name: 'LLM Generation', kind: 3 },
        startTimeUnixNano: '1795341600250000000',
        endTimeUnixNano: '1795341601750000000',
        status: { code: 1 },
      },
      {
        ...{ traceId, spanId: '0000000000000002', parentSpanId: '5b8aa5a2d2c872e8' },
        ...{ name: 'provider attempt 1: Amazon Bedrock', kind: 2 },
        startTimeUnixNano: '1795341600260250000',
        endTimeUnixNano: '1795341601740000000',
        status: { code: 1 },
      },
      {
        ...{ traceId, spanId: '0000000000000003', parentSpanId: '5b8aa5a2d2c872e8' },
        ...{ name: 'generation', kind: 2 },
        startTimeUnixNano: '1795341600650000000',
        endTimeUnixNano: '1795341601740000000',
        status: { code: 1 },
      },
    ])
  })

  test('K06 has the root’s attributes in the order of the public service', () => {
    const prompt = JSON.stringify({ messages: TRACE.input })
    const completion = JSON.stringify(TRACE.output)
    expect(Object.entries(readRoot(TRACE))).toEqual([
      ['trace.name', 'Invoice check'],
      ['user.id', 'user-7'],
      ['session.id', 'session-9'],
      ['trace.metadata.team', 'META-TEAM'],
      ['trace.metadata.attempt', 3],
      ['trace.metadata.is_test', true],
      ['trace.metadata.ratio', 0.5],
      ['trace.metadata.tags', '["META-TAG"]'],
      ['trace.metadata.provider_responses', '[{"status":200}]'],
      ['span.type', 'generation'],
      ['span.level', 'DEFAULT'],
      ['span.metadata.provider_responses', '[{"status":200}]'],
      ['gen_ai.operation.name', 'chat'],
      ['gen_ai.system', 'anthropic'],
      ['gen_ai.provider.name', 'anthropic'],
      ['gen_ai.request.model', 'anthropic/claude-sonnet-4.5'],
      ['gen_ai.response.model', 'anthropic/claude-sonnet-4.5'],
      ['gen_ai.response.id', 'gen-1763805600-sample'],
      ['gen_ai.request.temperature', 0.2],
      ['gen_ai.request.max_tokens', 512],
      ['gen_ai.request.stop_sequences', '["END"]'],
      ['gen_ai.usage.input_tokens', 120],
      ['gen_ai.usage.output_tokens', 30],
      ['gen_ai.usage.total_tokens', 150],
      ['gen_ai.usage.input_cost', 0.00036],
      ['gen_ai.usage.output_cost', 0.00045],
      ['gen_ai.usage.total_cost', 0.00081],
      ['gen_ai.prompt', prompt],
      ['trace.input', prompt],
      ['span.input', prompt],
      ['gen_ai.completion', completion],
      ['trace.output', completion],
      ['span.output', completion],
      ['gen_ai.usage.input_tokens.cached', 100],
      ['gen_ai.usage.input_tokens.cache_write', 5],
      ['gen_ai.usage.cache_read.input_tokens', 100],
      ['gen_ai.usage.cache_creation.input_tokens', 5],
      ['gen_ai.usage.output_tokens.reasoning', 12],
      ['gen_ai.response.finish_reasons', '["tool_calls"]'],
      ['gen_ai.response.finish_reason', 'tool_calls'],
      ['trace.metadata.openrouter.source', 'openrouter'],
      ['trace.metadata.openrouter.api_key_name', 'production'],
      ['trace.metadata.openrouter.first_token_ms', 420],
      ['trace.metadata.openrouter.provider_name', 'Amazon Bedrock'],
      ['trace.metadata.openrouter.finish_reason', 'tool_use'],
      ['trace.metadata.openrouter.provider_slug', 'amazon-bedrock'],
    ])
  })

  test('has whole numbers as integers, and costs as doubles also when they are whole', () => {
    const whole = { ...TRACE, facts: { ...TRACE.facts, totalCost: 2 } }
    const root = listSpans(whole)[0]?.attributes ?? []
    const find = (key: string) => root.find(one => one.key === key)?.value
    expect(find('gen_ai.usage.input_tokens')).toEqual({ intValue: 120 })
    expect(find('gen_ai.usage.total_cost')).toEqual({ doubleValue: 2 })
  })

  test('has the attributes of an attempt and of the generation', () => {
    const [, attempt, generation] = listSpans(TRACE).map(span => readAttributes(span.attributes))
    expect(attempt).toEqual({
      'span.type': 'span',
      'span.level': 'DEFAULT',
      'span.metadata.attempt_index': 0,
      'span.metadata.is_byok': false,
      'gen_ai.operation.name': 'chat',
      'gen_ai.response.id': 'gen-1763805600-sample:attempt-0',
    })
    expect(generation).toEqual({
      'span.type': 'span',
      'span.level': 'DEFAULT',
      'gen_ai.response.id': 'gen-1763805600-sample:generation',
    })
  })

  test('of a failed call has the exception, and neither usage nor an end', () => {
    const [span] = listSpans(FAILED_TRACE)
    expect(span?.status).toEqual({ code: 2, message: 'Provider returned error' })
    expect(span?.events).toEqual([
      {
        name: 'exception',
        timeUnixNano: '1795341601750000000',
        attributes: [
          { key: 'exception.type', value: { stringValue: 'ProviderError' } },
          { key: 'exception.message', value: { stringValue: 'Provider returned error' } },
        ],
      },
    ])
    const root = readAttributes(span?.attributes ?? [])
    expect(root['span.level']).toBe('ERROR')
    expect(root['span.status_message']).toBe('Provider returned error')
    expect(Object.keys(root).join('\n')).not.toMatch(/usage|finish_reason|user\.id|session\.id/)
  })

  test('of a cancelled call has the usage that was charged', () => {
    const root = readRoot(CANCELLED_TRACE)
    expect(root['span.status_message']).toBe('The client has disconnected')
    expect(root['gen_ai.usage.output_tokens']).toBe(4)
    expect(root).not.toHaveProperty(['gen_ai.response.finish_reason'])
  })

  test('tells groups that were opted into under both names', () => {
    const root = readRoot(EXTENDED_TRACE)
    for (const level of ['trace', 'span'])
      for (const [name, value] of Object.entries(EXTENDED_TRACE.extra))
        expect(root[`${level}.metadata.openrouter_generation.${name}`]).toBe(value)
  })

  test('repeats a content only while it is short', () => {
    const input = [{ role: 'user', content: 'x'.repeat(70_000) }]
    const root = readRoot({ ...TRACE, input })
    expect(root['gen_ai.prompt']).toBe(JSON.stringify({ messages: input }))
    expect(root).not.toHaveProperty(['trace.input'])
    expect(root).toHaveProperty(['trace.output'])
  })

  test('lets a client’s metadata be none of the gateway’s own attributes', () => {
    const metadata = { 'openrouter.source': 'elsewhere', 'openrouter.provider_slug': 'elsewhere' }
    const root = readRoot({ ...TRACE, metadata })
    expect(root['trace.metadata.openrouter.source']).toBe('openrouter')
    expect(root['trace.metadata.openrouter.provider_slug']).toBe('amazon-bedrock')
  })

  test('cuts a value of more than ten million characters, not within one, and says so', () => {
    const cut = (text: string) =>
      listAttributes({ k: text }).map(({ key, value }) => [key, readValue(value)])
    const longest = 'x'.repeat(LONGEST_VALUE)
    expect(cut(longest)).toEqual([['k', longest]])
    expect(cut(`${longest}y`)).toEqual([
      ['k', longest],
      ['k.truncated', true],
    ])
    const pair = `${'x'.repeat(LONGEST_VALUE - 1)}\u{1f600}`
    expect(cut(pair)[0]).toEqual(['k', 'x'.repeat(LONGEST_VALUE - 1)])
  })

  test.each([
    [0, '0'],
    [1, '1000000'],
    [1795341600250.5, '1795341600250500000'],
    [1795341600999.9998, '1795341600999999756'],
    [1.9999999, '2000000'],
  ])('tells %d ms in nanoseconds', (milliseconds, nanoseconds) => {
    expect(toNanoseconds(milliseconds)).toBe(nanoseconds)
  })

  test('tells numbers that JSON does not have as text', () => {
    expect(listAttributes({ a: Number.NaN, b: { double: Number.POSITIVE_INFINITY } })).toEqual([
      { key: 'a', value: { stringValue: 'NaN' } },
      { key: 'b', value: { stringValue: 'Infinity' } },
    ])
    expect(listAttributes({ a: 2 ** 60 })).toEqual([{ key: 'a', value: { doubleValue: 2 ** 60 } }])
  })
})

const CODES = { 1: 0, 2: 1, 3: 2 } as Record<number, number>

/** Says a span of ours in the terms of the SDK, each with a resource of its own. */
const toReadableSpans = ({ resourceSpans }: OtlpExport): ReadableSpan[] =>
  resourceSpans.flatMap(({ resource, scopeSpans }) =>
    scopeSpans.flatMap(({ scope, spans }) =>
      spans.map(
        span =>
          ({
            name: span.name,
            kind: CODES[span.kind],
            spanContext: () => ({ traceId: span.traceId, spanId: span.spanId, traceFlags: 1 }),
            ...(span.parentSpanId === undefined
              ? {}
              : {
                  parentSpanContext: {
                    traceId: span.traceId,
                    spanId: span.parentSpanId,
                    traceFlags: 1,
                  },
                }),
            startTime: toHrTime(span.startTimeUnixNano),
            endTime: toHrTime(span.endTimeUnixNano),
            status: span.status,
            attributes: readAttributes(span.attributes),
            links: [],
            events: (span.events ?? []).map(event => ({
              name: event.name,
              time: toHrTime(event.timeUnixNano),
              attributes: readAttributes(event.attributes),
              droppedAttributesCount: 0,
            })),
            duration: [0, 0],
            ended: true,
            resource: resourceFromAttributes(readAttributes(resource.attributes) as never),
            instrumentationScope: scope,
            droppedAttributesCount: 0,
            droppedEventsCount: 0,
            droppedLinksCount: 0,
          }) as unknown as ReadableSpan,
      ),
    ),
  )

const toHrTime = (nanoseconds: string): [number, number] => [
  Number(BigInt(nanoseconds) / 1_000_000_000n),
  Number(BigInt(nanoseconds) % 1_000_000_000n),
]

/** Reads an export without what an SDK adds, and with every number as a number. */
const normalize = (value: unknown): unknown => {
  if (Array.isArray(value)) return value.map(normalize)
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(
    Object.entries(value)
      .filter(([name, member]) => !ADDED.includes(name) && member !== undefined)
      .map(([name, member]) => {
        if (name === 'intValue' || name === 'doubleValue') return ['number', Number(member)]
        return [name, normalize(member)]
      })
      .filter(([name, member]) => name !== 'events' || (member as unknown[]).length > 0),
  )
}
const ADDED = [
  ...['droppedAttributesCount', 'droppedEventsCount', 'droppedLinksCount', 'links', 'flags'],
  ...['schemaUrl', 'traceState', 'version'],
]

const EXPORTS: [name: string, traces: Trace[]][] = [
  ['a call', [TRACE]],
  ['many calls', [TRACE, PRIVATE_TRACE, EXTENDED_TRACE, FAILED_TRACE, CANCELLED_TRACE]],
  ...HOSTILE_TEXTS.map(
    text => [JSON.stringify(text), [buildHostileTrace(text.toWellFormed())]] as [string, Trace[]],
  ),
]

describe('an export of the OpenTelemetry SDK with the same spans', () => {
  test.each(EXPORTS)('of %s says the same in JSON', (_, traces) => {
    const ours = buildOtlp(SOURCE, traces)
    const theirs = JsonTraceSerializer.serializeRequest(toReadableSpans(ours))
    expect(normalize(JSON.parse(new TextDecoder().decode(theirs)))).toEqual(
      normalize(JSON.parse(JSON.stringify(ours))),
    )
  })

  test.each(EXPORTS)('of %s has the same bytes in Protocol Buffers', (_, traces) => {
    const ours = buildOtlp(SOURCE, traces)
    // With the texts that every receiver takes.
    const received = JSON.parse(writeJson(ours)) as typeof ours
    const theirs = ProtobufTraceSerializer.serializeRequest(toReadableSpans(received))
    expect(describeOtlp(encodeOtlp(ours))).toEqual(describeOtlp(theirs as Uint8Array))
  })

  test('has what is longer than all before it, wherever that begins', () => {
    for (let before = 0; before < 20; before++) {
      const metadata = { before: 'x'.repeat(before), long: 'é'.repeat(40_000) }
      const ours = buildOtlp(SOURCE, [{ ...TRACE, metadata }, TRACE])
      const theirs = ProtobufTraceSerializer.serializeRequest(toReadableSpans(ours))
      expect(describeOtlp(encodeOtlp(ours))).toEqual(describeOtlp(theirs as Uint8Array))
    }
  })

  test('has negative integers in two’s complement', () => {
    const ours = buildOtlp(SOURCE, [{ ...TRACE, metadata: { below: -1, least: -(2 ** 53 - 1) } }])
    const theirs = ProtobufTraceSerializer.serializeRequest(toReadableSpans(ours))
    expect(describeOtlp(encodeOtlp(ours))).toEqual(describeOtlp(theirs as Uint8Array))
  })
})
