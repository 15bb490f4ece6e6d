import type { HomeOwners } from '../../network/containers/warm.ts'
import type { StoredCalls } from '../../resources/idempotency/shared.ts'
import type { Makers } from '../../resources/responses.ts'
import type { Marks } from '../../resources/workloads/used-tokens.ts'
import { answerWithin, run } from './connection.ts'
import { SWEEP_LIMITS } from './leases.ts'
import { LOST } from './nodes.ts'
import type { Pool } from './pool.ts'
import { CHANNEL } from './write.ts'

/** What the servers of a store know of one another's work. */
export interface SharedStore {
  marks: Marks
  /** Calls under clients’ keys, as a process sees and makes them. */
  openCalls(incarnation: string): StoredCalls
  /** Who has the homes of containers, as a process sees and takes them. */
  openOwners(incarnation: string): HomeOwners
  /** Which process makes what in the background. */
  openMakers(incarnation: string): Makers
  /**
   * Hears of what other processes do: that one has changed something, or wants a container. Also
   * told when it could not hear for a while. Returns what ends it.
   */
  listen(onNews: (news: News) => void): Promise<() => Promise<void>>
  /** Returns what no other database has, also one that was copied from it by its tables. */
  readIdentity(): Promise<string>
  /** Removes what is over. */
  sweep(): Promise<void>
}

/** What a process hears: of a change, of a container that is wanted, or that it may have missed some. */
export type News = 'change' | 'wanted' | 'unknown'

/** In milliseconds: how long a call waits for what others remember. */
const WAIT = 2_000

/** Creates what the servers of a store remember together. `name` is that of this process in news. */
export function createSharedStore(pool: Pool, name: string): SharedStore {
  const ask = <Row>(text: string, values: readonly unknown[] = []) =>
    answerWithin(WAIT, () => run<Row>(pool, text, values))
  return {
    marks: {
      add: async (mark, seconds) => (await ask(MARK, [mark, seconds])).length > 0,
      remove: async mark => void (await ask('delete from marks where name = ?', [mark])),
      list: async start =>
        (await ask<{ name: string }>(LIST_MARKS, [start])).map(mark => mark.name),
    },
    openCalls: incarnation => ({
      async begin({ name, fingerprint }) {
        for (;;) {
          const [begun] = await ask(BEGIN_CALL, [name, fingerprint, incarnation])
          if (begun) return null
          const [call] = await ask<FoundCall>(FIND_CALL, [name, LOST])
          // Else it was forgotten meanwhile.
          if (call) return call
        }
      },
      async end(name, sealed) {
        const values = [name, incarnation]
        if (sealed === null) await ask(FORGET_CALL, values)
        else await ask(END_CALL, [...values, sealed, sealed.length])
      },
      trim: async most => void (await ask(TRIM_CALLS, [most, MOST_CALLS])),
    }),
    openOwners: incarnation => ({
      async take(id) {
        const [taken] = await ask<{ before: string | null }>(TAKE_HOME, [id, incarnation, LOST])
        if (taken) return taken.before === incarnation ? 'kept' : 'new'
        const [owner] = await ask<{ name: string }>(WANT_HOME, [id])
        await ask('select pg_notify(?, ?)', [CHANNEL, `${name} wanted`])
        return { owner: owner?.name ?? '' }
      },
      giveBack: async id => void (await ask(LEAVE_HOME, [id, incarnation])),
      listWanted: async () =>
        (await ask<{ id: string }>(LIST_WANTED, [incarnation])).map(({ id }) => id),
    }),
    openMakers: incarnation => ({
      note: async id => void (await ask(MARK, [`maker ${id} ${incarnation}`, MAKER_SECONDS])),
      async isGone(id) {
        const [found] = await ask<{ is_gone: boolean }>(IS_GONE, [`maker ${id} `, LOST])
        return found?.is_gone ?? false
      },
    }),
    async listen(onNews) {
      const listening = await answerWithin(WAIT, () =>
        pool.listen(
          CHANNEL,
          payload => {
            const [by, what] = payload.split(' ')
            if (by !== name) onNews(what === 'wanted' ? 'wanted' : 'change')
          },
          () => onNews('unknown'),
        ),
      )
      return () => listening.unlisten().catch(() => undefined)
    },
    async readIdentity() {
      const [found] = await ask<{ identity: string }>(IDENTITY)
      return found?.identity ?? ''
    },
    async sweep() {
      await ask('delete from marks where ends_at <= clock_timestamp()')
      await ask(SWEEP_CALLS)
      await ask(SWEEP_HOMES, [LOST])
      for (const text of SWEEP_LIMITS) await ask(text)
    },
  }
}

