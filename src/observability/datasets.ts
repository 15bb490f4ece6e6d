import { type Static, Type } from '@sinclair/typebox'
import { invalid, notFound } from '../base/errors.ts'
import { oneOf, SomeName, TrueOrFalse } from '../base/schema-builders.ts'
import { compareTexts } from '../base/sorting.ts'
import { type Actor, canManageAll } from '../resources/actor.ts'
import type { Model } from '../resources/models/catalog.ts'
import type { IdentityWorld } from '../resources/world.ts'
import type { App } from './rollups/apps.ts'
import { CONTEXT_BUCKETS, findContextBucket } from './rollups/context-buckets.ts'
import { findPeriodStart, type Period } from './rollups/periods.ts'
import { Reading, type ReadingWorld } from './rollups/reading.ts'
import { type CallFacts, parseDay, renderDay, toDay, toHour } from './rollups.ts'

/** What datasets need from the gateway. */
export interface DatasetWorld extends ReadingWorld {
  memory: Pick<IdentityWorld['memory'], 'owner'>
  config: ReadingWorld['config'] & {
    service_name: string
    datasets: { enabled: boolean; minimum_sessions: number; minimum_workspaces: number }
  }
  catalog: {
    models: {
      get(
        slug: string,
      ): Pick<Model, 'input_modalities' | 'output_modalities' | 'unlisted'> | undefined
    }
  }
  traffic: { counters: { countReading(actor: Pick<Actor, 'key_hash'>): void | Promise<void> } }
}

/** The version of all datasets (specification, Versioning 3). */
export const VERSION = 'v1'

/** Says of when a dataset is, and who may use it for what (E12). */
export const showSource = ({ clock, config: { service_name } }: DatasetWorld) => ({
  as_of: clock.now().toISOString(),
  version: VERSION,
  license:
    'Licensed under CC BY 4.0 (https://creativecommons.org/licenses/by/4.0/): reuse and republish ' +
    `with attribution to ${service_name}.`,
})

/** A day in the query of a dataset. */
export const Day = Type.String({
  pattern: '^\\d{4}-\\d{2}-\\d{2}$',
  maxLength: 10,
  title: 'YYYY-MM-DD',
})

/** The first and last day of a query. */
export const DayRange = Type.Object({
  start_date: Type.Optional(Day),
  end_date: Type.Optional(Day),
})

export type DayRange = Static<typeof DayRange>

/**
 * Opens a reading of a dataset, up to date with the records. Throws 404 where datasets are switched
 * off, and 429 where the key, or all keys together, have read as often as the config allows. The
 * operator may always read, and as often as they like.
 */
export async function openDataset(world: DatasetWorld, actor: Actor): Promise<Reading> {
  if (actor.kind !== 'operator') {
    if (!world.config.datasets.enabled) throw notFound('Datasets are switched off here')
    await world.traffic.counters.countReading(actor)
  }
  const reading = new Reading(world)
  await reading.rollUp()
  return reading
}

/** Whose rows a reader may see. */
export interface Audience {
  /** The workspaces that a row of others has to be of, at least: 0 shows all rows. */
  workspaces: number
  /** The workspace whose own rows they see beside these. */
  workspace_id: string
}

/**
 * Returns whose rows an actor may see: of at least as many workspaces as the config says, and their
 * own. The operator and management keys of the default workspace see all calls elsewhere, too.
 */
export function findAudience(world: DatasetWorld, actor: Actor): Audience {
  const seesAll = actor.kind !== 'inference' && canManageAll(world, actor)
  const { minimum_workspaces } = world.config.datasets
  return { workspaces: seesAll ? 0 : minimum_workspaces, workspace_id: actor.workspace_id }
}

/** What calls used. */
interface Use {
  tokens: number
  calls: number
}

/** What the calls of one row used, by their workspaces. */
export class RowUse {
  readonly #uses = new Map<string, Use>()

