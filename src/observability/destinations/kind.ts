import type { Static, TObject } from '@sinclair/typebox'
import type { Trace } from './trace.ts'

/** The types of destinations, by their names on the wire (wire reference G.1). */
export const DESTINATION_TYPES = [
  ...['arize', 'braintrust', 'clickhouse', 'datadog', 'grafana', 'langfuse', 'langsmith'],
  ...['newrelic', 'opik', 'otel-collector', 'posthog', 'ramp', 's3', 'sentry', 'snowflake'],
  ...['weave', 'webhook'],
] as const

export type DestinationType = (typeof DESTINATION_TYPES)[number]

/** A request that delivers traces, or tests a destination. */
export interface DeliveryRequest {
  method: 'POST' | 'PUT'
  url: string
  /** By their names in lower case. */
  headers: Record<string, string>
  /** Bytes where the vendor takes no text. */
  body: string | Uint8Array
}

/** What became of a request: `retry` later, `refused` for ever, or too large and to be `split`. */
export type Verdict = 'delivered' | 'retry' | 'refused' | 'split'

/** The part of a destination's answer that is read. */
export interface DeliveryAnswer {
  status: number
  /** The beginning of the body. */
  text: string
}

/** What rendering a request needs from outside. */
export interface RenderWorld {
  /** Milliseconds since the epoch. */
  now: number
  /** The service's name in attributes and metadata. */
  serviceName: string
  /** The version of this program. */
  version: string
  /** Returns a random id (UUID). */
  createId(): string
}

/**
 * A kind of destination: its config, and how traces look in its vendor's ingest format. Pure: what
 * it returns is sent by the queue, through the guarded egress.
 */
export interface DestinationKind<Config extends TObject = TObject> {
  type: DestinationType
  /** The schema of `config`, with its defaults (wire reference G.2). */
  config: Config
  /**
   * The fields of the config that are sealed at rest and masked in every answer. The values of
   * `headers` are secrets in every kind, and are not named here.
   */
  secrets: readonly string[]
  /**
   * The fields of the config that say where secrets go. Who changes one must send the secrets
   * again: otherwise they could be sent to a host of the sender's choice.
   */
  address: readonly string[]
  /** The most traces that one request carries. */
  batchSize: number
  /** Renders one request that delivers these traces: at least one, at most `batchSize`. */
  render(world: RenderWorld, config: Static<Config>, traces: Trace[]): DeliveryRequest
  /** Renders a request that delivers nothing real and needs the credentials (G.6). */
  renderTest(world: RenderWorld, config: Static<Config>): DeliveryRequest
  /**
   * Judges an answer where its status alone does not tell. Undefined where it does: see
   * `judgeAnswer` of `judge.ts`.
   */
  judge?(answer: DeliveryAnswer): Verdict | undefined
  /** Judges the answer to a test where others pass than to a delivery. */
  judgeTest?(answer: DeliveryAnswer): boolean
}
