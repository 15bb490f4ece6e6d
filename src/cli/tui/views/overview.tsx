import type { State } from '../../../extensions/activity/entries.ts'
import { Lines } from '../lines.tsx'
import type { Live } from '../live.ts'
import { drawPlot, fit, formatCount, formatTime, formatUsd, type Line, say } from '../text.ts'
import type { ViewProps } from '../view.ts'

/** Overview: what the server is doing, the last minutes, and alarms. */
export const OverviewView = ({ live, width, height }: ViewProps) => (
  <Lines height={height} lines={renderOverview(live, width, height)} />
)

/** What is plotted: a value of each second, and how it is written. */
const PLOTS: { title: string; read(second: State): number; format(value: number): string }[] = [
  { title: 'calls/s', read: second => perSecond(second, second.finished), format: formatCount },
  {
    title: 'errors/s',
    read: second => perSecond(second, second.failed + second.refused),
    format: formatCount,
  },
  {
    title: 'first part p95',
    read: ({ first_part_p95 }) => first_part_p95 ?? 0,
    format: formatTime,
  },
  {
    title: 'tokens/s',
    read: second => perSecond(second, second.tokens_completion),
    format: formatCount,
  },
]

const perSecond = ({ milliseconds }: State, count: number): number =>
  milliseconds === 0 ? 0 : (count * 1000) / milliseconds

/** How many seconds the numbers above the plots are of. */
const WINDOW = 60

/** Renders what the server is doing: numbers, the last minutes as plots, and alarms. */
function renderOverview(live: Live, width: number, height: number): Line[] {
  const { seconds, alarms } = live
  if (seconds.length === 0) return [say('Nothing was told yet', 'dim')]
  const numbers = renderNumbers(seconds, width)
  const plotHeight = height >= 30 ? 4 : height >= 20 ? 3 : 2
  const shownAlarms = Math.max(
    1,
    Math.min(alarms.length, height - numbers.length - 2 * (plotHeight + 1) - 1),
  )
  return [
    ...numbers,
    ...renderPlots(seconds, width, plotHeight),
    say(`Alarms (${alarms.length})`, 'bold'),
    ...(alarms.length === 0 ? [say('none', 'dim')] : []),
    ...alarms
      .slice(0, shownAlarms)
      .map(({ at, kind, text }) => say(fit(`${at.slice(11, 19)}  ${text}`, width), kind)),
  ]
}

function renderNumbers(seconds: State[], width: number): Line[] {
  const last = seconds.at(-1)
  const recent = seconds.slice(-WINDOW)
  const sum = (read: (second: State) => number) =>
    recent.reduce((all, second) => all + read(second), 0)
  const time = sum(({ milliseconds }) => milliseconds)
  const finished = sum(second => second.finished)
  const errors = sum(second => second.failed + second.refused)
  const rate = (count: number) => (time === 0 ? 0 : (count * 1000) / time)
  const texts = [
    [
      `${last?.running_calls ?? 0} in flight${last?.draining ? ', draining' : ''}`,
      `${formatCount(rate(finished))} calls/s`,
      `${errors} errors in a minute`,
      `${formatCount((last?.memory_bytes ?? 0) / 1024 / 1024)} MiB`,
    ],
    renderQueues(last),
    [
      `first part p50 ${formatTime(last?.first_part_p50 ?? null)}`,
      `p95 ${formatTime(last?.first_part_p95 ?? null)}`,
      `${formatCount(rate(sum(({ tokens_completion }) => tokens_completion)))} tokens/s`,
      `${formatUsd(sum(({ cost }) => cost))} a minute`,
    ],
  ]
  return texts.map(parts => say(fit(parts.join('   '), width)))
}

// A gateway elsewhere may be older, and tell of no queues.
function renderQueues(last: State | undefined): string[] {
  const { calls = 0, records = 0, deliveries = 0 } = last?.queues ?? {}
  return [
    `waiting: ${formatCount(calls)} calls for a turn`,
    `${formatCount(records)} records`,
    `${formatCount(deliveries)} for destinations`,
  ]
}

/** Renders two plots beside each other, and two under them. */
function renderPlots(seconds: State[], width: number, height: number): Line[] {
  const each = Math.floor((width - 2) / 2)
  const drawn = PLOTS.map(({ title, read, format }) => {
    const values = seconds.map(read)
    const highest = Math.max(...values.slice(-each * 2), 0)
    const heading = `${title}: ${format(values.at(-1) ?? 0)}, at most ${format(highest)}`
    return [fit(heading, each), ...drawPlot(values, each, height)]
  })
  return [0, 2].flatMap(first =>
    Array.from({ length: height + 1 }, (_, row): Line => {
      const style = row === 0 ? 'dim' : 'accent'
      return [
        { text: drawn[first]?.[row] ?? '', style },
        { text: '  ', style: 'plain' },
        { text: drawn[first + 1]?.[row] ?? '', style },
      ]
    }),
  )
}