  add(workspace_id: string, { tokens, calls }: Use): void {
    const use = this.#uses.get(workspace_id) ?? { tokens: 0, calls: 0 }
    this.#uses.set(workspace_id, use)
    use.tokens += tokens
    use.calls += calls
  }

  /** Sums what an audience may know: of all workspaces, or of its own alone; null for nothing. */
  sumFor({ workspaces, workspace_id }: Audience): (Use & { isOwn: boolean }) | null {
    const isOwn = this.#uses.size < workspaces
    const own = this.#uses.get(workspace_id)
    if (isOwn) return own ? { ...own, isOwn } : null
    const sum = { tokens: 0, calls: 0, isOwn }
    for (const { tokens, calls } of this.#uses.values()) {
      sum.tokens += tokens
      sum.calls += calls
    }
    return sum
  }
}

/**
 * Returns the name that an app is shown by. The title that came with an address first may be that
 * of another workspace, so a row of one's own tells the address.
 */
export const nameApp = ({ identity, name }: App, isOwn: boolean): string =>
  isOwn && identity.startsWith(ADDRESS) ? identity.slice(ADDRESS.length) : name

const ADDRESS = 'address '

/** The first day of the public datasets: earlier ones are read as this one. */
const FIRST_DAY = parseDay('2025-01-01') ?? 0
const USUAL_DAYS = 30

/** Days from one up to another, both included, counted from 1970-01-01. */
export interface Days {
  first: number
  last: number
}

/**
 * Returns the days that a query means: up to yesterday and from 30 days before, where it does not
 * say. Throws 400 for a day that does not exist, an end before 2025, or days in the wrong order.
 */
export function resolveDays({ clock }: ReadingWorld, { start_date, end_date }: DayRange): Days {
  const today = toDay(toHour(clock.now().getTime()))
  const last = readDay('end_date', end_date) ?? today - 1
  if (last < FIRST_DAY) throw invalid('end_date: expected 2025-01-01 or later', 'end_date')
  const first = readDay('start_date', start_date) ?? last - USUAL_DAYS
  if (first > last) throw invalid('start_date: expected no later than end_date', 'start_date')
  // Nothing is known of days to come.
  return { first: Math.max(first, FIRST_DAY), last: Math.max(Math.min(last, today), FIRST_DAY) }
}

function readDay(name: string, text: string | undefined): number | undefined {
  if (text === undefined) return undefined
  const day = parseDay(text)
  if (day === null) throw invalid(`${name}: expected a day that exists`, name)
  return day
}

/** Shows what a dataset of days is about. */
export const showDays = (world: DatasetWorld, { first, last }: Days) => ({
  ...showSource(world),
  start_date: renderDay(first),
  end_date: renderDay(last),
})

/** The kinds of apps in the public marketplace, by their categories. */
const SUBCATEGORIES = {
  coding: ['cli-agent', 'ide-extension', 'cloud-agent', 'programming-app', 'native-app-builder'],
  creative: ['creative-writing', 'video-gen', 'image-gen', 'audio-gen'],
  productivity: ['writing-assistant', 'general-chat', 'personal-agent', 'legal'],
  entertainment: ['roleplay', 'game'],
} as const

/** The query of `GET /datasets/app-rankings`. */
export const AppRankingsQuery = Type.Object({
  category: Type.Optional(oneOf('coding', 'creative', 'productivity', 'entertainment')),
  subcategory: Type.Optional(
    oneOf(
      ...SUBCATEGORIES.coding,
      ...SUBCATEGORIES.creative,
      ...SUBCATEGORIES.productivity,
      ...SUBCATEGORIES.entertainment,
    ),
  ),
  sort: Type.Optional(oneOf('popular', 'trending')),
  ...DayRange.properties,
  limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 100 })),
  offset: Type.Optional(Type.Integer({ minimum: 0, maximum: 100 })),
})
export type AppRankingsQuery = Static<typeof AppRankingsQuery>

