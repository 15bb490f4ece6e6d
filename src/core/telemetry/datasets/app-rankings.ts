import { type Static, Type } from '@sinclair/typebox'
import { invalid } from '../../errors.ts'
import type { Actor } from '../../identity/actor.ts'
import { oneOf } from '../../kernel/schema-builders.ts'
import { type DatasetWorld, DayRange, openDataset, resolveDays, showDays } from '../datasets.ts'
import type { Reading } from '../rollups/reading.ts'

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

/** What one app used. */
interface AppUse {
  tokens: number
  calls: number
}

/**
 * Ranks apps by the tokens of their calls, or by how many more they are than in the three periods
 * before. An app is what calls name in `HTTP-Referer` or in a title; calls that name none are
 * of no app. No app has a category here, so a filter by one finds none. Throws 400 and 429.
 */
export async function getAppRankings(world: DatasetWorld, actor: Actor, query: AppRankingsQuery) {
  checkCategory(query)
  const days = resolveDays(world, query)
  const reading = await openDataset(world, actor)
  const hasCategory = query.category !== undefined || query.subcategory !== undefined
  const ranked = hasCategory ? [] : await rankApps(world, reading, days, query.sort ?? 'popular')
  const { limit = 50, offset = 0 } = query
  return { data: ranked.slice(offset, offset + limit), meta: showDays(world, days) }
}

function checkCategory({ category, subcategory }: AppRankingsQuery): void {
  if (category === undefined || subcategory === undefined) return
  const known: readonly string[] = SUBCATEGORIES[category]
  if (!known.includes(subcategory))
    throw invalid(`subcategory: expected one of ${category}`, 'subcategory')
}

async function rankApps(
  world: DatasetWorld,
  reading: Reading,
  { first, last }: { first: number; last: number },
  sort: 'popular' | 'trending',
) {
  const length = last - first + 1
  const used = await readUse(reading, first, last + 1)
  const before =
    sort === 'trending'
      ? await readUse(reading, first - 3 * length, first)
      : new Map<string, AppUse>()
  const score = (id: string, { tokens }: AppUse) => tokens - (before.get(id)?.tokens ?? 0) / 3
  const apps = new Map((await world.store.rollups.listApps()).map(app => [String(app.id), app]))
  return [...used]
    .map(([id, use]) => ({ id, use, app: apps.get(id), score: score(id, use) }))
    .filter(({ app, score }) => app !== undefined && (sort === 'popular' || score > 0))
    .sort((a, b) => b.score - a.score || Number(a.id) - Number(b.id))
    .map(({ id, use, app }, i) => ({
      rank: i + 1,
      app_id: Number(id),
      app_name: app?.name ?? '',
      total_tokens: String(use.tokens),
      total_requests: use.calls,
    }))
}

/** Sums what apps used from a day on and before another. */
async function readUse(
  reading: Reading,
  from: number,
  until: number,
): Promise<Map<string, AppUse>> {
  const used = new Map<string, AppUse>()
  const query = { grain: 'day', from, until, by: ['app_id'], isByTime: false } as const
  const rows = reading.readSums({ ...query, by: [...query.by], conditions: [] })
  for await (const { values, sums } of rows) {
    const [id = '0'] = values
    if (id === '0') continue
    const use = used.get(id) ?? { tokens: 0, calls: 0 }
    used.set(id, use)
    use.tokens += sums.prompt_tokens + sums.completion_tokens
    use.calls += sums.calls
  }
  return used
}
