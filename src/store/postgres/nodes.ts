import type { Clock } from '../../base/clock.ts'
import { conflict, unavailable } from '../../base/errors.ts'
import { NodeLeases } from '../../limits/leases.ts'
import type { HeldBooks, HeldCall, Leases } from '../../limits/ledger.ts'
import type { AuditEntry } from '../../resources/audit/store.ts'
import { reviveAmount } from './amounts.ts'
import { answerWithin, PATIENCE, type Runner, run, transact } from './connection.ts'
import { ClaimedJobs, type Jobs } from './jobs.ts'
import { createLeaseStore, takeBack } from './leases.ts'
import type { Pool } from './pool.ts'
import { VERSION } from './schema.ts'
import type { PostgresWriter } from './write.ts'

/** A process that may write to a store as its server does. */
export interface NodeName {
  /** That of its data directory. */
  id: string
  /** That of the process. */
  incarnation: string
  /** What people know it by: that of its machine. */
  name: string
  version: string
  /** Whether no other may serve beside it: what it alone keeps, as files on its disk, others need. */
  isAlone: boolean
}

/** One of the servers of a store, as the others see it. */
export interface StoredNode extends Omit<NodeName, 'isAlone'> {
  is_alone: number
  /** Stands for the config that is in effect there; null until it has said so. */
  config_hash: string | null
  /** Which tables its program makes. */
  schema_version: number | null
  claimed_at: string
  /** When it was last heard of, by the clock of the database. */
  seen_at: string
  left_at: string | null
  /** For how many seconds nothing was heard of it. */
  silent_seconds: number
  /** Whether it has the background work of all. */
  has_jobs: boolean
  /** Whether it takes no more calls, or is told so. */
  is_draining: boolean
}

type Process = Pick<NodeName, 'id' | 'incarnation'>

/** That a process serves a store. */
export interface Claim {
  /** The name of the process. */
  readonly incarnation: string
  /** Whether it was heard for too long: another one may serve by now. */
  readonly isCutOff: boolean
  readonly jobs: Jobs
  /** Opens what this process may spend of what several do. */
  openLeases(books: HeldBooks): Leases
  /** Gives the store to whoever claims it next. */
  release(): Promise<void>
}

/** What a process is told while it has its place. */
export interface ClaimEvents {
  /** Once, when another process has claimed it all the same. */
  onLost(): void
  /** Each second: that it shall finish what runs, and end, and why. */
  onDrain(reason: string): void
}

/** The servers of a store. */
export interface NodeStore {
  /** The id of the server whose data directory this is; empty where none has served from it. */
  readonly ownId: string
  /** In seconds: after so much silence a server is taken for gone. */
  readonly lostAfter: number
  /**
   * Claims a place for a server, or for a command that must be alone. Throws 409 while another one is
   * there and either of them must be alone, or one that has a copy of this data directory.
   */
  claim(node: NodeName, clock: Clock, events: ClaimEvents): Promise<Claim>
  list(): Promise<StoredNode[]>
  /** Reads which calls ran at one when it was last heard of, and what they had cost by then. */
  readRunning(id: string): Promise<HeldCall[]>
  /** Notes what stands for the config of a process, beside the tables that its program makes. */
  describe(incarnation: string, config_hash: string): Promise<void>
  /**
   * Has a process that the database has not heard for so many seconds, five or more, begin no call of
   * a limit any more, and end, should it go on. Returns whether that is so, as of one that has left.
   */
  expel(process: Process, silence: number): Promise<boolean>
  /**
   * Lets others serve though this one has said nothing, and takes back what it has on lease: it must
   * be expelled. Returns whether it is the process that was there last: else nothing changes, and
   * nothing is audited.
   */
  forget(process: Process, entry: AuditEntry): Promise<boolean>
  /** Tells a process to finish what runs, and to end. Returns as `forget` does. */
  drain(process: Process, entry: AuditEntry): Promise<boolean>
  /** Notes that a process takes no more calls, for those that look. */
  noteDrain(incarnation: string): Promise<void>
}

