import type { Live, LiveEndpoint } from '../live.ts'
import { type Column, drawSparkline, formatTime, type Line, renderTable } from '../text.ts'

/** How many of the last seconds the share of traffic is of, and the sparkline shows. */
const WINDOW = 60

/** An endpoint with its share of the traffic. */
interface EndpointRow extends LiveEndpoint {
  share: number
}

const sum = (values: number[]): number => values.reduce((all, value) => all + value, 0)

/** Lists the endpoints that match: those in a cooldown first, then by traffic. */
export function listEndpoints({ endpoints }: Live, filter: string): EndpointRow[] {
  const all = [...endpoints.values()]
  const total = sum(all.map(({ asked }) => sum(asked.slice(-WINDOW))))
  return all
    .filter(({ endpoint }) => endpoint.toLowerCase().includes(filter.toLowerCase()))
    .map(endpoint => ({
      ...endpoint,
      share: total === 0 ? 0 : sum(endpoint.asked.slice(-WINDOW)) / total,
    }))
    .sort(
      (a, b) =>
        Number(b.cooldown !== null) - Number(a.cooldown !== null) ||
        b.share - a.share ||
        (a.endpoint < b.endpoint ? -1 : 1),
    )
}

/** Names the state of a circuit. */
const renderState = ({ cooldown, is_probing }: LiveEndpoint): string =>
  is_probing ? 'probing' : cooldown ? `rests ${cooldown.seconds_left}s` : 'well'

/** Splits an endpoint's id: its model, and the provider with what that calls it. */
function splitId(endpoint: string): { model: string; place: string } {
  const [model = '', ...place] = endpoint.split(' ')
  return { model, place: place.join(' ') }
}

const COLUMNS: Column<EndpointRow>[] = [
  {
    ...{ title: 'MODEL', width: 24, rank: 0, grows: true, isId: true },
    cell: ({ endpoint }) => splitId(endpoint).model,
  },
  { title: 'AT', width: 11, rank: 0, grows: true, cell: ({ endpoint }) => splitId(endpoint).place },
  {
    ...{ title: 'STATE', width: 10, rank: 1 },
    cell: renderState,
    style: ({ cooldown, is_probing }) => (is_probing ? 'warn' : cooldown ? 'bad' : 'good'),
  },
  { title: 'WHY', width: 13, rank: 8, cell: ({ cooldown }) => cooldown?.reason ?? '' },
  {
    ...{ title: 'ERRORS', width: 6, rank: 2, align: 'right' },
    cell: ({ failed, succeeded }) =>
      failed + succeeded === 0 ? '-' : `${((failed / (failed + succeeded)) * 100).toFixed(0)}%`,
    style: ({ failed, succeeded }) =>
      failed === 0 ? 'plain' : failed >= succeeded ? 'bad' : 'warn',
  },
  { title: 'P50', width: 6, rank: 3, align: 'right', cell: one => formatTime(one.latency_p50) },
  { title: 'P95', width: 6, rank: 4, align: 'right', cell: one => formatTime(one.latency_p95) },
  {
    ...{ title: 'TOK/S', width: 5, rank: 7, align: 'right' },
    cell: ({ throughput_p50 }) => (throughput_p50 === null ? '-' : throughput_p50.toFixed(0)),
  },
  {
    ...{ title: 'SHARE', width: 5, rank: 5, align: 'right' },
    cell: ({ share }) => `${(share * 100).toFixed(0)}%`,
  },
  { title: 'LAST MINUTE', width: 16, rank: 6, cell: ({ asked }) => drawSparkline(asked, 16) },
]

/** Renders the endpoints that are on the screen. */
export const renderEndpoints = (
  rows: EndpointRow[],
  options: { width: number; selected: number },
): Line[] => renderTable(COLUMNS, rows, options)
