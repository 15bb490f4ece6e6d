import { awaitWithin } from '../../base/clock.ts'
import { GatewayError, unavailable } from '../../base/errors.ts'
import type { Mac } from '../../base/mac.ts'
import type { Seal } from '../../base/seal.ts'
import type { RecorderEntry } from '../../observability/generations/store.ts'
import type { WrittenMessages } from '../../observability/outbox.ts'
import type { RecordLog } from '../record-log.ts'
import {
  addParts,
  areTold,
  chainCharges,
  type EntryRows,
  RECORD_COLUMNS,
  renderAnchor,
  renderRecords,
  sumPerDay,
  toRows,
} from '../sql/generations/rows.ts'
import type { Recording } from '../sql/generations.ts'
import { checkAmount, followHead } from '../sql/ledger.ts'
import { BlockWriter } from '../sql/outbox/blocks.ts'
import { BundledBatch, type BundlingOptions } from '../sql/outbox/bundling.ts'
import { replaceAmount, reviveAmount } from './amounts.ts'
import { explainFaults, hurry, LEVEL, type Runner, readCode, run } from './connection.ts'
import { countCharges, lockLedger, sumMeters } from './leases.ts'
import type { Pool } from './pool.ts'
import { COUNTS_MOVES } from './schema.ts'
import { runStep, runSteps } from './write.ts'

/** What recording needs. */
interface RecordingOptions {
  pool: Pool
  mac: Mac
  /** The id of this node; empty for a command. */
  node: () => string
  /** Throws when the secret cannot be read. */
  seal: () => Seal
  /** Where entries are kept while the database is away. Without one, they are not. */
  log?: RecordLog | undefined
  /** Is told of a call that its destinations are not told, and why. */
  onUntold?: ((id: string, error: unknown) => void) | undefined
}

/** As many entries that were kept are written at once. */
const AT_ONCE = 500

/** A batch on its way. */
interface LateBatch {
  batch: RecorderEntry[]
  ended: Promise<WrittenMessages[]>
  isOver: boolean
}

/** In milliseconds: how long a batch is waited for. It goes on, and the next one waits for it. */
const PATIENCE = 500

/**
 * The recording of calls in Postgres: a batch is one transaction. What the database does not take
 * can be kept in the log of this node, sealed, until it is there again.
 */
export class PostgresRecording implements Recording {
  /** What is recorded is in the database, so nothing waits for it. */
  readonly isWaiting = false
  readonly isElsewhere = true
  readonly gathering = 4
  readonly #options: RecordingOptions
  readonly #bundling: BundlingOptions
  readonly #writer: EntryWriter
  readonly #recorded = new WeakSet<RecorderEntry>()
  /** What is in the log and not known to be on record, or on its way there: whether it has arrived. */
  readonly #kept = new Map<RecorderEntry, Promise<boolean>>()
  /** What was on its way when its connection broke: it may be on record. */
  #doubtful: RecorderEntry[] = []
  /** The question what of it is. */
  #finding: Promise<void> | null = null
  /** The batch that takes longer than it is waited for. */
  #late: LateBatch | null = null
  /** What was written for destinations, and nobody was told yet. */
  #untold: WrittenMessages[] = []

  constructor({ onUntold, ...options }: RecordingOptions) {
    this.#options = options
    this.#writer = new EntryWriter(options)
    const { seal } = options
    this.#bundling = { seal, onUntold, spool: null, blocks: new BlockWriter() }
  }

