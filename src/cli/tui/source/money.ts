import { computeFirstDay } from '../../../base/clock.ts'
import type { AnalyticsQuery } from '../../../observability/analytics/query.ts'
import type { Budget, BudgetRow, Money, Spending } from '../source.ts'

/** Answers a query over all calls, as `POST /analytics/query` does: the rows of its data. */
export type QueryRows = (query: AnalyticsQuery) => Promise<Record<string, unknown>[]>

/** What calls are grouped by, and what the view calls such a group. */
const GROUPS = { model: 'model', workspace: 'workspace', user: 'member', app: 'app' } as const

const DAY = 86_400_000

/**
 * Sums what calls cost today, this week from Monday on, and this month, in UTC and in USD: by
 * model, workspace, member and app.
 */
export async function readGroups(query: QueryRows, now: Date): Promise<Money['groups']> {
  const groups: Money['groups'] = {}
  for (const [dimension, kind] of Object.entries(GROUPS))
    groups[kind] = sumWindows(await query(buildQuery(dimension, now)), dimension, now)
  return groups
}

const findDays = (now: Date) => ({
  today: computeFirstDay('daily', now),
  week: computeFirstDay('weekly', now),
  month: computeFirstDay('monthly', now),
})

function buildQuery(dimension: string, now: Date): AnalyticsQuery {
  const { today, week, month } = findDays(now)
  const start = new Date(Math.min(week, month) * DAY).toISOString()
  const end = new Date((today + 1) * DAY).toISOString()
  return {
    ...{ metrics: ['credits_usage'], dimensions: [dimension], granularity: 'day', limit: 10_000 },
    time_range: { start, end },
  }
}

function sumWindows(rows: Record<string, unknown>[], dimension: string, now: Date): Spending[] {
  const days = findDays(now)
  const sums = new Map<string, Spending>()
  for (const row of rows) {
    const name = String(row[dimension] || '-')
    const sum = sums.get(name) ?? { name, today: 0, week: 0, month: 0 }
    const day = Date.parse(String(row.date__day)) / DAY
    const cost = Number(row.credits_usage)
    if (day >= days.today) sum.today += cost
    if (day >= days.week) sum.week += cost
    if (day >= days.month) sum.month += cost
    sums.set(name, sum)
  }
  return [...sums.values()]
}

/** Shows budgets beside what their workspaces have spent in the same windows. */
export function toBudgetRows(
  budgets: Budget[],
  workspaces: Spending[],
  findName: (workspace_id: string) => string,
): BudgetRow[] {
  return budgets.map(({ workspace_id, reset_interval, limit_usd }) => {
    const name = findName(workspace_id)
    const spending = workspaces.find(one => one.name === name) ?? { today: 0, week: 0, month: 0 }
    const spent = { daily: spending.today, weekly: spending.week, monthly: spending.month }
    const { today, week, month } = spending
    return {
      ...{ name: `${name} ${reset_interval ?? 'total'}`, today, week, month, limit: limit_usd },
      spent: reset_interval === null ? null : (spent[reset_interval] ?? null),
    }
  })
}
