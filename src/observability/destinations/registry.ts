import type { DestinationKind, DestinationType } from './kind.ts'
import { arize } from './kinds/arize.ts'
import { braintrust } from './kinds/braintrust.ts'
import { clickhouse } from './kinds/clickhouse.ts'
import { datadog } from './kinds/datadog.ts'
import { grafana } from './kinds/grafana.ts'
import { langfuse } from './kinds/langfuse.ts'
import { langsmith } from './kinds/langsmith.ts'
import { newrelic } from './kinds/newrelic.ts'
import { opik } from './kinds/opik.ts'
import { otelCollector } from './kinds/otel-collector.ts'
import { posthog } from './kinds/posthog.ts'
import { ramp } from './kinds/ramp.ts'
import { s3 } from './kinds/s3.ts'
import { sentry } from './kinds/sentry.ts'
import { snowflake } from './kinds/snowflake.ts'
import { weave } from './kinds/weave.ts'
import { webhook } from './kinds/webhook.ts'

/** Every kind of destination. `kind.ts` has the names of their types, in the same order. */
export const KINDS: DestinationKind[] = [
  ...[arize, braintrust, clickhouse, datadog, grafana, langfuse, langsmith],
  ...[newrelic, opik, otelCollector, posthog, ramp, s3, sentry, snowflake],
  ...[weave, webhook],
] as DestinationKind[]

/** Finds the kind of a type. Every type has one. */
export function findKind(type: DestinationType): DestinationKind {
  const kind = KINDS.find(known => known.type === type)
  if (!kind) throw new Error(`There is no kind of destination ${type}`)
  return kind
}