  /**
   * Records a batch, and returns what destinations are told. Throws 409 where the store can never
   * take it, and 503 where it cannot be reached or is slow: then it is asked again with the same.
   */
  async record(batch: RecorderEntry[]): Promise<WrittenMessages[]> {
    await this.#awaitLate()
    if (this.#doubtful.length > 0) await awaitWithin(PATIENCE, this.#awaitFound(), explainSlow)
    const open = batch.filter(entry => !this.#recorded.has(entry))
    // All of it was on its way before.
    if (open.length > 0 || batch.length === 0) this.#begin(open)
    await this.#awaitLate()
    await this.#forget(batch)
    return this.#untold.splice(0)
  }

  /** Keeps entries in the log, each once, and returns them. They are still to be recorded. */
  async keep(batch: RecorderEntry[]): Promise<RecorderEntry[]> {
    const { log } = this.#options
    if (!log?.isOpen) return []
    const added = batch.filter(entry => !this.#recorded.has(entry) && !this.#kept.has(entry))
    if (added.length > 0) this.#keepNow(log, added)
    const arrived = await Promise.all(batch.map(entry => this.#kept.get(entry) ?? true))
    return batch.filter((_, i) => arrived[i])
  }

  #keepNow(log: RecordLog, entries: RecorderEntry[]): void {
    const key = this.#options.seal()
    const written = log.append(entries.map(entry => renderKept(entry, key))).then(
      () => true,
      () => {
        for (const entry of entries) this.#kept.delete(entry)
        return false
      },
    )
    for (const entry of entries) this.#kept.set(entry, written)
  }

  async flush(): Promise<void> {}

  /**
   * Records what an earlier process has left in the log, and returns how many of its lines are not as
   * they were written. They stay in a copy of it.
   */
  async restore(): Promise<number> {
    const { log, seal } = this.#options
    if (!log) return 0
    const { records, garbled } = log.restore()
    const read = records.map(line => parseKept(line, seal()))
    const entries = read.filter(entry => entry !== null)
    this.#doubtful = entries
    await this.#findRecorded()
    const open = entries.filter(entry => !this.#recorded.has(entry))
    for (const entry of open) this.#kept.set(entry, Promise.resolve(true))
    for (let i = 0; i < open.length; i += AT_ONCE) await this.#writeKept(open.slice(i, i + AT_ONCE))
    this.#kept.clear()
    if (records.length + garbled > 0) await log.clear()
    return garbled + read.length - entries.length
  }

  /** Records what an earlier process has kept. What the store can never take stays in a copy of the log. */
  async #writeKept(batch: RecorderEntry[]): Promise<void> {
    try {
      await this.#write(batch)
    } catch (error) {
      if (!(error instanceof GatewayError) || error.type !== 'conflict') throw error
      if (batch.length > 1) for (const entry of batch) await this.#writeKept([entry])
    }
  }

  #begin(batch: RecorderEntry[]): void {
    const late: LateBatch = { batch, ended: this.#write(batch), isOver: false }
    const end = () => {
      late.isOver = true
    }
    late.ended.then(end, end)
    this.#late = late
  }

  async #write(batch: RecorderEntry[]): Promise<WrittenMessages[]> {
    try {
      const bundled = areTold(batch) ? new BundledBatch(batch, this.#bundling) : null
      const entries = batch.map((entry, i) => toRows(entry, bundled?.messages[i]))
      for (const { record } of entries) refuseOthers(record?.values ?? [])
      await this.#writer.write(entries)
      return bundled?.listWritten() ?? []
    } catch (error) {
      if (!isConstraint(error)) {
        this.#doubtful = batch
        throw error
      }
      if (batch.length === 1) this.#refuse(batch[0] as RecorderEntry)
      throw new GatewayError('conflict', 'The call cannot be recorded', { cause: error })
    }
  }

  /** Waits for the batch on its way, but not for long. */
  async #awaitLate(): Promise<void> {
    const late = this.#late
    if (!late) return
    try {
      const written = await awaitWithin(PATIENCE, late.ended, explainSlow)
      for (const entry of late.batch) this.#recorded.add(entry)
      this.#untold.push(...written)
      this.#late = null
    } catch (error) {
      if (late.isOver) this.#late = null
      throw error
    }
  }

  /** Finds out as `#findRecorded` does, once for all who wait for it. */
  #awaitFound(): Promise<void> {
    this.#finding ??= this.#findRecorded().finally(() => {
      this.#finding = null
    })
    return this.#finding
  }

