import { conflict } from '../../../src/base/errors.ts'
import { meetsCondition } from '../../../src/observability/analytics.ts'
import type { Generation } from '../../../src/observability/generations/store.ts'
import { type App, identifyApp } from '../../../src/observability/rollups/apps.ts'
import {
  addCall,
  type CallFacts,
  createSums,
  toDay,
  toHour,
  toWeek,
} from '../../../src/observability/rollups/calls.ts'
import {
  addSessionCall,
  type CellBounds,
  FEWEST_TURNS,
  type SessionCell,
  type SessionSums,
  TURN_RANGES,
} from '../../../src/observability/rollups/sessions.ts'
import type { RollupStore, SumDimension, SumQuery } from '../../../src/observability/rollups.ts'
import type { Connection, Memory } from './memory.ts'

const CURSOR = 'rollups'

/** Roll-ups in memory: nothing but a cursor is kept, and everything is counted when asked for. */
export const createMemoryRollupStore = (connection: Connection): RollupStore => ({
  advance: limit =>
    connection.write(memory => {
      const from = readCursor(memory)
      const calls = listAll(memory).slice(from, from + limit)
      if (calls.length === 0) return 0
      for (const call of calls) addApp(memory, call)
      setCursor(memory, from + calls.length)
      return calls.length
    }),
  reset: () =>
    connection.write(memory => {
      if (memory.evicted.all().length > 0)
        throw conflict('Older calls are no longer on record: their sums stay')
      setCursor(memory, 0)
    }),
  sum: query =>
    connection.read(memory => {
      const meant = listCounted(memory).filter(call => isMeant(memory, call, query))
      const groups = Map.groupBy(meant, call =>
        JSON.stringify([
          query.isByTime ? readStart(call, query) : null,
          ...query.by.map(name => readDimension(memory, call, name)),
        ]),
      )
      return [...groups].map(([name, calls]) => {
        const [start, ...values] = JSON.parse(name)
        const sums = createSums()
        for (const call of calls) addCall(sums, call, call.isFiltered)
        return { start, values, sums }
      })
    }),
  findHours: () =>
    connection.read(memory => {
      const hours = listCounted(memory).map(call => toHour(Date.parse(call.settled_at)))
      return hours.length === 0 ? null : { first: Math.min(...hours), last: Math.max(...hours) }
    }),
  findComplete: () =>
    connection.read(({ evicted }) => {
      const days = evicted.all().map(call => toDay(toHour(Date.parse(call.settled_at))))
      return days.length === 0 ? 0 : (Math.max(...days) + 1) * 24
    }),
  findRows: (from, until) =>
    connection.read(memory => {
      const hours = listCounted(memory).filter(call => {
        const hour = toHour(Date.parse(call.settled_at))
        return hour >= from && hour < until
      })
      const [first, last] = [hours[0], hours.at(-1)]
      return first && last ? { first: first.row, last: last.row } : null
    }),
  listCalls: (after, last, limit) =>
    connection.read(memory =>
      listCalls(memory)
        .filter(({ row }) => row > after && row <= last)
        .slice(0, limit),
    ),
  listApps: () => connection.read(memory => listApps(memory)),
  listSessionCells: (week, bounds) =>
    connection.read(memory => listSessionCells(memory, week, bounds)),
  verify: () => connection.read(() => []),
})

export const readCursor = ({ counters }: Memory): number => counters.get(CURSOR)?.value ?? 0

function setCursor({ counters }: Memory, value: number): void {
  if (counters.has(CURSOR)) counters.update(CURSOR, { value })
  else counters.insert(CURSOR, { value })
}

/** Lists all calls that ever were on record. Those that no longer are came first. */
const listAll = ({ evicted, generations }: Memory): CallFacts[] =>
  [...evicted.all(), ...generations.all()].map((generation, i) => readFacts(generation, i + 1))

function readFacts(generation: Generation, row: number): CallFacts {
  return {
    row,
    id: generation.id,
    settled_at: generation.settled_at,
    workspace_id: generation.workspace_id,
    key_hash: generation.key_hash ?? '',
    user_id: generation.user_id,
    api_type: generation.api_type,
    model: generation.model,
    provider_name: generation.provider_name ?? '',
    endpoint_id: generation.provider_responses.at(-1)?.endpoint_id ?? '',
    streamed: generation.streamed,
    cancelled: generation.cancelled,
    finish_reason: generation.finish_reason,
    latency: generation.latency,
    generation_time: generation.generation_time,
    native_tokens_prompt: generation.native_tokens_prompt,
    native_tokens_completion: generation.native_tokens_completion,
    native_tokens_reasoning: generation.native_tokens_reasoning,
    native_tokens_cached: generation.native_tokens_cached,
    total_cost: generation.total_cost,
    upstream_inference_cost: generation.upstream_inference_cost,
    is_byok: generation.is_byok,
    session_id: generation.session_id,
    external_user: generation.external_user,
    http_referer: generation.http_referer,
    title: generation.title,
    error_type: generation.error_type,
    data_region: generation.data_region,
    isFiltered: generation.contentFilters.length > 0,
  }
}

