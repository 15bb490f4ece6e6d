import type { Region } from '../../language/call.ts'
import type { TraceFacts, TraceOutput } from './trace.ts'

/** What is kept of a finished call until its destinations have been told. It is JSON. */
export interface ExportedCall {
  id: string
  workspace_id: string
  key_hash: string | null
  region: Region
  session_id: string | null
  facts: TraceFacts
  /** Null if no destination wants it. */
  input: unknown[] | null
  output: TraceOutput | null
  /** The client's own `trace`. */
  trace: Record<string, unknown> | null
  attempts: ExportedAttempt[]
  /** The turns of models and the uses of tools, in order, if there was more than one turn. */
  steps: ExportedStep[]
  groups: ExportedGroups
}

/** Whether a message, in UTF-8, is its call as JSON: one without content is not sealed. */
export const isPlain = (message: Uint8Array): boolean => message[0] === OPENING_BRACE

const OPENING_BRACE = 0x7b

/** One attempt at one endpoint. Times in milliseconds since the epoch. */
export interface ExportedAttempt {
  /** The place of its step in the list of steps; 0 if there is none. */
  step: number
  provider: string
  slug: string
  model: string
  endpoint_id: string
  is_byok: boolean
  status: number | null
  request_id: string | null
  error: { type: string; message: string } | null
  /** As the record has it, in whole milliseconds. */
  latency: number
  startedAt: number
  /** When the first part arrived, or when it failed. */
  answeredAt: number
  /** When its answer ended; null if it had none. */
  endedAt: number | null
}

/** A turn of a model, or a use of a tool. */
export interface ExportedStep {
  type: 'model' | 'tool'
  name: string
  /** The place of the use of a tool that it is part of; null outside of one. */
  within: number | null
  startedAt: number
  endedAt: number
  error: { type: string; message: string } | null
  promptTokens: number
  completionTokens: number
}

/** The groups that some destination has opted into (docs/destinations.md). */
export interface ExportedGroups {
  cost?: Record<string, unknown>
  identity?: Record<string, unknown>
  request_context?: Record<string, unknown>
}
