/** @jsxImportSource preact */
import { useEffect, useMemo, useRef } from 'preact/hooks'
import uPlot from 'uplot'
import { ask, type OwnSession } from './api.ts'
import { type Column, saveCsv, Table, useLoaded, Waiting } from './parts.tsx'
import { link, type Place, setQuery } from './route.ts'
import { formatCount, formatMilliseconds, formatUsd } from './text.ts'

type Row = Record<string, string | number | null>

/** A row of a query over time. */
interface Dated {
  /** In milliseconds. */
  time: number
  row: Row
}

interface Answer {
  data: { data: Row[]; metadata: { truncated: boolean }; warnings?: string[] }
}

/** What can be looked at, and how its numbers read. */
const METRICS = {
  total_usage: { title: 'Spend', format: formatUsd },
  request_count: { title: 'Calls', format: formatCount },
  error_count: { title: 'Failed calls', format: formatCount },
  tokens_total: { title: 'Tokens', format: formatCount },
  avg_latency: { title: 'Time to first token', format: formatMilliseconds },
  cache_hit_rate: {
    title: 'Prompt tokens from a cache',
    format: (share: number | null | undefined) =>
      share == null ? '—' : `${(share * 100).toFixed(1)} %`,
  },
} as const
type Metric = keyof typeof METRICS
const NAMES = Object.keys(METRICS) as Metric[]

/** What no sums have: each call is read for it. The rest does not wait for that. */
const MEASURED = 'avg_latency'
const SUMMED = NAMES.filter(name => name !== MEASURED)

const DIMENSIONS: Record<string, string> = {
  model: 'Model',
  provider: 'Provider',
  api_key_id: 'Key',
  user: 'Member',
  workspace: 'Workspace',
  app: 'App',
}

/** A range of time, and how finely it is drawn. */
interface Range {
  title: string
  hours: number
  granularity: 'hour' | 'day'
}

const DAY: Range = { title: '24 hours', hours: 24, granularity: 'hour' }
const RANGES: Record<string, Range> = {
  day: DAY,
  week: { title: '7 days', hours: 168, granularity: 'day' },
  month: { title: '30 days', hours: 720, granularity: 'day' },
  quarter: { title: '90 days', hours: 2_160, granularity: 'day' },
}

const HOUR = 3_600_000

const SUMS: Metric[] = ['total_usage', 'request_count', 'error_count', 'tokens_total']

/** What was spent, called and answered: in sum, over time, and by model, provider, key or member. */
export function Overview({ place, session }: { place: Place; session: OwnSession }) {
  const isMember = session.role === 'member'
  const { query } = place
  const name = query.get('range') ?? 'day'
  const range = RANGES[name] ?? DAY
  const by = Object.hasOwn(DIMENSIONS, query.get('by') ?? '') ? (query.get('by') ?? '') : 'model'
  const asked = query.get('show') ?? ''
  const metric: Metric = Object.hasOwn(METRICS, asked) ? (asked as Metric) : 'total_usage'
  const loaded = useLoaded(() => readFigures(range, by, SUMMED), [name, by])
  // Of many calls that takes long: only a day's are read unasked.
  const isMeasured = name === 'day' || metric === MEASURED
  const measured = useLoaded(
    async () => (isMeasured ? readFigures(range, by, [MEASURED]) : undefined),
    [name, by, isMeasured],
  )
  const value = loaded.value && mergeFigures(by, loaded.value, measured.value)
  return (
    <>
      <header class="head">
        <h1>Overview</h1>
        <div class="tools">
          <Choice
            label="Last"
            value={name}
            choices={Object.entries(RANGES).map(([key, { title }]) => [key, title])}
            onChoice={range => setQuery(place, { range })}
          />
          <Choice
            label="By"
            value={by}
            choices={Object.entries(DIMENSIONS).filter(([one]) => !isMember || one !== 'user')}
            onChoice={by => setQuery(place, { by })}
          />
        </div>
      </header>
      {value ? (
        <>
          <div class="tiles">
            {NAMES.map(one => (
              <button
                key={one}
                type="button"
                class="tile"
                aria-pressed={one === metric}
                onClick={() => setQuery(place, { show: one })}
              >
                <span class="quiet">{METRICS[one].title}</span>
                <strong>
                  {METRICS[one].format(value.sum?.[one] as number | null | undefined)}
                </strong>
              </button>
            ))}
          </div>
          {value.groups.data.length === 0 ? (
            <FirstRun isMember={isMember} />
          ) : (
            <Groups by={by} metric={metric} rows={value.groups.data} {...value} />
          )}
          {isMeasured && measured.error ? (
            <p class="notice bad" role="status">
              {METRICS[MEASURED].title}: {measured.error.message}
            </p>
          ) : null}
          {value.groups.warnings?.map(warning => (
            <p key={warning} class="quiet">
              {warning}
            </p>
          ))}
        </>
      ) : (
        <Waiting {...loaded} />
      )}
    </>
  )
}

