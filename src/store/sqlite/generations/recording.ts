import type { Database, Statement } from 'bun:sqlite'
import { GatewayError, unavailable } from '../../../base/errors.ts'
import type { Mac } from '../../../base/mac.ts'
import type { DaySpend } from '../../../limits/ledger.ts'
import type {
  Generation,
  GenerationStep,
  RecorderEntry,
} from '../../../observability/generations/store.ts'
import type { WrittenMessages } from '../../../observability/outbox.ts'
import type { FreshCalls } from '../../../observability/rollups/slice.ts'
import { nameDatabase } from '../../data-files.ts'
import type { RecordLog } from '../../record-log.ts'
import { addResult } from '../../sql/batches.ts'
import { appendCharge, countParts, countSpend, followHead } from '../../sql/ledger.ts'
import { BlockWriter } from '../../sql/outbox/blocks.ts'
import {
  BundledBatch,
  type BundledMessage,
  type BundlingOptions,
} from '../../sql/outbox/bundling.ts'
import { addMessages } from '../../sql/outbox.ts'
import { addTranscript } from '../../sql/transcripts.ts'
import { endVideo } from '../../sql/videos.ts'
import type { Statement as Step } from '../../sql/write.ts'
import { createRunner, retryWhileLocked } from '../write.ts'
import { type EntryRows, isPlain, parseLog, RecordBuffer } from './buffer.ts'
import { createRecordSealer, renderRecord, type SealedValue } from './sealing.ts'

/** What recording needs. */
interface RecordingOptions extends Omit<BundlingOptions, 'blocks'> {
  db: Database
  mac: Mac
  /** Is told what is on record. */
  fresh: FreshCalls
  /** Where records wait for their transaction. Without one, they do not. */
  log?: RecordLog | undefined
  /** Is told what keeps waiting records from the database. */
  onFault?: ((error: unknown) => void) | undefined
  /** In milliseconds. */
  ticks: () => number
}

/** In milliseconds: between two looks at a disk that may stand still. */
const PAUSE = 100

/** The recording of calls in a database. */
export class Recording {
  readonly #buffer: RecordBuffer
  readonly #log: RecordLog | null
  readonly #bundling: BundlingOptions
  readonly #isRecorded: (id: SealedValue) => boolean