  /** Finds out what is on record of what may be. */
  async #findRecorded(): Promise<void> {
    const { pool } = this.#options
    const doubtful = this.#doubtful
    const steps = doubtful.map(nameEntry)
    const rows = await explainFaults(async () => {
      // A transaction that was sent as a whole may still end without its connection.
      await lockLedger(pool)
      return run<{ place: number }>(pool, LIST_RECORDED, [JSON.stringify(steps)])
    })
    for (const { place } of rows) this.#recorded.add(doubtful[place - 1] as RecorderEntry)
    if (this.#doubtful === doubtful) this.#doubtful = []
  }

  /** Clears the log when all of it is on record. */
  async #forget(batch: RecorderEntry[]): Promise<void> {
    if (this.#kept.size === 0) return
    for (const entry of batch) this.#kept.delete(entry)
    // What stays is not recorded twice.
    if (this.#kept.size === 0) await this.#options.log?.clear().catch(() => undefined)
  }

  #refuse(entry: RecorderEntry): void {
    const { log, seal } = this.#options
    if (this.#kept.delete(entry)) log?.keepCopy(renderKept(entry, seal()))
  }
}

const explainSlow = () => unavailable('The database is slow')

/** What an entry is on record as: a call, or a step of one. */
const nameEntry = ({ generation, charge }: RecorderEntry) =>
  generation ? [generation.id, null] : [charge?.id ?? null, charge?.step ?? null]

const LIST_RECORDED = `select place from jsonb_array_elements(?::text::jsonb)
    with ordinality as listed (named, place)
  where case when named->>1 is null
    then exists (select 1 from generations where id = named->>0)
    else exists (select 1 from ledger where id = named->>0 and step = (named->>1)::bigint) end`

/** Binds a kept entry to its place. */
const CONTEXT = 'record'

/** Renders an entry as a line of the log that only the owner of the secret can read. */
const renderKept = (entry: RecorderEntry, seal: Seal): string =>
  JSON.stringify({
    record: seal.seal(
      JSON.stringify(entry, replaceAmount),
      CONTEXT,
      crypto.getRandomValues(new Uint8Array(12)),
    ),
  })

/** Reads a line as an entry; null for one that this engine has not written. */
function parseKept(line: unknown, seal: Seal): RecorderEntry | null {
  const { record } = line as { record?: unknown }
  const text = typeof record === 'string' ? seal.open(record, CONTEXT) : undefined
  return text === undefined ? null : JSON.parse(text, reviveAmount)
}

// JSON would leave out what is none of these.
function refuseOthers(values: unknown[]): void {
  for (const value of values)
    if (value !== null && typeof value !== 'string' && typeof value !== 'number')
      throw new TypeError('A value fits no column')
}

const BEGIN = `begin ${LEVEL}`

const TAKE_NUMBERS = `insert into numbers values ('outbox', ?)
  on conflict (name) do update set last = numbers.last + excluded.last returning last`

const LIST_ENDED = `select 1 from generations
  where id in (select value from json_each(?)) limit 1`

/** Where the records and the ledger end, and how often money was moved until then. */
interface Ends {
  moves: number
  row: number
  seq: number
  hash: string
}

/** Writes what is recorded, numbered, sealed and chained after what all nodes have written. */
class EntryWriter {
  readonly #pool: Pool
  readonly #mac: Mac
  readonly #node: () => string
  /** As this process has left them. */
  #left: Ends | null = null
  /** Whether another one has moved money since, as it does now and then. */
  #isShared = false

  constructor({ pool, mac, node }: Pick<RecordingOptions, 'pool' | 'mac' | 'node'>) {
    this.#pool = pool
    this.#mac = mac
    this.#node = node
  }

