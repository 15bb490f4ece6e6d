import { ActivityQuery, getActivity } from '../../observability/activity.ts'
import { AnalyticsQuery } from '../../observability/analytics/query.ts'
import { getAnalyticsMeta, queryAnalytics } from '../../observability/analytics.ts'
import { defineResource, defineRoute } from '../resource.ts'

/** Creates the routes of what was used. */
export const createAnalyticsRoutes = defineResource({ tag: 'Analytics', access: 'management' }, [
  defineRoute(
    'GET /activity',
    'getUserActivity',
    'Get what was used in the last 30 days, by day and endpoint',
    getActivity,
    { query: ActivityQuery, refusals: [404, 408] },
  ),
  defineRoute(
    'GET /analytics/meta',
    'getAnalyticsMeta',
    'List the metrics and dimensions of queries',
    getAnalyticsMeta,
  ),
  defineRoute('POST /analytics/query', 'queryAnalytics', 'Query what was used', queryAnalytics, {
    body: AnalyticsQuery,
    refusals: [408],
  }),
])
