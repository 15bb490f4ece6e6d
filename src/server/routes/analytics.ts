import { ActivityQuery, getActivity } from '../../observability/activity.ts'
import { AnalyticsQuery } from '../../observability/analytics/query.ts'
import { getAnalyticsMeta, queryAnalytics } from '../../observability/analytics.ts'
import { defineOperation } from '../../resources/operation.ts'
import { defineResource } from '../resource.ts'

/** Creates the routes of what was used. */
export const createAnalyticsRoutes = defineResource({ tag: 'Analytics', access: 'management' }, [
  defineOperation(
    'GET /activity',
    'getUserActivity',
    'Get what was used in the last 30 days, by day and endpoint',
    getActivity,
    { query: ActivityQuery, refusals: [404, 408] },
  ),
])

const OWN = { tag: 'Analytics', access: 'management', members: true } as const

/** Creates the routes of queries of it. */
export const createQueryRoutes = defineResource(OWN, [
  defineOperation(
    'GET /analytics/meta',
    'getAnalyticsMeta',
    'List the metrics and dimensions of queries',
    getAnalyticsMeta,
  ),
  defineOperation(
    'POST /analytics/query',
    'queryAnalytics',
    'Query what was used',
    queryAnalytics,
    {
      body: AnalyticsQuery,
      refusals: [408],
    },
  ),
])