/** What was found of a range: in sum, by group, and by group and time. */
interface Figures {
  sum: Row | undefined
  groups: Answer['data'] & { warnings?: string[] }
  times: number[]
  dated: Dated[]
}

async function readFigures(range: Range, by: string, metrics: Metric[]): Promise<Figures> {
  const end = Math.ceil(Date.now() / HOUR) * HOUR
  const time_range = {
    start: new Date(end - range.hours * HOUR).toISOString(),
    end: new Date(end).toISOString(),
  }
  const query = (body: object) =>
    ask<Answer>('POST', '/analytics/query', { metrics, time_range, ...body })
  const [sum, groups, series] = await Promise.all([
    query({}),
    query({
      dimensions: [by],
      order_by: { field: metrics[0], direction: 'desc' },
      limit: 1_000,
    }),
    query({ dimensions: [by], granularity: range.granularity, limit: 10_000 }),
  ])
  const step = range.granularity === 'hour' ? HOUR : 24 * HOUR
  const begin = Math.floor((end - range.hours * HOUR) / step) * step
  const times = Array.from({ length: Math.ceil((end - begin) / step) }, (_, i) => begin + i * step)
  const dated = series.data.data.map(row => ({
    time: Date.parse(String(row[`date__${range.granularity}`])),
    row,
  }))
  return { sum: sum.data.data[0], groups: groups.data, times, dated }
}

/** Lays what is measured beside the sums of the same. */
function mergeFigures(by: string, figures: Figures, measured: Figures | undefined): Figures {
  if (!measured) return figures
  const groups = new Map(measured.groups.data.map(row => [getName(by, row), row]))
  const dated = new Map(measured.dated.map(({ time, row }) => [`${time} ${getName(by, row)}`, row]))
  return {
    ...figures,
    sum: { ...figures.sum, ...measured.sum },
    groups: {
      ...figures.groups,
      data: figures.groups.data.map(row => ({ ...row, ...groups.get(getName(by, row)) })),
    },
    dated: figures.dated.map(({ time, row }) => ({
      time,
      row: { ...row, ...dated.get(`${time} ${getName(by, row)}`) },
    })),
  }
}

function Choice({
  label,
  value,
  choices,
  onChoice,
}: {
  label: string
  value: string
  choices: [string, string][]
  onChoice: (value: string) => void
}) {
  return (
    <label>
      {label}{' '}
      <select value={value} onChange={event => onChoice(event.currentTarget.value)}>
        {choices.map(([key, title]) => (
          <option key={key} value={key}>
            {title}
          </option>
        ))}
      </select>
    </label>
  )
}

/** What a row is of. */
const getName = (by: string, row: Row): string => String(row[by] ?? '') || '(none)'