/**
 * Ranks apps by the tokens of their calls, or by how many more they are than in the three periods
 * before. An app is what calls name in `HTTP-Referer` or in a title; calls that name none are
 * of no app. No app has a category here, so a filter by one finds none. Apps of fewer workspaces
 * than the config asks for are ranked by the asker's own calls alone. Throws 400, 404 and 429.
 */
export async function getAppRankings(world: DatasetWorld, actor: Actor, query: AppRankingsQuery) {
  checkCategory(query)
  const days = resolveDays(world, query)
  const reading = await openDataset(world, actor)
  const hasCategory = query.category !== undefined || query.subcategory !== undefined
  const audience = findAudience(world, actor)
  const ranked = hasCategory
    ? []
    : await rankApps(world, reading, audience, { ...days, sort: query.sort ?? 'popular' })
  const { limit = 50, offset = 0 } = query
  return { data: ranked.slice(offset, offset + limit), meta: showDays(world, days) }
}

function checkCategory({ category, subcategory }: AppRankingsQuery): void {
  if (category === undefined || subcategory === undefined) return
  const known: readonly string[] = SUBCATEGORIES[category]
  if (!known.includes(subcategory))
    throw invalid(`subcategory: expected one of ${category}`, 'subcategory')
}

interface Ranking {
  first: number
  last: number
  sort: 'popular' | 'trending'
}

async function rankApps(
  world: DatasetWorld,
  reading: Reading,
  audience: Audience,
  { first, last, sort }: Ranking,
) {
  const length = last - first + 1
  const used = await readUse(reading, first, last + 1)
  const before = sort === 'trending' ? await readUse(reading, first - 3 * length, first) : null
  const apps = new Map((await world.store.rollups.listApps()).map(app => [String(app.id), app]))
  return [...used]
    .flatMap(([id, row]) => {
      const app = apps.get(id)
      const use = row.sumFor(audience)
      if (!app || !use) return []
      const earlier = before?.get(id)?.sumFor(audience)?.tokens ?? 0
      return [{ id: Number(id), use, app, score: use.tokens - earlier / 3 }]
    })
    .filter(({ score }) => sort === 'popular' || score > 0)
    .sort((a, b) => b.score - a.score || a.id - b.id)
    .map(({ id, use, app }, i) => ({
      rank: i + 1,
      app_id: id,
      app_name: nameApp(app, use.isOwn),
      total_tokens: String(use.tokens),
      total_requests: use.calls,
    }))
}

/** Sums what apps used from a day on and before another. */
async function readUse(
  reading: Reading,
  from: number,
  until: number,
): Promise<Map<string, RowUse>> {
  const used = new Map<string, RowUse>()
  const query = { grain: 'day', from, until, isByTime: false } as const
  const rows = reading.readSums({ ...query, by: ['app_id', 'workspace_id'], conditions: [] })
  for await (const { values, sums } of rows) {
    const [id = '0', workspace_id = ''] = values
    if (id === '0') continue
    const row = used.get(id) ?? new RowUse()
    used.set(id, row)
    const { prompt_tokens, completion_tokens, calls } = sums
    row.add(workspace_id, { tokens: prompt_tokens + completion_tokens, calls })
  }
  return used
}

/** The query of `GET /datasets/rankings-daily`. */
export const RankingsDailyQuery = Type.Object({
  ...DayRange.properties,
  period: Type.Optional(oneOf('day', 'week', 'month')),
  modality: Type.Optional(oneOf('text', 'image', 'image_output', 'audio', 'tool_calling')),
  context_bucket: Type.Optional(oneOf(...CONTEXT_BUCKETS)),
  category: Type.Optional(
    oneOf(
      'programming',
      'roleplay',
      'marketing',
      'marketing/seo',
      'technology',
      'science',
      'translation',
      'legal',
      'finance',
      'health',
      'trivia',
      'academia',
    ),
  ),
  language_type: Type.Optional(oneOf('natural', 'programming')),
})
export type RankingsDailyQuery = Static<typeof RankingsDailyQuery>

