import type { Gateway } from '../../app/gateway.ts'
import { getSessionCost, SessionCostQuery } from '../../observability/datasets/session-cost.ts'
import {
  AppRankingsQuery,
  BenchmarkQuery,
  getAppRankings,
  getBenchmarks,
  getRankingsDaily,
  getTaskClassifications,
  RankingsDailyQuery,
  TaskQuery,
} from '../../observability/datasets.ts'
import { defineOperation } from '../../resources/operation.ts'
import { defineResource } from '../resource.ts'

/** Creates the routes of the public datasets. Every key may read them, within their rate limits. */
export const createDatasetRoutes = (gateway: Gateway) => [
  createDatasets(gateway),
  createOtherDatasets(gateway),
]

const createDatasets = defineResource({ tag: 'Datasets', access: 'key' }, [
  defineOperation(
    'GET /datasets/session-cost',
    'getSessionCost',
    'Get what sessions cost, by app, model and turns',
    getSessionCost,
    { query: SessionCostQuery, refusals: [404, 408, 429] },
  ),
  defineOperation(
    'GET /datasets/app-rankings',
    'getAppRankings',
    'Get the apps that use the most tokens',
    getAppRankings,
    { query: AppRankingsQuery, refusals: [404, 408, 429] },
  ),
  defineOperation(
    'GET /datasets/rankings-daily',
    'getRankingsDaily',
    'Get the models that use the most tokens',
    getRankingsDaily,
    { query: RankingsDailyQuery, refusals: [404, 408, 429] },
  ),
])

const createOtherDatasets = defineResource({ tag: 'Datasets', access: 'key' }, [
  defineOperation(
    'GET /classifications/task',
    'getTaskClassifications',
    'Get the tasks that calls are about',
    getTaskClassifications,
    { query: TaskQuery, refusals: [429], tag: 'Classifications' },
  ),
  defineOperation('GET /benchmarks', 'getBenchmarks', 'Get scores of models', getBenchmarks, {
    query: BenchmarkQuery,
    refusals: [429],
    tag: 'Benchmarks',
  }),
])