function Groups({
  by,
  metric,
  rows,
  times,
  dated,
}: {
  by: string
  metric: Metric
  rows: Row[]
  times: number[]
  dated: Dated[]
}) {
  const { title, format } = METRICS[metric]
  const series = useMemo(
    () => drawSeries(by, metric, rows, times, dated),
    [by, metric, rows, times, dated],
  )
  const columns: Column<Row>[] = [
    { title: DIMENSIONS[by] ?? by, show: row => getName(by, row) },
    ...NAMES.map(name => ({
      title: METRICS[name].title,
      isNumber: true,
      show: (row: Row) => METRICS[name].format(row[name] as number | null),
      text: (row: Row) => String(row[name] ?? ''),
    })),
  ]
  return (
    <>
      <h2>
        {title} by {DIMENSIONS[by]?.toLowerCase()}
      </h2>
      <Chart title={title} times={times} series={series} format={format} />
      <Table caption={`By ${DIMENSIONS[by]}`} columns={columns} rows={rows} />
      <button type="button" onClick={() => saveCsv(`by-${by}`, columns, rows)}>
        Save as CSV
      </button>
    </>
  )
}

/** Lays the rows of a query over time out as lines, those with the most first. */
function drawSeries(by: string, metric: Metric, rows: Row[], times: number[], dated: Dated[]) {
  const top = rows
    .toSorted((a, b) => Number(b[metric] ?? 0) - Number(a[metric] ?? 0))
    .slice(0, MOST_SERIES)
  const found = new Map(dated.map(({ time, row }) => [`${time} ${getName(by, row)}`, row[metric]]))
  // Where nothing was called, nothing was spent, but nothing took any time either.
  const none = SUMS.includes(metric) ? 0 : null
  return top.map(row => ({
    label: getName(by, row),
    values: times.map(
      time => (found.get(`${time} ${getName(by, row)}`) as number | null | undefined) ?? none,
    ),
  }))
}

/** A line over time. */
interface Series {
  label: string
  values: (number | null)[]
}

/** As many colours as lines can be told apart by; they work on light and dark. */
const COLOURS = [
  '#3b82f6',
  '#f97316',
  '#10b981',
  '#a855f7',
  '#ef4444',
  '#14b8a6',
  '#eab308',
  '#ec4899',
]

/** How many lines are drawn: the rest is in the table. */
const MOST_SERIES = COLOURS.length

/** Draws lines over time. The table beside it says the same in words. */
function Chart({
  title,
  times,
  series,
  format,
}: {
  title: string
  /** In milliseconds. */
  times: number[]
  series: Series[]
  format: (value: number) => string
}) {
  const place = useRef<HTMLDivElement>(null)
  useEffect(() => {
    const element = place.current
    if (!element || times.length === 0) return
    const text = getComputedStyle(element).color
    const grid = { stroke: '#8883', width: 1 }
    const plot = new uPlot(
      {
        width: element.clientWidth,
        height: 240,
        cursor: { y: false },
        axes: [
          { stroke: text, grid },
          { stroke: text, grid, size: 70, values: (_, ticks) => ticks.map(format) },
        ],
        series: [
          {},
          ...series.map(({ label }, i) => ({
            label,
            stroke: COLOURS[i % COLOURS.length] ?? text,
            width: 2,
            points: { show: times.length < 3 },
            value: (_: uPlot, value: number | null) => (value === null ? '—' : format(value)),
          })),
        ],
      },
      [times.map(time => time / 1000), ...series.map(({ values }) => values)],
      element,
    )
    const observer = new ResizeObserver(() =>
      plot.setSize({ width: element.clientWidth, height: 240 }),
    )
    observer.observe(element)
    return () => {
      observer.disconnect()
      plot.destroy()
    }
  }, [times, series])
  return (
    <div
      ref={place}
      class="chart"
      role="img"
      aria-label={`${title}: the table below has the numbers`}
    />
  )
}

/** What leads from an empty gateway to a first answered call. */
const FirstRun = ({ isMember }: { isMember: boolean }) => (
  <section class="notice">
    <h2>No calls in this time</h2>
    <ol>
      {isMember ? null : (
        <li>
          <a href={link(['byok', 'new'])}>Add the key of a provider</a>, or begin without one: the
          model <code>sandbox/echo</code> needs none.
        </li>
      )}
      <li>
        <a href={link(['playground'])}>Make a first call</a> here.
      </li>
      <li>
        <a href={link(['keys', 'new'])}>Make a key</a> for your program.
      </li>
    </ol>
  </section>
)
