import type { Database, Statement } from 'bun:sqlite'
import { GatewayError, unavailable } from '../../../base/errors.ts'
import type { Mac } from '../../../base/mac.ts'
import type { Generation, RecorderEntry } from '../../../observability/generations/store.ts'
import type { WrittenMessages } from '../../../observability/outbox.ts'
import type { FreshCalls } from '../../../observability/rollups/slice.ts'
import { nameDatabase } from '../../data-files.ts'
import type { RecordLog } from '../../record-log.ts'
import {
  addParts,
  areTold,
  type EntryRows,
  RECORD_COLUMNS,
  type SealedValue,
  toRows,
} from '../../sql/generations/rows.ts'
import { BlockWriter } from '../../sql/outbox/blocks.ts'
import { BundledBatch, type BundlingOptions } from '../../sql/outbox/bundling.ts'
import { createRunner, retryWhileLocked } from '../write.ts'
import { isPlain, parseLog, RecordBuffer } from './buffer.ts'
import { createRecordSealer } from './sealing.ts'

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
    for (const { record } of entries) {
      if (!record) continue
      const row = insertRecord(record.values)
      columns = record.values.length
      if (records.push(record.json) === 1) first = row
      if (record.generation) written.push({ generation: record.generation, row })
    }
    const isTold = entries.some(({ messages }) => messages.length > 0)
    addParts(mac, isTold ? (findLast.get()?.seq ?? 0) : 0, entries).forEach(run)
    if (records.length > 0) sealRecords(first, records, columns)
    return written
  })
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

// A TypeError means a value that no column accepts.
const isConstraint = (error: unknown) =>
  error instanceof TypeError ||
  (error instanceof Error && 'code' in error && String(error.code).startsWith('SQLITE_CONSTRAINT'))