/** The models of a period that have rows of their own. */
const MOST_MODELS = 50
/** The most days whose calls are read one by one. */
const MOST_DAYS_OF_CALLS = 31

/**
 * Shows the tokens of the most used models of each day, week or month, and those of all others
 * together. Nothing classifies calls here, so that a filter by category or language finds none.
 * Throws 400 for filters that exclude each other, and 429.
 */
export async function getRankingsDaily(
  world: DatasetWorld,
  actor: Actor,
  query: RankingsDailyQuery,
) {
  checkFilters(query)
  const days = resolveDays(world, query)
  const readsCalls = query.modality === 'tool_calling' || query.context_bucket !== undefined
  if (readsCalls && days.last - days.first >= MOST_DAYS_OF_CALLS)
    throw invalid(`start_date: expected ${MOST_DAYS_OF_CALLS} days at most with these filters`)
  const reading = await openDataset(world, actor)
  const audience = findAudience(world, actor)
  const isKnown = query.category === undefined && query.language_type === undefined
  const totals = isKnown
    ? await sumTokens(world, reading, days, query, readsCalls)
    : new Map<number, Models>()
  return {
    data: [...totals]
      .sort(([a], [b]) => a - b)
      .flatMap(([day, models]) => rank(day, models, audience)),
    meta: showDays(world, days),
  }
}

const EXACT = ['modality', 'context_bucket'] as const
const SAMPLED = ['category', 'language_type'] as const

function checkFilters(query: RankingsDailyQuery): void {
  const [sampled, second] = SAMPLED.filter(name => query[name] !== undefined)
  if (sampled === undefined) return
  const other = second ?? EXACT.find(name => query[name] !== undefined)
  if (other !== undefined) throw invalid(`${sampled}: expected no ${other} beside it`, sampled)
  if (query.period === 'day') throw invalid(`period: expected week or month with ${sampled}`)
}

async function sumTokens(
  world: DatasetWorld,
  reading: Reading,
  days: Days,
  query: RankingsDailyQuery,
  readsCalls: boolean,
): Promise<Map<number, Models>> {
  const totals = new Map<number, Models>()
  const add = ({ day, model, workspace_id, tokens }: TokensOfModel) => {
    if (tokens === 0 || !hasModality(world, model, query.modality)) return
    const start = findPeriodStart(query.period ?? ('day' satisfies Period), day)
    const models: Models = totals.get(start) ?? new Map()
    totals.set(start, models)
    const row = models.get(model) ?? new RowUse()
    models.set(model, row)
    row.add(workspace_id, { tokens, calls: 1 })
  }
  if (readsCalls) await addCalls(reading, days, query, add)
  else await addDays(reading, days, add)
  return totals
}

/** What each model used in one period. */
type Models = Map<string, RowUse>

interface TokensOfModel {
  day: number
  model: string
  workspace_id: string
  tokens: number
}

type Add = (some: TokensOfModel) => void

async function addDays(reading: Reading, { first, last }: Days, add: Add): Promise<void> {
  const rows = reading.readSums({
    grain: 'day',
    from: first,
    until: last + 1,
    by: ['model', 'workspace_id'],
    isByTime: true,
    conditions: [],
  })
  for await (const { start, values, sums } of rows) {
    const [model = '', workspace_id = ''] = values
    const tokens = sums.prompt_tokens + sums.completion_tokens
    add({ day: start ?? 0, model, workspace_id, tokens })
  }
}

async function addCalls(
  reading: Reading,
  { first, last }: Days,
  query: RankingsDailyQuery,
  add: Add,
): Promise<void> {
  for await (const calls of reading.readCalls(first * 24, (last + 1) * 24))
    for (const call of calls) {
      const day = toDay(toHour(Date.parse(call.settled_at)))
      if (day < first || day > last || !isMeant(call, query)) continue
      const { model, workspace_id, native_tokens_prompt, native_tokens_completion } = call
      add({ day, model, workspace_id, tokens: native_tokens_prompt + native_tokens_completion })
    }
}

