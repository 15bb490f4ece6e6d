import { type Static, Type } from '@sinclair/typebox'
import { oneOf, SomeName, TrueOrFalse } from '../base/schema-builders.ts'
import type { Actor } from '../resources/actor.ts'
import { type DatasetWorld, VERSION } from './datasets.ts'
import { renderDay, toDay, toHour } from './rollups.ts'

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
