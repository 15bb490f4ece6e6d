import type { KeyRecord, Money, Spending } from '../source.ts'
import {
  type Column,
  drawBar,
  fit,
  formatUsd,
  type Line,
  renderTable,
  type Style,
  say,
} from '../text.ts'

/** A row of the view: a key, or another group of calls, with the share of its limit. */
interface MoneyRow extends Spending {
  kind: string
  limit: number | null
  share: number | null
}

/** Computes how much of its limit a key has spent, with what is set aside; null without a limit. */
export const computeShare = ({ limit, limit_remaining }: KeyRecord): number | null =>
  limit === null || limit_remaining === null
    ? null
    : limit === 0
      ? 1
      : (limit - limit_remaining) / limit

/** Lists who spends, those nearest to their limit first, then by what this month cost. */
export function listMoney({ keys, budgets, groups }: Money, filter: string): MoneyRow[] {
  const rows: MoneyRow[] = [
    ...budgets.map(({ spent, ...budget }) => ({
      ...{ ...budget, kind: 'budget' },
      share: spent === null ? null : spent / budget.limit,
    })),
    ...keys.map(key => ({
      kind: 'key',
      name: key.name || key.label,
      today: key.usage_daily,
      week: key.usage_weekly,
      month: key.usage_monthly,
      limit: key.limit,
      share: computeShare(key),
    })),
    ...Object.entries(groups).flatMap(([kind, spendings]) =>
      spendings.map(spending => ({
        ...spending,
        kind,
        limit: null,
        share: null,
      })),
    ),
  ]
  return rows
    .filter(({ kind, name }) => `${kind} ${name}`.toLowerCase().includes(filter.toLowerCase()))
    .sort((a, b) => (b.share ?? -1) - (a.share ?? -1) || b.month - a.month)
}

const styleShare = ({ share }: { share: number | null }): Style =>
  share === null ? 'plain' : share >= 1 ? 'bad' : share >= 0.8 ? 'warn' : 'good'

const COLUMNS: Column<MoneyRow>[] = [
  { title: 'OF', width: 9, rank: 1, cell: ({ kind }) => kind },
  { title: 'NAME', width: 24, rank: 0, grows: true, isId: true, cell: ({ name }) => name },
  { title: 'TODAY', width: 8, rank: 2, align: 'right', cell: ({ today }) => formatUsd(today) },
  { title: 'WEEK', width: 8, rank: 5, align: 'right', cell: ({ week }) => formatUsd(week) },
  { title: 'MONTH', width: 8, rank: 3, align: 'right', cell: ({ month }) => formatUsd(month) },
  { title: 'LIMIT', width: 8, rank: 6, align: 'right', cell: ({ limit }) => formatUsd(limit) },
  {
    ...{ title: 'SPENT', width: 13, rank: 4 },
    cell: ({ share }) => (share === null ? '' : `${drawBar(share, 7)} ${Math.round(share * 100)}%`),
    style: styleShare,
  },
]

/** Renders the rows that are on the screen, under the credits. */
export const renderMoney = (
  { credits }: Money,
  rows: MoneyRow[],
  options: { width: number; selected: number },
): Line[] => [renderCredits(credits, options.width), ...renderTable(COLUMNS, rows, options)]

function renderCredits(credits: Money['credits'], width: number): Line {
  if (credits === null) return say(fit('Credits: not for this key to see', width), 'dim')
  const { total_credits, total_usage } = credits
  // Corrections may take back more than was ever paid in: no share of that is spent.
  const share = total_credits > 0 ? total_usage / total_credits : null
  const text = `Credits: ${formatUsd(total_usage)} spent of ${formatUsd(total_credits)} paid in`
  const bar = share === null ? '' : `  ${drawBar(share, 10)} ${Math.round(share * 100)}%`
  return say(fit(text + bar, width), styleShare({ share }))
}

/** Reads an amount in USD as it is typed; undefined for what is none, or nothing. */
export function parseAmount(text: string): number | undefined {
  const trimmed = text.trim().replace(/^(-?)\$/, '$1')
  const usd = Number(trimmed)
  return trimmed !== '' && Number.isFinite(usd) && usd !== 0 ? usd : undefined
}
