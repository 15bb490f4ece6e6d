import type { StepCharge } from '../../../ledger/ledger.ts'
import type { Generation } from '../../../telemetry/generations.ts'
import type { RecorderEntry } from '../../../telemetry/recorder.ts'
import type { RecordLog } from '../../record-log.ts'
import type { SpoolPlace } from '../../spool.ts'
import type { Bundle, BundledMessage } from '../outbox/bundling.ts'
import type { SealedValue } from './sealing.ts'

/** A row to charge, and whether its call continues after it. */
export type ChargeRow = StepCharge & { continued: boolean }

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
  charge: ChargeRow | null
  /** What its destinations are told. */
  messages: BundledMessage[]
  entry: RecorderEntry
}

/** What the buffer needs. */
export interface RecordBufferOptions {
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
 * several of its records. What waits is in the log, so that it survives the process, and every
 * method of the store writes it first, so that all who ask see it. A record that comes alone is
 * written at once, and so is everything while the database takes none.
 */
export class RecordBuffer {
  readonly #options: RecordBufferOptions
  #entries: EntryRows[] = []
  #writtenAt = Number.NEGATIVE_INFINITY
  #timer: ReturnType<typeof setTimeout> | null = null
  #isFailing = false
  #isLogged = false

  constructor(options: RecordBufferOptions) {
    this.#options = options
  }

  /** Whether no record waits. */
  get isEmpty(): boolean {
    return this.#entries.length === 0
  }

  /** Writes entries, or keeps them in the log. Throws what the database throws for them. */
  record(entries: EntryRows[]): void {
    if (!(this.#mayWait(entries) && this.#keep(entries))) this.#writeNow(entries)
  }

  /** Writes what waits. Throws what the database throws. */
  flush(): void {
    if (this.isEmpty) return
    try {
      this.#write(this.#entries)
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

  #mayWait(entries: EntryRows[]): boolean {
    const { log } = this.#options
    if (!log?.isOpen || this.#isFailing || !entries.every(isPlain)) return false
    return !this.isEmpty || this.#options.ticks() - this.#writtenAt < PERIOD
  }

  /** Returns false where the log cannot be written: the database may be elsewhere. */
  #keep(entries: EntryRows[]): boolean {
    try {
      this.#options.log?.append(entries.map(renderEntry))
    } catch {
      return false
    }
    this.#isLogged = true
    const before = this.#entries.length
    this.#entries.push(...entries)
    this.#wait(Math.max(0, this.#writtenAt + PERIOD - this.#options.ticks()))
    if (before < MOST && this.#entries.length >= MOST) setImmediate(() => this.#writeWaiting())
    return true
  }

  /** Writes what waits after so many milliseconds, if nothing does before. */
  #wait(pause: number): void {
    this.#timer ??= setTimeout(() => this.#writeWaiting(), pause)
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
    this.#empty()
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
        this.#options.log?.keepCopy()
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
    if (!this.#isLogged) return
    try {
      this.#options.log?.clear()
      this.#isLogged = false
    } catch {
      // Tried again with the next ones. What is on record is not restored twice.
    }
  }

  #stopTimer(): void {
    if (this.#timer) clearTimeout(this.#timer)
    this.#timer = null
  }
}

// What else comes with a call is in the database when it ends, and a step is looked up there.
const isPlain = ({ record, messages, entry }: EntryRows): boolean =>
  record !== null &&
  !entry.transcript &&
  !entry.job &&
  messages.every(({ bundle }) => bundle.place !== null)

const renderEntry = ({ record, charge, messages }: EntryRows): string =>
  `{"record":${record?.json},"charge":${charge === null ? 'null' : renderCharge(charge)}${
    messages.length === 0 ? '' : `,"messages":[${messages.map(renderMessage).join(',')}]`
  }}`

const renderMessage = ({ bundle, index }: BundledMessage): string => {
  const { topic, receivers, created_at, place } = bundle
  bundle.json ??= JSON.stringify({ topic, receivers, created_at, place })
  return `{"of":${bundle.json},"index":${index},"size":${bundle.sizes[index]}}`
}

const renderCharge = (charge: ChargeRow): string =>
  JSON.stringify({ ...charge, nanos: String(charge.nanos) })

/** Creates the function that reads entries of the log, one after the other. Money is text there. */
export function createEntryParser(): (logged: unknown) => EntryRows {
  const bundles = new Map<string, Bundle>()
  return logged => {
    const { record, charge, messages = [] } = logged as LoggedEntry
    return {
      record: { values: record, json: JSON.stringify(record), generation: null },
      charge: charge && { ...charge, nanos: BigInt(charge.nanos) },
      messages: messages.map(message => parseMessage(bundles, message, String(record[0]))),
      entry: { generation: null, charge: null },
    }
  }
}

function parseMessage(
  bundles: Map<string, Bundle>,
  { of, index, size }: LoggedMessage,
  id: string,
): BundledMessage {
  const name = JSON.stringify(of)
  const bundle = bundles.get(name) ?? { ...of, ids: [], payloads: [], sizes: [] }
  bundles.set(name, bundle)
  bundle.ids[index] = id
  bundle.sizes[index] = size
  return { bundle, index }
}

interface LoggedEntry {
  record: SealedValue[]
  charge: (Omit<ChargeRow, 'nanos'> & { nanos: string }) | null
  messages?: LoggedMessage[]
}

interface LoggedMessage {
  of: Pick<Bundle, 'topic' | 'receivers' | 'created_at'> & { place: SpoolPlace }
  index: number
  size: number
}