  constructor({ db, mac, fresh, log, onFault, ticks, ...bundling }: RecordingOptions) {
    const write = createEntryWriter(db, mac)
    const find = db.query('select 1 from generations where id = ?')
    this.#log = log ?? null
    this.#bundling = { ...bundling, blocks: new BlockWriter() }
    this.#isRecorded = id => find.get(id) !== null
    this.#buffer = new RecordBuffer({
      log: this.#log,
      isRefusal: isConstraint,
      onFault,
      ticks,
      write(entries) {
        const written = nameDatabase(db.filename, () => write.immediate(entries))
        for (const { generation, row } of written) fresh.note(generation, row)
      },
    })
  }

  /**
   * Records a batch, and returns what destinations are told. Throws 409 where the store can never
   * take it, and what the store throws.
   */
  async record(batch: RecorderEntry[]): Promise<WrittenMessages[]> {
    let bundled: BundledBatch | null = null
    try {
      if (areTold(batch)) bundled = new BundledBatch(batch, this.#bundling)
      const entries: EntryRows[] = []
      for (const entry of batch) entries.push(toRows(entry, bundled?.messages[entries.length]))
      this.#buffer.record(entries, await this.#buffer.log(entries, bundled?.bundles ?? []))
      return bundled?.listWritten() ?? []
    } catch (error) {
      bundled?.takeBack()
      throw isConstraint(error)
        ? new GatewayError('conflict', 'The call cannot be recorded', { cause: error })
        : error
    }
  }

  /**
   * Keeps those of a batch that need nothing but their row in the log, and returns them. They are
   * still to be recorded: what is on record is not restored twice.
   */
  async keep(batch: RecorderEntry[]): Promise<RecorderEntry[]> {
    const kept = batch.filter(entry => !areTold([entry]) && isPlain(entry))
    return (await this.#buffer.keep(kept.map(entry => toRows(entry)))) ? kept : []
  }

  /** Whether records wait for their transaction. */
  get isWaiting(): boolean {
    return !this.#buffer.isEmpty
  }

  /** Finds the oldest segment of the spool that what waits refers to; infinite if none does. */
  findOldestSegment(): number {
    return this.#buffer.findOldestSegment()
  }

  /** Writes what waits. Throws 503 while another process writes, and what the store throws. */
  async flush(): Promise<void> {
    await this.#awaitLog()
    await retryWhileLocked(() => this.#buffer.flush())
    await this.#awaitLog()
  }

  /**
   * Writes what an earlier process has left in the log, and returns how many of its lines are not as
   * they were written. They stay in a copy of it.
   */
  async restore(): Promise<number> {
    const { records, garbled } = this.#log?.restore() ?? { records: [], garbled: 0 }
    const left = new Map(parseLog(records).map(entry => [entry.record?.values[0] ?? null, entry]))
    this.#buffer.restore([...left].flatMap(([id, entry]) => (this.#isRecorded(id) ? [] : [entry])))
    if (records.length + garbled > 0) await this.#log?.clear()
    return garbled
  }

  /** Waits until the log is written. Throws 503 where its disk does not keep up. */
  async #awaitLog(): Promise<void> {
    const pending = this.#log?.pending
    if (!pending) return
    const { promise: overdue, resolve } = Promise.withResolvers<void>()
    const timer = setInterval(() => this.#log?.keepsUp || resolve(), PAUSE)
    await Promise.race([pending.catch(() => undefined), overdue])
    clearInterval(timer)
    if (!this.#log?.keepsUp) throw unavailable('The disk does not keep up')
  }
}

/** Creates the transaction that writes entries. It returns the rows of the records that ended now. */
function createEntryWriter(db: Database, mac: Mac) {
  const insertRecord = createInserter(db)
  const sealRecords = createRecordSealer(db, mac)
  const findGeneration = db.query('select 1 from generations where id = ?')
  const findLast = db.query<{ seq: number }, []>(
    "select seq from sqlite_sequence where name = 'outbox'",
  )
  const run = createRunner(db)
  return db.transaction((entries: EntryRows[]) => {
    for (const { record, charge } of entries)
      if (!record && charge && findGeneration.get(charge.id))
        throw new TypeError('The call has ended')
    const written: { generation: Generation; row: number }[] = []
    const records: string[] = []
    let [first, columns] = [0, 0]
    let areTold = false
    for (const { record, messages, entry } of entries) {
      if (record) {
        const row = insertRecord(record.values)
        columns = record.values.length
        if (records.push(record.json) === 1) first = row
        if (record.generation) written.push({ generation: record.generation, row })
      }
      areTold ||= messages.length > 0
      if (entry.transcript) run(addTranscript(entry.transcript))
      if (entry.job) run(endVideo(entry.job))
      if (entry.result) run(addResult(entry.result))
    }
    charge(run, mac, entries)
    if (areTold) addMessages(findLast.get()?.seq ?? 0, entries).forEach(run)
    if (records.length > 0) sealRecords(first, records, columns)
    return written
  })
}

/** Chains the charges of entries, and counts them. */
function charge(run: (statement: Step) => void, mac: Mac, entries: EntryRows[]): void {
  if (entries.every(entry => entry.charge === null)) return
  run(
    followHead(newest => {
      let head = newest
      return entries.flatMap(({ charge, record }) => {
        if (!charge) return []
        const { hash, insert } = appendCharge(mac, head, charge, !record)
        head = hash
        return charge.subaccounts ? [insert, ...countParts(charge)] : [insert]
      })
    }),
  )
  for (const sum of sumPerDay(entries)) run(countSpend(sum))
}

/** Creates the function that inserts a record and returns its row. Earlier ones have fewer columns. */
function createInserter(db: Database): (values: SealedValue[]) => number {
  const statements = new Map<number, Statement>()
  return values => {
    const names = RECORD_COLUMNS.slice(0, values.length)
    let insert = statements.get(values.length)
    insert ??= db.query(
      `insert into generations (${names.join(', ')}) values (${names.map(() => '?').join(', ')})`,
    )
    statements.set(values.length, insert)
    return Number(insert.run(...values).lastInsertRowid)
  }
}

/** Whether destinations are told of some of these entries: they are of none of most batches. */
function areTold(batch: RecorderEntry[]): boolean {
  for (const { outbox } of batch) if (outbox !== undefined && outbox.length > 0) return true
  return false
}

function toRows(entry: RecorderEntry, messages: BundledMessage[] = []): EntryRows {
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

// Most calls of a batch share a few keys and one day, so there is one statement per key and day.
function sumPerDay(entries: EntryRows[]): Iterable<DaySpend> {
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

// A TypeError means a value that no column accepts.
const isConstraint = (error: unknown) =>
  error instanceof TypeError ||
  (error instanceof Error && 'code' in error && String(error.code).startsWith('SQLITE_CONSTRAINT'))

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
  generation.session_id,
  generation.external_user,
  generation.http_referer,
  generation.title,
  generation.user_agent,
  generation.error_type,
  generation.preset_id,
  generation.data_region,
  generation.router,
  generation.response_cache_source_id,
  generation.batch_id,
  generation.contentFilters.length === 0 ? '[]' : JSON.stringify(generation.contentFilters),
  generation.steps.length === 0 ? '[]' : renderSteps(generation.steps),
]

const renderSteps = (steps: GenerationStep[]): string =>
  JSON.stringify(steps.map(({ cost, ...step }) => ({ ...step, cost: cost?.toString() ?? null })))