/** In milliseconds, between two heartbeats. */
const BEAT = 1_000
/** In milliseconds: how long a server goes on that the database does not hear. */
const ALONE = 60_000
/** In seconds: after so much silence it is taken for gone. More than `ALONE`. */
export const LOST = 90
/**
 * In milliseconds: who has stood still for longer may have been expelled meanwhile. With the time since
 * the heartbeat before it, less than the silence for which anyone is.
 */
const STILL = 2_500

/** In milliseconds: who was not heard for so long on a directory that is locked has ended. */
const QUIET = 2_500
const LOOK = 250

/** How changes are made that are audited. */
interface Audited {
  transact: PostgresWriter['transact']
  /** Adds an entry to the transaction. */
  append(connection: Runner, entry: AuditEntry): Promise<void>
}

/**
 * Creates the store of servers. Only the clock of the database says how long one was silent, and
 * each counts for itself since it was heard: it stops before others take it for gone. `self` has the
 * id of this one once it has claimed its place.
 */
export const createNodeStore = (
  pool: Pool,
  self: { node: string },
  audited: Audited,
): NodeStore => ({
  get ownId() {
    return self.node
  },
  lostAfter: LOST,
  async claim(node, clock, { onLost, onDrain }) {
    await waitForPlace(pool, node)
    self.node = node.id
    const { ticks } = clock
    const pulse = new Pulse(pool, node, clock, { onLost, onDrain })
    const jobs = new ClaimedJobs(pool, node, ticks)
    return {
      ...{ incarnation: node.incarnation, jobs },
      openLeases: books =>
        new NodeLeases(
          { ...createLeaseStore(pool, node), confirm: () => pulse.confirm() },
          books,
          ticks,
        ),
      get isCutOff() {
        return pulse.isCutOff
      },
      async release() {
        await jobs.release()
        pulse.stop()
        // Another one waits for the silence of this one where it cannot be told.
        await run(pool, LEAVE, [node.id, node.incarnation]).catch(() => undefined)
      },
    }
  },
  async describe(incarnation, config_hash) {
    const parameters = [config_hash, VERSION, incarnation]
    await answerWithin(PATIENCE.version, () => run(pool, DESCRIBE, parameters))
  },
  list: () => answerWithin(PATIENCE.write, () => run<StoredNode>(pool, LIST)),
  async readRunning(id) {
    const [row] = await answerWithin(PATIENCE.write, () =>
      run<{ running: string | null }>(pool, 'select running from nodes where id = ?', [id]),
    )
    return row?.running ? JSON.parse(row.running, reviveAmount) : []
  },
  expel: async ({ id, incarnation }, silence) =>
    (await answerWithin(PATIENCE.write, () => run(pool, EXPEL, [id, incarnation, silence])))
      .length > 0,
  forget: ({ id, incarnation }, entry) =>
    changeNode(audited, FORGET, [id, incarnation], entry, async connection => {
      await takeBack(connection, id)
      await run(connection, 'delete from charged where node = ?', [id])
    }),
  drain: ({ incarnation }, entry) => changeNode(audited, DRAIN, [incarnation], entry),
  async noteDrain(incarnation) {
    await answerWithin(PATIENCE.version, () => run(pool, DRAIN, [incarnation]))
  },
})

/** How a process is heard by the database, and knows of its own pauses. */
class Pulse {
  readonly #pool: Pool
  readonly #process: Process
  readonly #clock: Clock
  readonly #events: ClaimEvents
  readonly #timer = setInterval(() => void this.#beat(), BEAT)
  #heardAt: number
  #asking: Promise<void> | null = null
  #isLost = false
  /** When it was seen to go on last, by both clocks: the steady one stands with a suspended machine. */
  #seenAt: { ticks: number; time: number }
  /** How often it has stood still, and how often it had when it asked what was answered. */
  #pauses = 0
  #heardPauses = 0

  constructor(pool: Pool, process: Process, clock: Clock, events: ClaimEvents) {
    this.#pool = pool
    this.#process = process
    this.#clock = clock
    this.#events = events
    this.#heardAt = clock.ticks()
    this.#seenAt = { ticks: this.#heardAt, time: clock.now().getTime() }
  }

