import { answerWithin, PATIENCE, run } from './connection.ts'
import type { Pool } from './pool.ts'

/** A process that may have the jobs: the id of its node, and what no other process has. */
interface Claimant {
  id: string
  incarnation: string
}

/** What waits for the node that has the jobs, whichever node has begun it. */
export interface FoundWork {
  /** The number of the last message that was recorded for a destination. */
  outbox: number
  /** The jobs of videos that have not ended, and whether each is to be cancelled. */
  videos: Map<string, boolean>
  /** The batches that have not ended, and whether each is to be cancelled. */
  batches: Map<string, boolean>
}

/** Who does the jobs while this node has them. */
export interface Worker {
  begin(): Promise<void>
  /** Does what other nodes have begun. Called every second. */
  look(found: FoundWork): Promise<void>
  /** Ends what runs: another node may have the jobs. */
  end(): Promise<void>
}

/** The background work of all servers of a store, which one of them has. */
export interface Jobs {
  /** Whether it is this node’s, by its own clock. Asked before each piece of it: nobody waits. */
  readonly isHeld: boolean
  /** Claims the jobs once. Returns whether this node has them. */
  claim(): Promise<boolean>
  /** Claims the jobs from here on, and has them done while it has them. Resolves after the first try. */
  seek(worker: Worker): Promise<void>
  /** Claims them no more unless it has them. */
  retire(): void
  /** Ends the work and gives it to whoever claims it next. */
  release(): Promise<void>
  /** The id of this node. */
  readonly node: string
  /** Lists the keys of the calls that were recorded since this was asked last; none at first. */
  listUsedKeys(): Promise<(string | null)[]>
  /** Tells the node that has the jobs that something was seen. Never throws. */
  noteSighting(name: string): Promise<void>
  /** Lists what other nodes have seen since this was asked last; nothing at first. */
  listSightings(): Promise<string[]>
}

/** In milliseconds, between two claims. */
const BEAT = 1_000
/** In milliseconds: how long a node goes on with the jobs that the database does not hear. */
const ALONE = 10_000
/** In seconds: after so much silence another node has them. More than `ALONE`. */
const LOST = 20

/**
 * Claims the jobs for a node. Only the clock of the database says whether they are free, and who has
 * them counts since it was heard: it stops before another one may begin.
 */
export class ClaimedJobs implements Jobs {
  readonly #pool: Pool
  readonly #node: Claimant
  readonly #ticks: () => number
  /** When the database was last asked that said they are this node’s. */
  #heardAt: number | null = null
  #worker: Worker | null = null
  #isWorking = false
  /** Whether it was silent for so long that it had to stop, and has not ended its work. */
  #hasLapsed = false
  #isRetired = false
  #timer: ReturnType<typeof setInterval> | undefined
  #asking: Promise<void> | null = null
  #settling: Promise<void> | null = null
  #lastRecord: number | null = null
  #lastSighting: string | null = null
  /** When what was listed last was seen, by its name. */
  #sightings = new Map<string, string>()

  constructor(pool: Pool, node: Claimant, ticks: () => number) {
    this.#pool = pool
    this.#node = node
    this.#ticks = ticks
  }

  get isHeld(): boolean {
    return this.#heardAt !== null && this.#ticks() - this.#heardAt <= ALONE
  }

  get node(): string {
    return this.#node.id
  }

  async claim(): Promise<boolean> {
    await this.#ask()
    return this.isHeld
  }

  async seek(worker: Worker): Promise<void> {
    this.#worker = worker
    this.#timer = setInterval(() => void this.#beat(), BEAT)
    await this.#beat()
    await this.#settling
  }

  retire(): void {
    this.#isRetired = true
  }

