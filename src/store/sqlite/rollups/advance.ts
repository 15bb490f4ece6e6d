import type { Database } from 'bun:sqlite'
import { type AppSignature, identifyApp } from '../../../observability/rollups/apps.ts'
import {
  AMOUNTS,
  addSums,
  type CallGroup,
  type CallSums,
  COUNTS,
  createSums,
  toDay,
} from '../../../observability/rollups/calls.ts'
import {
  type FreshCalls,
  type HourSums,
  Slice,
  type SummedCall,
} from '../../../observability/rollups/slice.ts'
import type { CallReader } from './calls.ts'

/** Sums of one hour or day and one group. */
interface TimedSums {
  start: number
  group: number
  sums: CallSums
}

const SUM_COLUMNS = [...COUNTS, ...AMOUNTS]

/**
 * Creates the function that adds the next calls to the roll-ups and moves the cursor behind them,
 * in one transaction. Returns how many there were. The `fresh` calls among them are not read.
 */
export function createAdvance(
  db: Database,
  readCalls: CallReader,
  fresh: FreshCalls,
): (limit: number) => number {
  const known = new KnownNames()
  const findCursor = db.query<{ last_row: number }, []>('select last_row from rollup_cursor')
  const advance = db.transaction((limit: number, names: Names): Slice[] => {
    const { last_row: cursor } = findCursor.get() ?? { last_row: 0 }
    const slices = listNext(cursor, limit).filter(({ count }) => count > 0)
    for (const slice of slices) writeSlice(db, slice, names)
    const last = slices.at(-1)
    if (last) moveCursor(db, last.last)
    return slices
  })

  /** Lists what comes after the cursor: the fresh calls as they are, and what has to be read. */
  function listNext(cursor: number, limit: number): Slice[] {
    const { slice } = fresh
    if (slice.first <= cursor) return [read(cursor, Number.MAX_SAFE_INTEGER, limit)]
    const before = read(cursor, slice.first - 1, limit)
    if (before.count === limit) return [before]
    return [before, slice, read(slice.last, Number.MAX_SAFE_INTEGER, limit)]
  }

  function read(after: number, last: number, limit: number): Slice {
    const slice = new Slice()
    for (const call of readCalls(after, last, limit)) slice.add(call, call)
    return slice
  }

  return limit => {
    const names = new Names(db, known)
    const slices = advance.immediate(limit, names)
    known.add(names)
    // Another process may have added some of them.
    if ((slices.at(-1)?.last ?? 0) >= fresh.slice.first) fresh.clear()
    return slices.reduce((sum, { count }) => sum + count, 0)
  }
}

const moveCursor = (db: Database, row: number) =>
  db
    .query(
      'insert into rollup_cursor (id, last_row) values (1, ?) ' +
        'on conflict (id) do update set last_row = excluded.last_row',
    )
    .run(row)

function writeSlice(db: Database, slice: Slice, names: Names): void {
  const [hours, days, endpointDays] = [new Sums(), new Sums(), new Sums()]
  for (const shared of slice.hours.values()) {
    const { hour, call, sums } = shared
    const group = names.findGroup(shared, names.findApp(call))
    hours.add(hour, group, sums)
    days.add(toDay(hour), group, sums)
    endpointDays.add(toDay(hour), names.findEndpointGroup(shared), sums)
  }
  writeSums(db, 'usage_hours', hours)
  writeSums(db, 'usage_days', days)
  writeSums(db, 'usage_endpoint_days', endpointDays)
  writeRows(db, slice)
  writeSessions(db, slice, names)
}

/** Sums by their time and group. */
class Sums extends Map<string, TimedSums> {
  add(start: number, group: number, more: CallSums): void {
    const name = `${start} ${group}`
    const found = this.get(name) ?? { start, group, sums: createSums() }
    this.set(name, found)
    addSums(found.sums, more)
  }
}

function writeRows(db: Database, { rows }: Slice): void {
  const add = db.query(
    'insert into usage_rows (start, first_row, last_row) values (?, ?, ?) ' +
      'on conflict (start) do update set last_row = excluded.last_row',
  )
  for (const [hour, { first, last }] of rows) add.run(hour, first, last)
}

function writeSessions(db: Database, { sessions }: Slice, names: Names): void {
  const add = db.query(
    'insert into usage_sessions ' +
      '(week, app_id, model, key_hash, session_id, turns, cost, unpriced_calls) ' +
      'values (?, ?, ?, ?, ?, ?, ?, ?) ' +
      'on conflict (week, app_id, model, key_hash, session_id) do update set ' +
      'turns = turns + excluded.turns, cost = cost + excluded.cost, ' +
      'unpriced_calls = unpriced_calls + excluded.unpriced_calls',
  )
  for (const { week, call, turns, cost, unpriced_calls } of sessions.values()) {
    const { model, key_hash, session_id } = call
    const app_id = names.findApp(call)
    if (app_id !== 0)
      add.run(week, app_id, model, key_hash ?? '', session_id, turns, cost, unpriced_calls)
  }
}

