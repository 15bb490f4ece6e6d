import type { Mac } from '../../../base/mac.ts'
import type { DaySpend, StepCharge } from '../../../limits/ledger.ts'
import type {
  Generation,
  GenerationStep,
  RecorderEntry,
} from '../../../observability/generations/store.ts'
import { addResult } from '../batches.ts'
import {
  chainCharge,
  countParts,
  countSpend,
  followHead,
  INSERT_CHARGE,
  type LedgerValues,
} from '../ledger.ts'
import type { BundledMessage } from '../outbox/bundling.ts'
import { addMessages } from '../outbox.ts'
import { addTranscript } from '../transcripts.ts'
import { endVideo } from '../videos.ts'
import { prepare, type Statement } from '../write.ts'

/** A value of a column as it is sealed: money is text, because JSON has no numbers of that size. */
export type SealedValue = string | number | null

/** A record as it is written: the values of its columns, and their JSON, which is sealed. */
export interface RecordRow {
  values: SealedValue[]
  json: string
  /** Null for one that an earlier process has left. */
  generation: Generation | null
}

/** An entry of the recorder as it is written: its rows, and what else comes with them. */
export interface EntryRows {
  /** Null for a step of a call that goes on. */
  record: RecordRow | null
  /** Null where nothing is charged. */
  charge: StepCharge | null
  /** What its destinations are told. */
  messages: BundledMessage[]
  entry: RecorderEntry
}

/**
 * Adds what comes with the records of entries: what was asked and answered, jobs that have ended,
 * results of batches, and charges; without a MAC, all but charges. `last` is the number of the newest
 * message.
 */
export function addParts(mac: Mac | null, last: number, entries: EntryRows[]): Statement[] {
  const steps: Statement[] = []
  let [isCharged, isTold] = [false, false]
  for (const { charge, messages, entry } of entries) {
    isCharged ||= charge !== null
    isTold ||= messages.length > 0
    if (entry.transcript) steps.push(addTranscript(entry.transcript))
    if (entry.job) steps.push(endVideo(entry.job))
    if (entry.result) steps.push(addResult(entry.result))
    if (charge?.subaccounts) steps.push(...countParts(charge))
  }
  if (isCharged && mac) {
    const append = (head: string) => {
      const inserts: Statement[] = []
      for (const row of chainCharges(mac, head, entries)[0])
        inserts.push(prepare(INSERT_CHARGE, ...row))
      return inserts
    }
    steps.push(followHead(append))
    for (const sum of sumPerDay(entries)) steps.push(countSpend(sum))
  }
  if (isTold) steps.push(...addMessages(last, entries))
  return steps
}

/** Chains the charges of entries, and returns the values of their rows with the hash of the last. */
export function chainCharges(
  mac: Mac,
  newest: string,
  entries: EntryRows[],
): [rows: LedgerValues[], head: string] {
  const rows: LedgerValues[] = []
  let head = newest
  for (const { charge, record } of entries) {
    if (!charge) continue
    const { hash, values } = chainCharge(mac, head, charge, !record)
    head = hash
    rows.push(values)
  }
  return [rows, head]
}

/** Whether destinations are told of some of these entries: they are of none of most batches. */
export function areTold(batch: RecorderEntry[]): boolean {
  for (const { outbox } of batch) if (outbox !== undefined && outbox.length > 0) return true
  return false
}

export function toRows(entry: RecorderEntry, messages: BundledMessage[] = []): EntryRows {
  const { generation, charge } = entry
  const values = generation && toValues(generation)
  // A call that continues has no generation yet, so only the row shows that its step was settled.
  const needsRow = charge !== null && (charge.nanos !== 0n || generation === null)
  return {
    record: values && { values, json: renderRecord(values), generation },
    charge: needsRow ? charge : null,
    messages,
    entry,
  }
}

/** Sums charges per key and day: most calls of a batch share a few keys and one day. */
export function sumPerDay(entries: EntryRows[]): Iterable<DaySpend> {
  const sums = new Map<string, DaySpend>()
  for (const { charge } of entries) {
    if (charge === null || charge.nanos === 0n) continue
    const payer = `${charge.key_hash} ${charge.day} ${charge.byok}`
    const sum = sums.get(payer)
    if (sum) sum.nanos += charge.nanos
    else sums.set(payer, { ...charge })
  }
  return sums.values()
}