  get isCutOff(): boolean {
    return this.#isLost || this.#clock.ticks() - this.#heardAt > ALONE
  }

  /** Null: this process was not forgotten. Else resolves when that is known. Throws 503. */
  confirm(): Promise<void> | null {
    this.#look()
    return this.#isSure ? null : this.#awaitAnswer()
  }

  stop(): void {
    clearInterval(this.#timer)
    this.#isLost = true
  }

  get #isSure(): boolean {
    return !this.#isLost && this.#pauses === this.#heardPauses
  }

  /** Notes a pause, if there was one since the last look. */
  #look(): void {
    const { ticks, time } = this.#seenAt
    this.#seenAt = { ticks: this.#clock.ticks(), time: this.#clock.now().getTime() }
    const elapsed = Math.max(this.#seenAt.ticks - ticks, this.#seenAt.time - time)
    if (elapsed > STILL) this.#pauses += 1
  }

  async #awaitAnswer(): Promise<void> {
    // What was asked before the pause says nothing of what was after it.
    for (let i = 0; i < 2 && !this.#isSure; i++) await this.#beat()
    if (this.#isLost) throw unavailable('This node has left the others')
    if (!this.#isSure)
      throw unavailable('This server stood still, and the database does not say what was meanwhile')
  }

  #beat(): Promise<void> {
    this.#look()
    this.#asking ??= this.#ask().finally(() => {
      this.#asking = null
    })
    return this.#asking
  }

  async #ask(): Promise<void> {
    if (this.#isLost) return
    const [askedAt, pauses] = [this.#clock.ticks(), this.#pauses]
    const { id, incarnation } = this.#process
    try {
      const [seen] = await answerWithin(PATIENCE.version, () =>
        run<{ reason: string | null }>(this.#pool, HEARTBEAT, [id, incarnation, VERSION]),
      )
      if (!seen) return this.#lose()
      this.#heardAt = askedAt
      this.#heardPauses = pauses
      if (seen.reason) this.#events.onDrain(seen.reason)
    } catch {
      // Counted as silence.
    }
  }

  #lose(): void {
    if (this.#isLost) return
    this.stop()
    this.#events.onLost()
  }
}

/** Changes a process and audits that, unless the statement finds it no more. Returns whether it did. */
async function changeNode(
  { transact, append }: Audited,
  statement: string,
  values: string[],
  entry: AuditEntry,
  follow?: (connection: Runner) => Promise<void>,
): Promise<boolean> {
  let isFound = false
  await answerWithin(PATIENCE.write, () =>
    transact(async connection => {
      isFound = (await run(connection, statement, values)).length > 0
      if (!isFound) return
      await follow?.(connection)
      await append(connection, entry)
    }),
  )
  return isFound
}

/**
 * Takes the place of a node. An earlier process of the same directory has ended, since that is locked;
 * one that is heard of meanwhile has a copy of it.
 */
async function waitForPlace(pool: Pool, node: NodeName): Promise<void> {
  for (let first: StoredNode | undefined; ; ) {
    let earlier: StoredNode | undefined
    await answerWithin(PATIENCE.write, () =>
      transact(pool, async connection => {
        earlier = await takePlace(connection, node)
      }),
    )
    if (!earlier) return
    first ??= earlier
    if (earlier.seen_at !== first.seen_at) throw refusePlace(earlier, node)
    await Bun.sleep(LOOK)
  }
}

/** Notes a node as one that serves, or returns the process that may be there in its place. */
async function takePlace(connection: Runner, node: NodeName): Promise<StoredNode | undefined> {
  const { id, incarnation, name, version, isAlone } = node
  await run(connection, 'select changes from gate for update')
  const parameters = [id, name, LOST, Number(isAlone)]
  const [other] = await run<StoredNode>(connection, FIND_OTHER, parameters)
  if (other) throw refusePlace(other, node)
  const [earlier] = await run<StoredNode>(connection, FIND_EARLIER, [id, QUIET / 1000])
  if (earlier) return earlier
  await run(connection, CLAIM, [id, incarnation, name, version, Number(isAlone)])
  return undefined
}

const refusePlace = (other: StoredNode, { id }: NodeName) =>
  conflict(
    `Another gateway serves from this database: ${other.name} (${other.id}), heard of ` +
      `${Math.round(other.silent_seconds)} s ago. ` +
      (other.id === id ? EXPLAIN_COPY : EXPLAIN_ALONE) +
      `If it has ended: gateway nodes forget ${other.id} --ended`,
  )

const EXPLAIN_COPY =
  'Its data directory is a copy of this one: remove node.id from the copy, which is another server. '

const EXPLAIN_ALONE =
  'Several can where the files of all are in one bucket (storage.s3), and no command runs that must ' +
  'be alone. '

const COLUMNS = `id, incarnation, name, version, is_alone, config_hash, schema_version, ${[
  'claimed_at',
  'seen_at',
  'left_at',
]
  .map(
    column => `to_char(${column} at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as ${column}`,
  )
  .join(
    ', ',
  )}, extract(epoch from clock_timestamp() - seen_at)::float8 as silent_seconds, left_at is null
  and exists (select 1 from jobs where jobs.incarnation = nodes.incarnation
    and until > clock_timestamp()) as has_jobs, left_at is null and exists
  (select 1 from marks where marks.name = 'drain ' || nodes.incarnation) as is_draining`

// A copy of a data directory on another machine is another node, though its id is the same.
const FIND_OTHER = `select ${COLUMNS} from nodes
  where left_at is null
    and (id = ?1 and name <> ?2 or id <> ?1 and greatest(is_alone, ?4::bigint) = 1)
    and seen_at > clock_timestamp() - ?3::float8 * interval '1 second'
  order by seen_at desc limit 1`

const FIND_EARLIER = `select ${COLUMNS} from nodes where id = ? and left_at is null
  and seen_at > clock_timestamp() - ?::float8 * interval '1 second'`

const CLAIM = `insert into nodes
    (id, incarnation, name, version, is_alone, claimed_at, seen_at, left_at, lent, running)
  values (?, ?, ?, ?, ?, clock_timestamp(), clock_timestamp(), null, null, null)
  on conflict (id) do update set incarnation = excluded.incarnation, name = excluded.name,
    version = excluded.version, is_alone = excluded.is_alone, claimed_at = excluded.claimed_at,
    seen_at = excluded.seen_at, left_at = null, lent = null, running = null`

const HEARTBEAT = `update nodes set seen_at = clock_timestamp()
  where id = ? and incarnation = ? and left_at is null
  returning case
    when exists (select 1 from marks where marks.name = 'drain ' || incarnation)
      then 'an operator wants so (gateway nodes drain)'
    when (select oldest from gate) > ?::bigint then 'the tables are for newer programs alone'
    end as reason`

// Longer than anything drains.
const DRAIN = `insert into marks (name, ends_at)
  select 'drain ' || incarnation, clock_timestamp() + interval '2 days'
  from nodes where incarnation = ? and left_at is null
  on conflict (name) do nothing returning name`

const DESCRIBE = `update nodes set config_hash = ?, schema_version = ?
  where incarnation = ?`

const LEAVE = `update nodes set left_at = clock_timestamp()
  where id = ? and incarnation = ? and left_at is null`

const EXPEL = `update nodes set left_at = coalesce(left_at, clock_timestamp())
  where id = ?1 and incarnation = ?2 and (left_at is not null
    or seen_at < clock_timestamp() - ?3::float8 * interval '1 second') returning id`

const FORGET = `with forgotten as (update nodes set left_at = coalesce(left_at, clock_timestamp())
    where id = ? and incarnation = ? returning incarnation),
  freed as (delete from jobs where incarnation in (select incarnation from forgotten))
  select incarnation from forgotten`

const LIST = `select ${COLUMNS} from nodes order by left_at is not null, seen_at desc`
