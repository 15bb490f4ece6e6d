import type { Database } from 'bun:sqlite'
import { type AppSignature, identifyApp } from '../../../telemetry/rollups/apps.ts'
import {
  AMOUNTS,
  addCall,
  type CallFacts,
  type CallGroup,
  type CallSums,
  COUNTS,
  createSums,
  toDay,
  toHour,
  toWeek,
} from '../../../telemetry/rollups/calls.ts'
import { addSessionCall, type SessionSums } from '../../../telemetry/rollups/sessions.ts'
import type { CallReader } from './calls.ts'

/** What the calls of one slice add, by what names each row. */
class Slice {
  readonly hours = new Map<string, TimedSums>()
  readonly days = new Map<string, TimedSums>()
  readonly endpointDays = new Map<string, TimedSums>()
  readonly rows = new Map<number, { first: number; last: number }>()
  readonly sessions = new Map<string, SessionRow>()
}

interface TimedSums {
  start: number
  group: number
  sums: CallSums
}

interface SessionRow extends SessionSums {
  week: number
  app_id: number
  call: CallFacts
}

const SUM_COLUMNS = [...COUNTS, ...AMOUNTS]

/**
 * Creates the function that adds the next calls to the roll-ups and moves the cursor behind them,
 * in one transaction. Returns how many there were.
 */
export function createAdvance(db: Database, readCalls: CallReader): (limit: number) => number {
  const known = new KnownNames()
  const advance = db.transaction((limit: number, names: Names): number => {
    const cursor = db.query<{ last_row: number }, []>('select last_row from rollup_cursor').get()
    const calls = readCalls(cursor?.last_row ?? 0, Number.MAX_SAFE_INTEGER, limit)
    const last = calls.at(-1)
    if (!last) return 0
    writeSlice(db, sumCalls(calls, names))
    db.query(
      'insert into rollup_cursor (id, last_row) values (1, ?) ' +
        'on conflict (id) do update set last_row = excluded.last_row',
    ).run(last.row)
    return calls.length
  })
  return limit => {
    const names = new Names(db, known)
    const count = advance.immediate(limit, names)
    known.add(names)
    return count
  }
}

function sumCalls(calls: CallFacts[], names: Names): Slice {
  const slice = new Slice()
  for (const call of calls) {
    const hour = toHour(Date.parse(call.settled_at))
    const app_id = names.findApp(call)
    const group = names.findGroup(call, app_id)
    addTo(slice.hours, hour, group, call)
    addTo(slice.days, toDay(hour), group, call)
    addTo(slice.endpointDays, toDay(hour), names.findEndpointGroup(call), call)
    addRow(slice, hour, call.row)
    if (app_id !== 0 && call.session_id !== null) addSession(slice, toDay(hour), app_id, call)
  }
  return slice
}

function addTo(all: Map<string, TimedSums>, start: number, group: number, call: CallFacts): void {
  const name = `${start} ${group}`
  const found = all.get(name) ?? { start, group, sums: createSums() }
  all.set(name, found)
  addCall(found.sums, call)
}

function addRow({ rows }: Slice, hour: number, row: number): void {
  const found = rows.get(hour)
  if (!found) rows.set(hour, { first: row, last: row })
  else found.last = row
}

function addSession({ sessions }: Slice, day: number, app_id: number, call: CallFacts): void {
  const week = toWeek(day)
  const name = JSON.stringify([week, app_id, call.model, call.key_hash, call.session_id])
  const found = sessions.get(name) ?? { week, app_id, call, turns: 0, cost: 0n, unpriced_calls: 0 }
  sessions.set(name, found)
  addSessionCall(found, call)
}

function writeSlice(db: Database, slice: Slice): void {
  writeSums(db, 'usage_hours', slice.hours)
  writeSums(db, 'usage_days', slice.days)
  writeSums(db, 'usage_endpoint_days', slice.endpointDays)
  const addRows = db.query(
    'insert into usage_rows (start, first_row, last_row) values (?, ?, ?) ' +
      'on conflict (start) do update set last_row = excluded.last_row',
  )
  for (const [hour, { first, last }] of slice.rows) addRows.run(hour, first, last)
  const addSessionRow = db.query(
    'insert into usage_sessions ' +
      '(week, app_id, model, key_hash, session_id, turns, cost, unpriced_calls) ' +
      'values (?, ?, ?, ?, ?, ?, ?, ?) ' +
      'on conflict (week, app_id, model, key_hash, session_id) do update set ' +
      'turns = turns + excluded.turns, cost = cost + excluded.cost, ' +
      'unpriced_calls = unpriced_calls + excluded.unpriced_calls',
  )
  for (const { week, app_id, call, turns, cost, unpriced_calls } of slice.sessions.values()) {
    const { model, key_hash, session_id } = call
    addSessionRow.run(week, app_id, model, key_hash, session_id, turns, cost, unpriced_calls)
  }
}

function writeSums(db: Database, table: string, rows: Map<string, TimedSums>): void {
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

  findGroup(call: CallFacts, app_id: number): number {
    const { workspace_id, key_hash, user_id, model, provider_name, endpoint_id, is_byok } = call
    return this.#find({
      workspace_id,
      key_hash,
      user_id,
      model,
      provider_name,
      endpoint_id,
      app_id,
      is_byok,
    })
  }

  findEndpointGroup(call: CallFacts): number {
    const { workspace_id, model, provider_name, endpoint_id, is_byok } = call
    const anonymous = { key_hash: '', user_id: '', app_id: 0 }
    return this.#find({ workspace_id, model, provider_name, endpoint_id, is_byok, ...anonymous })
  }

  #find(group: CallGroup): number {
    const values = [
      group.workspace_id,
      group.key_hash,
      group.user_id,
      group.model,
      group.provider_name,
      group.endpoint_id,
      group.app_id,
      Number(group.is_byok),
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
  findApp(call: CallFacts): number {
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
