import { compareTexts } from '../../../base/sorting.ts'
import type { KeyRate, KeyRecord } from '../source.ts'
import { type Column, drawBar, formatUsd, type Line, renderTable } from '../text.ts'
import { computeShare } from './money.ts'
import { describeRates } from './nouns.ts'

/** Lists the keys that match by name, label or hash, the newest first. */
export const listKeyRows = (keys: KeyRecord[], filter: string): KeyRecord[] =>
  keys
    .filter(({ name, label, hash }) =>
      `${name} ${label} ${hash}`.toLowerCase().includes(filter.toLowerCase()),
    )
    .sort((a, b) => compareTexts(b.created_at, a.created_at))

const renderState = ({ disabled, expires_at }: KeyRecord, now: number): string =>
  disabled ? 'disabled' : expires_at && Date.parse(expires_at) <= now ? 'expired' : 'active'

const columns = (now: number): Column<KeyRecord>[] => [
  { title: 'NAME', width: 14, rank: 0, grows: true, cell: ({ name }) => name },
  { title: 'LABEL', width: 18, rank: 6, cell: ({ label }) => label },
  {
    ...{ title: 'STATE', width: 8, rank: 1 },
    cell: key => renderState(key, now),
    style: key => (renderState(key, now) === 'active' ? 'good' : 'bad'),
  },
  { title: 'TODAY', width: 8, rank: 5, align: 'right', cell: key => formatUsd(key.usage_daily) },
  { title: 'ALL TIME', width: 8, rank: 4, align: 'right', cell: ({ usage }) => formatUsd(usage) },
  { title: 'LIMIT', width: 8, rank: 2, align: 'right', cell: ({ limit }) => formatUsd(limit) },
  { title: 'RESET', width: 7, rank: 7, cell: ({ limit_reset }) => limit_reset ?? '-' },
  {
    ...{ title: 'SPENT', width: 10, rank: 3 },
    cell: key => {
      const share = computeShare(key)
      return share === null ? '' : drawBar(share, 10)
    },
    style: key => ((computeShare(key) ?? 0) >= 0.8 ? 'warn' : 'plain'),
  },
]

/** Renders the keys that are on the screen. */
export const renderKeys = (
  rows: KeyRecord[],
  options: { width: number; selected: number; now: number },
): Line[] => renderTable(columns(options.now), rows, options)

/** Shows how often a key may call: what each of its guardrails lets it. */
export const renderRates = (rates: KeyRate[]): Record<string, string> =>
  Object.fromEntries(
    rates.map(({ scope, name, ...limits }) => [
      `rates_of_${scope}`,
      `${describeRates(limits)} (${name})`,
    ]),
  )

/** Reads an amount in USD as it is typed: a number, or nothing for no limit. */
export function parseLimit(text: string): number | null | undefined {
  const trimmed = text.trim().replace(/^\$/, '')
  if (trimmed === '' || trimmed === 'none') return null
  const usd = Number(trimmed)
  return Number.isFinite(usd) && usd >= 0 ? usd : undefined
}