const isMeant = (call: CallFacts, { modality, context_bucket }: RankingsDailyQuery): boolean =>
  (modality !== 'tool_calling' || call.finish_reason === 'tool_calls') &&
  (context_bucket === undefined || findContextBucket(call.native_tokens_prompt) === context_bucket)

function hasModality(
  { catalog }: DatasetWorld,
  model: string,
  modality: RankingsDailyQuery['modality'],
): boolean {
  if (modality === undefined || modality === 'tool_calling') return true
  const known = catalog.models.get(model)
  if (modality === 'text') return known?.output_modalities.includes('text') ?? false
  if (modality === 'image_output') return known?.output_modalities.includes('image') ?? false
  return known?.input_modalities.includes(modality) ?? false
}

function rank(day: number, models: Models, audience: Audience) {
  const date = renderDay(day)
  const shown = [...models].flatMap(([model, row]) => {
    const use = row.sumFor(audience)
    return use ? [[model, use.tokens] as const] : []
  })
  const sorted = shown.sort(([a, x], [b, y]) => y - x || compareTexts(a, b))
  const others = sorted.slice(MOST_MODELS).reduce((sum, [, tokens]) => sum + tokens, 0)
  return [...sorted.slice(0, MOST_MODELS), ...(others > 0 ? [['other', others] as const] : [])].map(
    ([model_permaslug, tokens]) => ({ date, model_permaslug, total_tokens: String(tokens) }),
  )
}

/** The query of `GET /benchmarks`. */
export const BenchmarkQuery = Type.Object({
  source: Type.Optional(oneOf('artificial-analysis', 'design-arena', 'openrouter')),
  task_type: Type.Optional(oneOf('coding', 'intelligence', 'agentic', 'search')),
  benchmark_type: Type.Optional(
    oneOf(
      'gpqa_diamond',
      'tau_bench_verified_airline',
      'search_browsecomp',
      'search_hle',
      'search_dsqa',
      'search_widesearch',
    ),
  ),
  include_run_config: Type.Optional(TrueOrFalse),
  search_engine: Type.Optional(SomeName),
  search_surface: Type.Optional(oneOf('server-tool', 'plugin')),
  arena: Type.Optional(oneOf('models', 'builders', 'agents')),
  category: Type.Optional(SomeName),
  max_results: Type.Optional(Type.Integer({ minimum: 1 })),
})
export type BenchmarkQuery = Static<typeof BenchmarkQuery>

/**
 * Shows scores of models in benchmarks. This gateway runs none and copies none, so there are no
 * results. Throws 429.
 */
export async function getBenchmarks(world: DatasetWorld, actor: Actor, query: BenchmarkQuery) {
  if (actor.kind !== 'operator') await world.traffic.counters.countReading(actor)
  return {
    data: [],
    meta: {
      as_of: world.clock.now().toISOString(),
      version: VERSION,
      source: query.source ?? null,
      source_url: null,
      citation: null,
      model_count: 0,
      task_type: query.task_type ?? null,
    },
  }
}

/** The query of `GET /classifications/task`. */
export const TaskQuery = Type.Object({ window: Type.Optional(oneOf('7d')) })
export type TaskQuery = Static<typeof TaskQuery>

const WINDOW_DAYS = 7

/**
 * Shows which tasks calls were about. This gateway does not classify what its callers write, so it
 * knows none. Throws 429.
 */
export async function getTaskClassifications(world: DatasetWorld, actor: Actor, _query: TaskQuery) {
  if (actor.kind !== 'operator') await world.traffic.counters.countReading(actor)
  const yesterday = toDay(toHour(world.clock.now().getTime())) - 1
  return {
    data: {
      window_days: WINDOW_DAYS,
      as_of: renderDay(yesterday),
      classifications: [],
      macro_categories: [],
    },
  }
}