  async release(): Promise<void> {
    this.#isRetired = true
    await this.#settling
    const worker = this.#worker
    this.#worker = null
    // They are claimed until it has ended.
    if (worker) await this.#endWork(worker)
    clearInterval(this.#timer)
    await this.#asking
    if (this.#heardAt === null) return
    this.#heardAt = null
    const { incarnation } = this.#node
    // Others wait for the silence of this one where it cannot be told.
    await answerWithin(PATIENCE.version, () => run(this.#pool, RELEASE, [incarnation])).catch(
      () => undefined,
    )
  }

  async listUsedKeys(): Promise<(string | null)[]> {
    const after = this.#lastRecord
    const rows = await answerWithin(PATIENCE.read, () =>
      run<{ key_hash: string | null; last: number }>(this.#pool, LIST_USED_KEYS, [after]),
    )
    this.#lastRecord = Math.max(after ?? 0, ...rows.map(({ last }) => last))
    return after === null ? [] : rows.map(({ key_hash }) => key_hash)
  }

  async noteSighting(name: string): Promise<void> {
    await answerWithin(PATIENCE.version, () => run(this.#pool, NOTE_SIGHTING, [name])).catch(
      () => undefined,
    )
  }

  async listSightings(): Promise<string[]> {
    const after = this.#lastSighting
    const rows = await answerWithin(PATIENCE.read, () =>
      run<SightingRow>(this.#pool, LIST_SIGHTINGS, [after]),
    )
    const known = this.#sightings
    this.#lastSighting = rows[0]?.now ?? null
    this.#sightings = new Map(
      rows.flatMap(({ name, seen_at }) => (name === null ? [] : [[name, seen_at]])),
    )
    if (after === null) return []
    return [...this.#sightings].flatMap(([name, at]) => (known.get(name) === at ? [] : name))
  }

  async #beat(): Promise<void> {
    if (this.#asking) return
    if (!this.#isRetired || this.#heardAt !== null) await this.#ask()
    this.#settling ??= this.#settle().finally(() => {
      this.#settling = null
    })
  }

  #ask(): Promise<void> {
    this.#asking ??= this.#claimNow().finally(() => {
      this.#asking = null
    })
    return this.#asking
  }

  async #claimNow(): Promise<void> {
    const { id, incarnation } = this.#node
    const askedAt = this.#ticks()
    try {
      const claimed = await answerWithin(PATIENCE.version, () =>
        run(this.#pool, CLAIM, [id, incarnation, LOST]),
      )
      // What was to be done meanwhile was left.
      if (this.#isWorking && !this.isHeld) this.#hasLapsed = true
      this.#heardAt = claimed.length > 0 ? askedAt : null
    } catch {
      // Counted as silence.
    }
  }

  /** Has the work done, or ended, as far as it is this node’s. */
  async #settle(): Promise<void> {
    const worker = this.#worker
    if (!worker) return
    try {
      if (!this.isHeld || this.#hasLapsed) await this.#endWork(worker)
      this.#hasLapsed = false
      if (!this.isHeld) return
      if (!this.#isWorking) await this.#beginWork(worker)
      const found = await answerWithin(PATIENCE.version, () => findWork(this.#pool))
      if (!this.isHeld) return
      await worker.look(found)
    } catch {
      // The store does not answer: it is tried again with the next beat.
    }
  }

  async #beginWork(worker: Worker): Promise<void> {
    this.#isWorking = true
    try {
      await worker.begin()
    } catch (thrown) {
      await this.#endWork(worker)
      throw thrown
    }
  }

  async #endWork(worker: Worker): Promise<void> {
    if (!this.#isWorking) return
    await worker.end()
    this.#isWorking = false
  }
}

// One of the same directory has ended: that is locked.
const CLAIM = `insert into jobs
  values ('jobs', ?1, ?2, clock_timestamp() + ?3::float8 * interval '1 second')
  on conflict (name) do update set node = excluded.node, incarnation = excluded.incarnation,
    until = excluded.until
  where jobs.node = excluded.node or jobs.until < clock_timestamp()
  returning 1`

const RELEASE = 'delete from jobs where incarnation = ?'

const FIND_WORK = `select
  coalesce((select last from numbers where name = 'outbox'), 0) as outbox,
  (select json_object_agg(id, cancel_requested_at is not null)::text from videos
    where ended_at is null) as videos,
  (select json_object_agg(id, status = 'cancelling')::text from batches
    where ended_at is null) as batches`

async function findWork(pool: Pool): Promise<FoundWork> {
  const [row] = await run<{ outbox: number; videos: string | null; batches: string | null }>(
    pool,
    FIND_WORK,
  )
  const parse = (text: string | null = null) =>
    new Map<string, boolean>(Object.entries(JSON.parse(text ?? '{}')))
  return { outbox: row?.outbox ?? 0, videos: parse(row?.videos), batches: parse(row?.batches) }
}

const LIST_USED_KEYS = `select key_hash, max(rowid) as last from generations
  where rowid > coalesce(?1::bigint, (select max(rowid) - 1 from generations)) group by key_hash`

const NOTE_SIGHTING = `insert into sightings values (?, clock_timestamp())
  on conflict (name) do update set seen_at = excluded.seen_at`

interface SightingRow {
  name: string | null
  seen_at: string
  now: string
}

// One that was seen before the last look may have been written after it.
const LIST_SIGHTINGS = `select name, seen_at::text as seen_at, asked.now::text as now
  from (select clock_timestamp() as now) as asked
  left join sightings on seen_at > coalesce(?::timestamptz, asked.now) - interval '10 seconds'
  order by seen_at`
