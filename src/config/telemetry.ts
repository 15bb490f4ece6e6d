import { Type } from '@sinclair/typebox'
import { closed } from '../base/schema-builders.ts'

/** Where the operator's own collector is, and what it is told. */
export const OtlpConfig = Type.Object(
  {
    endpoint: Type.String({
      pattern: '^https?://[^\\s#]+$',
      maxLength: 2_048,
      description:
        'The address of an OpenTelemetry collector (OTLP/HTTP), without /v1/traces and /v1/metrics',
      title: 'an http or https URL',
    }),
    headers: Type.Record(
      Type.String({ pattern: "^[\\w!#$%&'*+.^`|~-]{1,200}$" }),
      Type.String({ pattern: '^[\\t\\x20-\\x7e]{0,8192}$' }),
      { default: {}, maxProperties: 50, description: 'Headers of each request, as for its key' },
    ),
    traces: Type.Boolean({ default: true, description: 'Whether it is told of every call' }),
    content: Type.Boolean({
      default: false,
      description: 'Whether traces have what was asked and answered',
    }),
    sampling_rate: Type.Number({
      default: 1,
      minimum: 0.0001,
      maximum: 1,
      description: 'The share of sessions that it is told of',
    }),
    metrics: Type.Boolean({ default: true, description: 'Whether it is sent the metrics' }),
    metrics_seconds: Type.Number({
      default: 60,
      minimum: 0.1,
      maximum: 86_400,
      description: 'The time from one export of metrics to the next',
    }),
  },
  closed,
)
