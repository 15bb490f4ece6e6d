import type { StepCharge } from '../../../limits/ledger.ts'
import type { RecorderEntry } from '../../../observability/generations/store.ts'
import type { RecordLog } from '../../record-log.ts'
import type { EntryRows, SealedValue } from '../../sql/generations/rows.ts'
import type { Bundle, BundledMessage } from '../../sql/outbox/bundling.ts'

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
const PAUSE = 100

/**
 * Where records wait for their transaction while calls come fast: a transaction costs as much as
 * several of its records. Records are put into the log first, so that a disk that stands still is
 * met there, off the event loop. What waits is in the log, so that it survives the process, and every
 * method of the store writes it first, so that all who ask see it. A record that comes alone is
 * written as soon as it is in the log, and so is everything while the database takes none.
 */
export class RecordBuffer {
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
      this.#wait(PAUSE)
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
export const isPlain = ({ generation, transcript, job, result }: RecorderEntry): boolean =>
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
export function parseLog(lines: unknown[]): EntryRows[] {
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