function writeSums(db: Database, table: string, rows: Sums): void {
  const add = db.query(
    `insert into ${table} (start, group_id, ${SUM_COLUMNS.join(', ')})
     values (?, ?, ${SUM_COLUMNS.map(() => '?').join(', ')})
     on conflict (start, group_id) do update set
     ${SUM_COLUMNS.map(name => `${name} = ${name} + excluded.${name}`).join(', ')}`,
  )
  for (const { start, group, sums } of rows.values())
    add.run(start, group, ...SUM_COLUMNS.map(name => sums[name]))
}

/** The most names that are kept in memory. */
const MOST_KNOWN = 20_000

/** Ids of groups and apps that are on record. They never change, and none is ever removed. */
class KnownNames {
  readonly groups = new Map<string, number>()
  readonly apps = new Map<string, number>()

  /** Adds what a transaction has found or made, once that is on record. */
  add({ groups, apps }: Pick<Names, 'groups' | 'apps'>): void {
    if (this.groups.size > MOST_KNOWN) this.groups.clear()
    if (this.apps.size > MOST_KNOWN) this.apps.clear()
    for (const [name, id] of groups) this.groups.set(name, id)
    for (const [name, id] of apps) this.apps.set(name, id)
  }
}

/** Finds the ids of groups and apps, and makes those that are new. For one transaction. */
class Names {
  readonly #db: Database
  readonly #known: KnownNames
  readonly groups = new Map<string, number>()
  readonly apps = new Map<string, number>()

  constructor(db: Database, known: KnownNames) {
    this.#db = db
    this.#known = known
  }

  findGroup(shared: HourSums, app_id: number): number {
    const { key_hash, user_id } = shared.call
    return this.#find(shared, { key_hash: key_hash ?? '', user_id, app_id })
  }

  findEndpointGroup(shared: HourSums): number {
    return this.#find(shared, { key_hash: '', user_id: '', app_id: 0 })
  }

  #find(
    { call, endpoint_id }: HourSums,
    { key_hash, user_id, app_id }: Pick<CallGroup, 'key_hash' | 'user_id' | 'app_id'>,
  ): number {
    const { workspace_id, model, provider_name, is_byok } = call
    const values = [
      ...[workspace_id, key_hash, user_id, model, provider_name ?? ''],
      ...[endpoint_id, app_id, Number(is_byok)],
    ]
    const name = JSON.stringify(values)
    const known = this.#known.groups.get(name) ?? this.groups.get(name)
    if (known !== undefined) return known
    const id = this.#findStored(values) ?? this.#insertGroup(values)
    this.groups.set(name, id)
    return id
  }

  #findStored(values: (string | number)[]): number | undefined {
    return this.#db
      .query<{ id: number }, (string | number)[]>(
        `select id from usage_groups where workspace_id = ? and key_hash = ? and user_id = ?
         and model = ? and provider_name = ? and endpoint_id = ? and app_id = ? and is_byok = ?`,
      )
      .get(...values)?.id
  }

  #insertGroup(values: (string | number)[]): number {
    const insert = this.#db.query(
      `insert into usage_groups (workspace_id, key_hash, user_id, model, provider_name,
       endpoint_id, app_id, is_byok) values (?, ?, ?, ?, ?, ?, ?, ?)`,
    )
    return Number(insert.run(...values).lastInsertRowid)
  }

  /** Returns 0 for a call that names no app. */
  findApp(call: SummedCall): number {
    const name = JSON.stringify([call.http_referer, call.title])
    const known = this.#known.apps.get(name) ?? this.apps.get(name)
    if (known !== undefined) return known
    const signature = identifyApp(call)
    const id = signature === null ? 0 : this.#findStoredApp(signature)
    this.apps.set(name, id)
    return id
  }

  #findStoredApp(app: AppSignature): number {
    const found = this.#db
      .query<{ id: number }, [string]>('select id from apps where identity = ?')
      .get(app.identity)
    if (found) return found.id
    const insert = this.#db.query('insert into apps (identity, name, slug) values (?, ?, ?)')
    const slug = this.#chooseSlug(app.slug)
    return Number(insert.run(app.identity, app.name, slug).lastInsertRowid)
  }

  // Two apps never share a slug: the second gets a number that no other one has.
  #chooseSlug(slug: string): string {
    const isTaken = this.#db.query<object, [string]>('select 1 from apps where slug = ?')
    if (!isTaken.get(slug)) return slug
    for (let number = 2; ; number++)
      if (!isTaken.get(`${slug}-${number}`)) return `${slug}-${number}`
  }
}
