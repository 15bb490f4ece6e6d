import { type Static, Type } from '@sinclair/typebox'
import { invalid } from '../../errors.ts'
import type { Actor } from '../../identity/actor.ts'
import { oneOf } from '../../kernel/schema-builders.ts'
import { compareTexts } from '../../kernel/sorting.ts'
import {
  type DatasetWorld,
  DayRange,
  type Days,
  openDataset,
  resolveDays,
  showDays,
} from '../datasets.ts'
import { type CallFacts, renderDay, toDay, toHour } from '../rollups/calls.ts'
import { CONTEXT_BUCKETS, findContextBucket } from '../rollups/context-buckets.ts'
import { findPeriodStart, type Period } from '../rollups/periods.ts'
import type { Reading } from '../rollups/reading.ts'

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
  const isKnown = query.category === undefined && query.language_type === undefined
  const totals = isKnown
    ? await sumTokens(world, reading, days, query, readsCalls)
    : new Map<number, Map<string, number>>()
  return {
    data: [...totals].sort(([a], [b]) => a - b).flatMap(([day, models]) => rank(day, models)),
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
): Promise<Map<number, Map<string, number>>> {
  const totals = new Map<number, Map<string, number>>()
  const add = (day: number, model: string, tokens: number) => {
    if (tokens === 0 || !hasModality(world, model, query.modality)) return
    const start = findPeriodStart(query.period ?? ('day' satisfies Period), day)
    const models = totals.get(start) ?? new Map<string, number>()
    totals.set(start, models)
    models.set(model, (models.get(model) ?? 0) + tokens)
  }
  if (readsCalls) await addCalls(reading, days, query, add)
  else await addDays(reading, days, add)
  return totals
}

type Add = (day: number, model: string, tokens: number) => void

async function addDays(reading: Reading, { first, last }: Days, add: Add): Promise<void> {
  const rows = reading.readSums({
    grain: 'day',
    from: first,
    until: last + 1,
    by: ['model'],
    isByTime: true,
    conditions: [],
  })
  for await (const { start, values, sums } of rows)
    add(start ?? 0, values[0] ?? '', sums.prompt_tokens + sums.completion_tokens)
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
      add(day, call.model, call.native_tokens_prompt + call.native_tokens_completion)
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

function rank(day: number, models: Map<string, number>) {
  const date = renderDay(day)
  const sorted = [...models].sort(([a, x], [b, y]) => y - x || compareTexts(a, b))
  const others = sorted.slice(MOST_MODELS).reduce((sum, [, tokens]) => sum + tokens, 0)
  return [...sorted.slice(0, MOST_MODELS), ...(others > 0 ? [['other', others] as const] : [])].map(
    ([model_permaslug, tokens]) => ({ date, model_permaslug, total_tokens: String(tokens) }),
  )
}