const IDENTITY = `select system_identifier || ' ' ||
    (select oid from pg_database where datname = current_database()) as identity
  from pg_control_system()`

interface FoundCall {
  fingerprint: string
  begun_at: number
  sealed: string | null
  is_running: boolean
}

/** How many calls under clients’ keys are remembered. */
const MOST_CALLS = 10_000

// Whoever had the name has lost it when its time is over, by the clock of the database.
const MARK = `insert into marks (name, ends_at)
  values (?1, clock_timestamp() + ?2::float8 * interval '1 second')
  on conflict (name) do update set ends_at = excluded.ends_at
    where marks.ends_at <= clock_timestamp()
  returning name`

const LIST_MARKS = `select name from marks
  where starts_with(name, ?) and ends_at > clock_timestamp()`

/** The condition that the process of a row is there, as far as the others know. */
const isThere = (table: string, silence: string) => `exists (select 1 from nodes
    where nodes.incarnation = ${table}.incarnation and left_at is null
      and seen_at > clock_timestamp() - ${silence}::float8 * interval '1 second')`

/** In seconds: longer than anything is made. */
const MAKER_SECONDS = 86_400

// Of one that was never noted nothing is known.
const IS_GONE = `select count(*) > 0 and not bool_or(${isThere('maker', '?2')}) as is_gone
  from (select split_part(name, ' ', 3) as incarnation from marks where starts_with(name, ?1)) as maker`

const BEGIN_CALL = `insert into kept_calls (name, fingerprint, incarnation, begun_at, bytes)
  values (?, ?, ?, clock_timestamp(), 0)
  on conflict (name) do update set fingerprint = excluded.fingerprint,
      incarnation = excluded.incarnation, begun_at = excluded.begun_at, ended_at = null,
      sealed = null, bytes = 0
    where kept_calls.begun_at <= clock_timestamp() - interval '1 day'
  returning name`

const FIND_CALL = `select fingerprint, sealed, ended_at is null and ${isThere('kept_calls', '?2')} as is_running,
    extract(epoch from begun_at)::float8 * 1000 as begun_at
  from kept_calls where name = ?1`

const END_CALL = `update kept_calls
  set sealed = nullif(?3, ''), bytes = ?4::bigint, ended_at = clock_timestamp()
  where name = ?1 and incarnation = ?2`

const FORGET_CALL = 'delete from kept_calls where name = ? and incarnation = ?'

// Those that run are not forgotten.
const TRIM_CALLS = `delete from kept_calls where ended_at is not null and name in (
  select name from (
    select name, sum(bytes) over newest as bytes, row_number() over newest as number
    from kept_calls window newest as (order by begun_at desc, name)
  ) as kept where bytes > ?::bigint or number > ?::bigint)`

const SWEEP_CALLS = `delete from kept_calls where begun_at <= clock_timestamp() - interval '1 day'`

const TAKE_HOME = `insert into homes (container_id, incarnation, is_wanted) values (?1, ?2, false)
  on conflict (container_id) do update
    set incarnation = excluded.incarnation, is_wanted = false
    where homes.incarnation = excluded.incarnation or not ${isThere('homes', '?3')}
  returning (select incarnation from homes where container_id = ?1) as before`

const WANT_HOME = `update homes set is_wanted = true where container_id = ?
  returning (select name from nodes where nodes.incarnation = homes.incarnation) as name`

const LEAVE_HOME = 'delete from homes where container_id = ? and incarnation = ?'

const LIST_WANTED = 'select container_id as id from homes where incarnation = ? and is_wanted'

const SWEEP_HOMES = `delete from homes where not ${isThere('homes', '?1')}`
