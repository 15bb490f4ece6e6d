import type { Database, Statement } from 'bun:sqlite'
import { GatewayError, unavailable } from '../../../base/errors.ts'
import type { Mac } from '../../../base/mac.ts'
import type { StepCharge } from '../../../limits/ledger.ts'
import type { Generation, RecorderEntry } from '../../../observability/generations/store.ts'
import type { WrittenMessages } from '../../../observability/outbox.ts'
import type { FreshCalls } from '../../../observability/rollups.ts'
import type { RecordLog } from '../../record-log.ts'
import {
  addParts,
  areTold,
  type EntryRows,
  RECORD_COLUMNS,
  renderAnchor,
  renderRecords,
  type SealedValue,
  toRows,
} from '../../sql/generations/rows.ts'
import { BlockWriter } from '../../sql/outbox/blocks.ts'
import {
  type Bundle,
  BundledBatch,
  type BundledMessage,
  type BundlingOptions,
} from '../../sql/outbox/bundling.ts'
import { createRunner, nameFile, retryWhileLocked } from '../write.ts'

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
const LOOK = 100

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
        try {
          const written = write.immediate(entries)
          for (const { generation, row } of written) fresh.note(generation, row)
        } catch (thrown) {
          throw nameFile(thrown, db.filename)
        }
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
    const timer = setInterval(() => this.#log?.keepsUp || resolve(), LOOK)
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

const INSERT = 'insert into record_seals (first_row, last_row, columns, seal) values (?, ?, ?, ?)'

/**
 * Creates the function that seals the records of a transaction, inside it: so many columns of each,
 * as JSON. They have the rows from `first` on, one after the other.
 */
export function createRecordSealer(db: Database, mac: Mac) {
  const insert = db.query(INSERT)
  return (first: number, records: string[], columns: number): void => {
    insert.run(first, first + records.length - 1, columns, mac(renderRecords(first, records)))
  }
}

/**
 * Writes the first seal where there is none: which records are from before. Without it, removed
 * seals would look like records that never had one.
 */
export function anchorRecords(db: Database, mac: Mac): void {
  if (!hasSeals(db) || db.query('select 1 from record_seals').get()) return
  const { last } = db.query('select coalesce(max(rowid), 0) as last from generations').get() as {
    last: number
  }
  db.query(INSERT).run(0, last, 0, mac(renderAnchor(last)))
}

// A database that is migrated in part has none.
const hasSeals = (db: Database): boolean =>
  db.query("select 1 from sqlite_schema where name = 'record_seals'").get() !== null

/** What the buffer needs. */
interface RecordBufferOptions {
  /** Without one, everything is written at once. */
  log: RecordLog | null
  /** Writes all or none, in one transaction. Throws what the database throws. */
  write(entries: EntryRows[]): void
  /** Whether the database can never take what it was given. */
  isRefusal(error: unknown): boolean
  /** Is told what keeps records from the database. Those that it refuses are in a copy of the log. */
  onFault?: ((error: unknown) => void) | undefined
  ticks(): number
}

/** In milliseconds: at most one transaction in this time, as long as all that comes can wait. */
const PERIOD = 20
/** As many records are written at once: others wait meanwhile. */
const MOST = 64
/** In milliseconds: before what could not be written is tried again. */
const RETRY_PAUSE = 100

/**
 * Where records wait for their transaction while calls come fast: a transaction costs as much as
 * several of its records. Records are put into the log first, so that a disk that stands still is
 * met there, off the event loop. What waits is in the log, so that it survives the process, and every
 * method of the store writes it first, so that all who ask see it. A record that comes alone is
 * written as soon as it is in the log, and so is everything while the database takes none.
 */
class RecordBuffer {
  readonly #options: RecordBufferOptions
  /** What waits: all of it is in the log. */
  #entries: EntryRows[] = []
  /** What is put into the log, until it is among these or in the database. */
  readonly #logging = new Set<EntryRows[]>()
  #writtenAt = Number.NEGATIVE_INFINITY
  #timer: ReturnType<typeof setTimeout> | null = null
  #isFailing = false
  #isLogged = false
  /** Whether the log has entries that are still to be recorded, and that are not among these. */
  #hasKept = false

  constructor(options: RecordBufferOptions) {
    this.#options = options
  }

  /** Whether no record waits. */
  get isEmpty(): boolean {
    return this.#entries.length === 0
  }

  /** Finds the oldest segment of the spool that these records refer to; infinite if none does. */
  findOldestSegment(): number {
    let oldest = Number.POSITIVE_INFINITY
    for (const { messages } of [...this.#logging, this.#entries].flat())
      for (const { bundle } of messages)
        oldest = Math.min(oldest, bundle.place?.segment ?? Number.POSITIVE_INFINITY)
    return oldest
  }

  /**
   * Puts entries into the log with the bundles of their messages, and waits for the disk. Resolves
   * with whether they are there, or in the database by then.
   */
  async log(entries: EntryRows[], bundles: Bundle[]): Promise<boolean> {
    const { log } = this.#options
    const mayWait = log?.isOpen && this.#mayWait(entries, bundles)
    if (mayWait) this.#logging.add(entries)
    if (mayWait) this.#isLogged = true
    try {
      // Bundles first: where a kill cuts the log, no call is there without its message.
      await (mayWait
        ? log.append([...bundles.map(renderBundle), ...entries.map(renderEntry)])
        : log?.pending)
      return mayWait ?? false
    } catch {
      // The database may be elsewhere.
      return mayWait ? !this.#logging.has(entries) : false
    }
  }

  /**
   * Writes entries, or lets them wait that are in the log: `log` was asked before. Throws what the
   * database throws for them.
   */
  record(entries: EntryRows[], isLogged: boolean): void {
    const isWritten = isLogged && !this.#logging.has(entries)
    this.#logging.delete(entries)
    if (isWritten) return
    if (isLogged && this.#isSoon()) this.#putAside(entries)
    else this.#writeNow(entries)
  }

  /** Appends entries that are still to be recorded to the log. Returns false where it takes none. */
  async keep(entries: EntryRows[]): Promise<boolean> {
    const { log } = this.#options
    if (!log?.isOpen || entries.length === 0) return false
    this.#isLogged = true
    this.#hasKept = true
    return log.append(entries.map(renderEntry)).then(
      () => true,
      () => false,
    )
  }

  /** Writes what waits. Throws what the database throws. */
  flush(): void {
    if (this.isEmpty) return
    try {
      // With what is being put into the log: that all of the log is written is said behind it.
      this.#write([this.#entries, ...this.#logging].flat())
      this.#logging.clear()
    } catch (error) {
      if (!this.#options.isRefusal(error)) throw error
      this.#writeSeparately()
    }
    this.#empty()
  }

  /** Writes what an earlier process has left in the log. Throws what the database throws. */
  restore(entries: EntryRows[]): void {
    const byColumns = Map.groupBy(entries, ({ record }) => record?.values.length)
    for (const group of byColumns.values()) {
      this.#entries = group
      this.flush()
    }
  }

  #mayWait(entries: EntryRows[], bundles: Bundle[]): boolean {
    if (this.#isFailing || !entries.every(({ entry }) => isPlain(entry))) return false
    return !bundles.some(({ place }) => place === null)
  }

  /** Whether the next transaction is to be soon, but not now. */
  #isSoon(): boolean {
    if (this.#isFailing) return false
    return !this.isEmpty || this.#options.ticks() - this.#writtenAt < PERIOD
  }

  #putAside(entries: EntryRows[]): void {
    this.#hasKept = false
    const before = this.#entries.length
    this.#entries.push(...entries)
    this.#wait(Math.max(0, this.#writtenAt + PERIOD - this.#options.ticks()))
    if (before < MOST && this.#entries.length >= MOST) setImmediate(() => this.#writeWaiting())
  }

  /** Writes what waits after so many milliseconds, if nothing does before. */
  #wait(pause: number): void {
    this.#timer ??= setTimeout(() => this.#writeAfterLog(), pause)
  }

  /** Writes entries together with what waits. */
  #writeNow(entries: EntryRows[]): void {
    try {
      this.#write([...this.#entries, ...entries])
    } catch (error) {
      if (this.isEmpty || !this.#options.isRefusal(error)) throw error
      this.flush()
      this.#write(entries)
    }
    this.#hasKept = false
    this.#empty()
  }

  /** Writes what waits when the disk has taken what it is given: it may stand still. */
  #writeAfterLog(): void {
    const write = () => this.#writeWaiting()
    const pending = this.#options.log?.pending
    if (pending) void pending.then(write, write)
    else write()
  }

  #writeWaiting(): void {
    this.#stopTimer()
    try {
      this.flush()
    } catch (error) {
      this.#wait(RETRY_PAUSE)
      if (!this.#isFailing) this.#options.onFault?.(error)
      this.#isFailing = true
    }
  }

  /** Writes one after the other. What the database refuses stays in a copy of the log. */
  #writeSeparately(): void {
    let entry = this.#entries[0]
    while (entry) {
      try {
        this.#write([entry])
      } catch (error) {
        if (!this.#options.isRefusal(error)) throw error
        this.#options.log?.keepCopy(renderEntry(entry))
        this.#options.onFault?.(error)
      }
      this.#entries.shift()
      entry = this.#entries[0]
    }
  }

  #write(entries: EntryRows[]): void {
    this.#options.write(entries)
    this.#writtenAt = this.#options.ticks()
    this.#isFailing = false
  }

  #empty(): void {
    this.#stopTimer()
    this.#entries = []
    if (!this.#isLogged || this.#hasKept || this.#logging.size > 0) return
    this.#isLogged = false
    this.#options.log?.clear().catch(() => {
      // Tried again with the next ones. What is on record is not restored twice.
      this.#isLogged = true
    })
  }

  #stopTimer(): void {
    if (this.#timer) clearTimeout(this.#timer)
    this.#timer = null
  }
}

