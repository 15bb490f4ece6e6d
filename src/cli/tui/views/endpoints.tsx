import { Lines } from '../lines.tsx'
import type { Live, LiveEndpoint } from '../live.ts'
import {
  type Column,
  drawSparkline,
  fit,
  formatTime,
  type Line,
  renderTable,
  say,
} from '../text.ts'
import { useFilter } from '../use-filter.ts'
import { useList } from '../use-list.ts'
import { useAction, useShell } from '../use-shell.ts'
import type { ViewProps } from '../view.ts'

/** Providers and endpoints: how each is doing, and its circuit. */
export function EndpointsView({ live, source, width, height }: ViewProps) {
  const { ask, attempt, confirm, notify } = useShell()
  const { filter, handle: handleFilter } = useFilter()
  const rows = listEndpoints(live, filter)
  const list = useList(rows.length, height - 2)
  const selected = rows[list.selected]?.endpoint
  const rest = async (endpoint: string) => {
    const text = await ask(`Let ${endpoint} rest for how many minutes?`, '10')
    if (text === null) return
    const minutes = Number(text)
    if (text.trim() === '' || !(minutes > 0 && minutes <= 1_440))
      return notify('Expected minutes above 0, to 1440', 'bad')
    await source.rest(endpoint, Math.max(1, Math.round(minutes * 60)))
    notify(`${endpoint} rests for ${minutes} min`, 'good')
  }
  const wake = async (endpoint: string) => {
    if (!(await confirm(`End every cooldown of ${endpoint}?`))) return
    await source.wake(endpoint)
    notify(`${endpoint} is awake`, 'good')
  }
  useAction(action => {
    if (list.handle(action) || handleFilter(action) || selected === undefined) return
    if (action === 'rest') attempt(() => rest(selected))
    if (action === 'wake') attempt(() => wake(selected))
  })
  const cooling = rows.filter(({ cooldown }) => cooldown !== null).length
  const heading = `${rows.length} endpoints in use, ${cooling} cooling down${filter ? ` · filter: ${filter}` : ''}`
  return (
    <Lines
      height={height}
      lines={[
        say(fit(heading, width), cooling > 0 ? 'warn' : 'bold'),
        ...renderEndpoints(rows.slice(list.top, list.bottom), {
          width,
          selected: list.selected - list.top,
        }),
      ]}
    />
  )
}

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
