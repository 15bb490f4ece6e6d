import type { DestinationKind } from './kind.ts'
import { grafana } from './kinds/grafana.ts'
import { otelCollector } from './kinds/otel-collector.ts'
import { webhook } from './kinds/webhook.ts'

/** Every kind of destination. */
export const KINDS: DestinationKind[] = [grafana, otelCollector, webhook] as never

/** Finds the kind of a type. */
export const findKind = (type: string): DestinationKind | undefined =>
  KINDS.find(kind => kind.type === type)