  /**
   * Writes entries. Where nothing was moved since this process did, one statement does it, and finds
   * out by itself; else, and for what few calls have, a transaction that looks first.
   */
  async write(entries: EntryRows[]): Promise<void> {
    const left = this.#left
    this.#left = null
    if (left && !this.#isShared && isPlain(entries)) {
      const { values, next } = this.#append(left, entries)
      const written = await explainFaults(() => run(this.#pool, WRITE_ENTRIES, [...values, 0]))
      if (written.length > 0) {
        this.#left = next
        return
      }
    }
    await explainFaults(() =>
      this.#pool.watch(
        useConnection(this.#pool, async connection => {
          const found = await begin(connection, entries)
          // What fits no column is found before the end is sent.
          const { values, next } = this.#append(found, entries)
          const [written] = await Promise.all([
            run(connection, WRITE_ENTRIES, [...values, 1]),
            run(connection, 'commit'),
          ])
          if (written.length === 0) throw unavailable('The numbers of the records are missing')
          // Nodes that take turns would guess in vain.
          this.#isShared = left !== null && found.moves !== left.moves + 1
          this.#left = next
        }),
      ),
    )
  }

  /** What a statement needs to append to what ends there, and where it ends then. */
  #append(
    { moves, row, seq, hash }: Ends,
    entries: EntryRows[],
  ): { values: unknown[]; next: Ends } {
    const records = entries.flatMap(({ record }) => (record ? [record.json] : []))
    const [charges, head] = chainCharges(this.#mac, hash, entries)
    const spend = Array.from(sumPerDay(entries), sum => [
      ...[sum.key_hash, sum.user_id, sum.workspace_id],
      ...[sum.day, Number(sum.byok), String(checkAmount(sum.nanos))],
    ])
    const next = { moves: moves + 1, row: row + records.length, seq: seq + charges.length }
    const values = [
      ...[moves, row + 1, next.row, `[${records.join(',')}]`],
      ...[RECORD_COLUMNS.length, this.#mac(renderRecords(row + 1, records))],
      ...[seq, JSON.stringify(charges, renderAmount), JSON.stringify(spend)],
      ...[JSON.stringify(sumMeters(entries)), this.#node()],
    ]
    return { values, next: { ...next, hash: head } }
  }
}

const renderAmount = (_: string, value: unknown) =>
  typeof value === 'bigint' ? String(value) : value

/** Whether entries are records and charges alone. */
const isPlain = (entries: EntryRows[]): boolean =>
  entries.every(({ record, messages }) => record !== null && messages.length === 0) &&
  addParts(null, 0, entries).length === 0

/** Begins the transaction of entries: writes what only few have, and returns what the others follow. */
async function begin(connection: Runner, entries: EntryRows[]): Promise<Ends> {
  const messages = entries.reduce((sum, entry) => sum + entry.messages.length, 0)
  const end = { seq: 0, hash: '' }
  const [, , [numbers], [newest]] = await Promise.all([
    run(connection, BEGIN),
    hurry(connection),
    lockLedger(connection),
    messages === 0 ? [] : run<{ last: number }>(connection, TAKE_NUMBERS, [messages]),
    refuseEnded(connection, entries),
    runStep(
      connection,
      followHead((hash, seq) => {
        Object.assign(end, { hash, seq })
        return []
      }),
    ),
  ])
  await runSteps(connection, addParts(null, (newest?.last ?? 0) - messages, entries))
  return { ...end, moves: numbers?.moves ?? 0, row: numbers?.last ?? 0 }
}

/** Does something in a transaction that it begins and ends itself. */
async function useConnection(
  pool: Pool,
  work: (connection: Runner) => Promise<void>,
): Promise<void> {
  const connection = await pool.reserve()
  try {
    await work(connection)
  } catch (error) {
    // Says only that there is none any more where the end was sent already.
    await run(connection, 'rollback').catch(() => undefined)
    throw error
  } finally {
    connection.release()
  }
}

// A step of a call that has a record comes too late.
async function refuseEnded(connection: Runner, entries: EntryRows[]): Promise<void> {
  const ids = entries.flatMap(({ record, charge }) => (!record && charge ? [charge.id] : []))
  if (ids.length === 0) return
  const ended = await run(connection, LIST_ENDED, [JSON.stringify(ids)])
  if (ended.length > 0) throw new TypeError('The call has ended')
}

const NUMBERS = new Set<string>([
  ...['streamed', 'cancelled', 'is_byok', 'total_cost', 'upstream_inference_cost'],
  ...RECORD_COLUMNS.filter(name => name.startsWith('native_tokens')),
])
const FRACTIONS = new Set<string>(['latency', 'generation_time'])

const findType = (name: string): string =>
  NUMBERS.has(name) ? '::bigint' : FRACTIONS.has(name) ? '::double precision' : ''

// One list of JSON for all rows of a table: a fifth of what a parameter for each value costs. What a
// statement waits for is newer than what it sees, so all of it depends on that nothing was moved. A
// program from before this was counted may move money beside this one.
const WRITE_ENTRIES = `with turn as (
    update numbers set moves = moves + 1, last = ?3::bigint
    where name = 'generations' and moves = ?1::bigint and (?12::bigint = 1 or not exists (
      select from nodes where coalesce(schema_version, 0) < ${COUNTS_MOVES} and left_at is null
        and seen_at > clock_timestamp() - interval '90 seconds'))
    returning 1),
  records as (
    insert into generations (rowid, ${RECORD_COLUMNS.map(name => `"${name}"`).join(', ')})
    select ?2::bigint + place - 1,
      ${RECORD_COLUMNS.map((name, i) => `(record->>${i})${findType(name)}`).join(', ')}
    from turn, jsonb_array_elements(?4::text::jsonb) with ordinality as listed (record, place)),
  sealed as (
    insert into record_seals (n, first_row, last_row, columns, seal)
    select (select coalesce(max(n), 0) + 1 from record_seals), ?2::bigint, ?3::bigint, ?5::bigint, ?6
    from turn where ?2::bigint <= ?3::bigint),
  charges as (
    insert into ledger (seq, id, step, settled_at, key_hash, user_id, workspace_id, byok, nanos,
      source, hash, several)
    select ?7::bigint + place, row->>0, (row->>1)::bigint, row->>2, row->>3, row->>4, row->>5,
      (row->>6)::bigint, (row->>7)::bigint, row->>8, row->>9, (row->>10)::bigint
    from turn, jsonb_array_elements(?8::text::jsonb) with ordinality as listed (row, place)
    returning seq),
  sums as (
    insert into spend (key_hash, user_id, workspace_id, day, byok, nanos)
    select sum->>0, sum->>1, sum->>2, (sum->>3)::bigint, (sum->>4)::bigint, (sum->>5)::bigint
    from turn, jsonb_array_elements(?9::text::jsonb) as listed (sum)
    on conflict (key_hash, day, byok) do update set nanos = spend.nanos + excluded.nanos),
  ${countCharges('turn', '?10', '?11')},
  own as (
    insert into charged (last_row, first_row, node)
    select max(seq), min(seq), ?11 from charges where ?11 <> '' having count(*) > 0)
  select 1 from turn`

const LAST_UNSEALED = `select coalesce(max(rowid), 0) as last from generations
  having not exists (select 1 from record_seals)`

/** Writes the first seal of records where there is none: which records are from before. */
export async function anchorRecords(connection: Runner, mac: Mac): Promise<void> {
  for (const { last } of await run<{ last: number }>(connection, LAST_UNSEALED))
    await run(connection, SEAL_RECORDS, [0, last, 0, mac(renderAnchor(last))])
}

const SEAL_RECORDS = `insert into record_seals (n, first_row, last_row, columns, seal)
  values ((select coalesce(max(n), 0) + 1 from record_seals), ?, ?, ?, ?)`

// A TypeError means a value that no column accepts. Classes 22, 23 and 54: values, constraints, and
// what is too large for the engine.
const isConstraint = (error: unknown): boolean =>
  error instanceof TypeError || /^(22|23|54)/.test(readCode(error))