const listCalls = (memory: Memory): CallFacts[] =>
  listAll(memory).slice(memory.evicted.all().length)

const listCounted = (memory: Memory) => listAll(memory).slice(0, readCursor(memory))

const listApps = ({ apps }: Memory): App[] => apps.all()

const readAppId = ({ apps }: Memory, call: CallFacts): number =>
  apps.get(identifyApp(call)?.identity ?? '')?.id ?? 0

function addApp(memory: Memory, call: CallFacts): void {
  const signature = identifyApp(call)
  if (!signature || memory.apps.has(signature.identity)) return
  const taken = new Set(memory.apps.all().map(({ slug }) => slug))
  let slug = signature.slug
  for (let number = 2; taken.has(slug); number++) slug = `${signature.slug}-${number}`
  memory.apps.insert(signature.identity, { ...signature, id: taken.size + 1, slug })
}

function readDimension(memory: Memory, call: CallFacts, name: SumDimension): string {
  if (name === 'app_id') return String(readAppId(memory, call))
  if (name === 'is_byok') return String(Number(call.is_byok))
  if (name !== 'variant') return call[name]
  const colon = call.model.indexOf(':')
  return colon === -1 ? 'standard' : call.model.slice(colon + 1)
}

function readStart(call: CallFacts, { grain }: SumQuery): number {
  const hour = toHour(Date.parse(call.settled_at))
  return grain === 'hour' ? hour : toDay(hour)
}

function isMeant(memory: Memory, call: CallFacts, query: SumQuery): boolean {
  const start = readStart(call, query)
  return (
    start >= query.from &&
    start < query.until &&
    query.conditions.every(({ dimension, comparison, values }) =>
      meetsCondition(readDimension(memory, call, dimension), comparison, values),
    )
  )
}

function listSessionCells(
  memory: Memory,
  week: number,
  { sessions: fewest, workspaces, workspace_id }: CellBounds,
): SessionCell[] {
  const findWorkspace = (name: string) => memory.keys.get(JSON.parse(name)[2])?.workspace_id
  const sessions = new Map<string, SessionSums>()
  for (const call of listCounted(memory)) {
    const app = readAppId(memory, call)
    const isOfWeek = toWeek(toDay(toHour(Date.parse(call.settled_at)))) === week
    if (!isOfWeek || app === 0 || call.session_id === null) continue
    const name = JSON.stringify([app, call.model, call.key_hash, call.session_id])
    const sums = sessions.get(name) ?? { turns: 0, cost: 0n, unpriced_calls: 0 }
    sessions.set(name, sums)
    addSessionCall(sums, call)
  }
  const counted = [...sessions].filter(
    ([name, one]) =>
      one.turns > 0 &&
      one.unpriced_calls === 0 &&
      (workspace_id === null || findWorkspace(name) === workspace_id),
  )
  const cells = Map.groupBy(counted, ([name, { turns }]) => {
    const [app, model] = JSON.parse(name)
    const slug = listApps(memory).find(({ id }) => id === app)?.slug
    return JSON.stringify([slug, model, FEWEST_TURNS.findLastIndex(fewest => turns >= fewest), app])
  })
  return [...cells]
    .filter(([, of]) => {
      const owners = new Set(of.flatMap(([name]) => findWorkspace(name) ?? []))
      return of.length >= fewest && owners.size >= workspaces
    })
    .map(([name, of]) =>
      toCell(
        memory,
        name,
        of.map(([, { cost }]) => Number(cost)),
      ),
    )
    .sort(compareCells)
}

function toCell(memory: Memory, name: string, costs: number[]): SessionCell {
  const [, model, range, app] = JSON.parse(name)
  const sorted = costs.toSorted((a, b) => a - b)
  const upper = sorted[Math.floor(sorted.length / 2)] ?? 0
  const lower = sorted[Math.ceil(sorted.length / 2) - 1] ?? 0
  return {
    app: listApps(memory).find(({ id }) => id === app) as App,
    model,
    turn_range: TURN_RANGES[range] ?? '1-turn',
    sessions: sorted.length,
    median: (lower + upper) / 2,
  }
}

function compareCells(a: SessionCell, b: SessionCell): number {
  const [left, right] = [a, b].map(({ app, model, turn_range }) => [
    app.slug,
    model,
    String(TURN_RANGES.indexOf(turn_range)),
  ])
  const at = left?.findIndex((text, i) => text !== right?.[i]) ?? -1
  return at === -1 ? 0 : (left?.[at] ?? '') < (right?.[at] ?? '') ? -1 : 1
}