// What else comes with a call is in the database when it ends, and a step is looked up there.
const isPlain = ({ generation, transcript, job, result }: RecorderEntry): boolean =>
  generation !== null && !transcript && !job && !result

const renderEntry = ({ record, charge }: EntryRows): string =>
  `{"record":${record?.json},"charge":${charge === null ? 'null' : renderCharge(charge)}}`

// Field by field: to copy a charge costs more than to render it.
const renderCharge = (charge: StepCharge): string => {
  const { id, step, day, settled_at, key_hash, user_id, workspace_id, byok, source } = charge
  const nanos = String(charge.nanos)
  const text = JSON.stringify({
    id,
    step,
    day,
    settled_at,
    key_hash,
    user_id,
    workspace_id,
    byok,
    nanos,
    source,
  })
  if (!charge.subaccounts) return text
  return `${text.slice(0, -1)},"subaccounts":${JSON.stringify(charge.subaccounts)}}`
}

const renderBundle = ({ topic, receivers, created_at, ids, sizes, place }: Bundle): string =>
  JSON.stringify({ bundle: { topic, receivers, created_at, ids, sizes, place } })

/**
 * Reads the lines of the log as entries, each with the messages that bundles before it name for its
 * call. Money is text there.
 */
function parseLog(lines: unknown[]): EntryRows[] {
  const entries: EntryRows[] = []
  const messages = new Map<SealedValue | undefined, BundledMessage[]>()
  for (const line of lines) {
    const { bundle, record, charge } = line as LoggedLine
    if (bundle) noteMessages(messages, { ...bundle, payloads: [] })
    if (record)
      entries.push({
        record: { values: record, json: JSON.stringify(record), generation: null },
        charge: charge && { ...charge, nanos: BigInt(charge.nanos) },
        messages: messages.get(record[0]) ?? [],
        entry: { generation: null, charge: null },
      })
  }
  return entries
}

function noteMessages(
  messages: Map<SealedValue | undefined, BundledMessage[]>,
  bundle: Bundle,
): void {
  for (const [index, id] of bundle.ids.entries())
    messages.set(id, [...(messages.get(id) ?? []), { bundle, index }])
}

/** A line has a bundle, or a record and its charge. */
interface LoggedLine {
  bundle?: Omit<Bundle, 'payloads'>
  record?: SealedValue[]
  charge: (Omit<StepCharge, 'nanos'> & { nanos: string }) | null
}