/** Renders what a seal covers: the JSON of records. */
export const renderRecords = (first: number, records: string[]): string =>
  `[${first},[${records.join(',')}]]`

/** The seal of the records that one transaction has written. */
export interface RecordSeal {
  n: number
  first_row: number
  last_row: number
  /** How many columns it covers, from the first on: later versions add some at the end. */
  columns: number
  seal: string
}

/** Renders which records are from before the seals. */
export const renderAnchor = (last: number): string => `records up to ${last}`

/** Renders a record as SQLite keeps it: half a surrogate pair is no text there. */
export function renderRecord(values: SealedValue[]): string {
  const json = JSON.stringify(values)
  return json.includes('\\ud') ? JSON.stringify(toWellFormed(values)) : json
}

const toWellFormed = (values: SealedValue[]): SealedValue[] =>
  values.map(value => (typeof value === 'string' ? value.toWellFormed() : value))

/**
 * The columns of a record, in the order in which they are sealed. New ones come last: seals cover
 * the first so many.
 */
export const RECORD_COLUMNS = [
  'id',
  'request_id',
  'created_at',
  'workspace_id',
  'key_hash',
  'user_id',
  'api_type',
  'model',
  'provider_name',
  'provider_responses',
  'upstream_id',
  'streamed',
  'cancelled',
  'finish_reason',
  'native_finish_reason',
  'latency',
  'generation_time',
  'native_tokens_prompt',
  'native_tokens_completion',
  'native_tokens_reasoning',
  'native_tokens_cached',
  'native_tokens_completion_images',
  'settled_at',
  'total_cost',
  'upstream_inference_cost',
  'usageSource',
  'is_byok',
  'service_tier',
  'session_id',
  'external_user',
  'http_referer',
  'title',
  'user_agent',
  'error_type',
  'preset_id',
  'data_region',
  'router',
  'response_cache_source_id',
  'batch_id',
  'contentFilters',
  'steps',
] as const satisfies (keyof Generation)[]

/**
 * Returns the values of a record's columns, in their order. Booleans, money and lists are converted:
 * SQL lacks the first and the last, and JSON has no whole numbers of the size of money.
 */
export const toValues = (generation: Generation): SealedValue[] => [
  generation.id,
  generation.request_id,
  generation.created_at,
  generation.workspace_id,
  generation.key_hash,
  generation.user_id,
  generation.api_type,
  generation.model,
  generation.provider_name,
  JSON.stringify(generation.provider_responses),
  generation.upstream_id,
  Number(generation.streamed),
  Number(generation.cancelled),
  generation.finish_reason,
  generation.native_finish_reason,
  generation.latency,
  generation.generation_time,
  generation.native_tokens_prompt,
  generation.native_tokens_completion,
  generation.native_tokens_reasoning,
  generation.native_tokens_cached,
  generation.native_tokens_completion_images,
  generation.settled_at,
  generation.total_cost?.toString() ?? null,
  generation.upstream_inference_cost?.toString() ?? null,
  generation.usageSource,
  Number(generation.is_byok),
  generation.service_tier,
  toText(generation.session_id),
  toText(generation.external_user),
  toText(generation.http_referer),
  toText(generation.title),
  toText(generation.user_agent),
  generation.error_type,
  generation.preset_id,
  generation.data_region,
  generation.router,
  generation.response_cache_source_id,
  generation.batch_id,
  generation.contentFilters.length === 0 ? '[]' : JSON.stringify(generation.contentFilters),
  generation.steps.length === 0 ? '[]' : renderSteps(generation.steps),
]

/** A text that every store and receiver takes: Postgres has no zero character. */
const toText = (text: string | null): string | null =>
  typeof text === 'string' && text.includes('\0') ? text.replaceAll('\0', '\ufffd') : text

const renderSteps = (steps: GenerationStep[]): string =>
  JSON.stringify(steps.map(({ cost, ...step }) => ({ ...step, cost: cost?.toString() ?? null })))
