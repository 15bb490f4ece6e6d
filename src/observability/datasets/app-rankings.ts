import { type Static, Type } from '@sinclair/typebox'
import { invalid } from '../../base/errors.ts'
import { oneOf } from '../../base/schema-builders.ts'
import type { Actor } from '../../resources/actor.ts'
import {
  type Audience,
  type DatasetWorld,
  DayRange,
  findAudience,
  nameApp,
  openDataset,
  RowUse,
  resolveDays,
  showDays,
} from '../datasets.ts'
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
