import { type Static, Type } from '@sinclair/typebox'
import { invalid } from '../../base/errors.ts'
import { oneOf } from '../../base/schema-builders.ts'
import { compareTexts } from '../../base/sorting.ts'
import type { Actor } from '../../resources/actor.ts'
import {
  type Audience,
  type DatasetWorld,
  DayRange,
  type Days,
  findAudience,
  openDataset,
  RowUse,
  resolveDays,
  showDays,
} from '../datasets.ts'
import { CONTEXT_BUCKETS, findContextBucket } from '../rollups/context-buckets.ts'
import { findPeriodStart, type Period } from '../rollups/periods.ts'
import type { Reading } from '../rollups/reading.ts'
import { type CallFacts, renderDay, toDay, toHour } from '../rollups.ts'

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
