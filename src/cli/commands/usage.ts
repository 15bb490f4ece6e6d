import { InvalidArgumentError, Option } from 'commander'
import { invalid } from '../../base/errors.ts'
import { USAGE_GROUPS, type UsageQuery } from '../../observability/usage.ts'
import { renderCsvRow } from '../csv.ts'
import {
  CUT,
  type Fields,
  type Flags,
  fill,
  fillNamed,
  isDay,
  LIST,
  offer,
  PERIOD,
  refuseBeside,
} from '../fields.ts'
import { KEYS } from '../names.ts'
import { defineVerbs, withInput } from '../noun.ts'
import { formatDollars, printNote, write } from '../output.ts'

const verb = defineVerbs(() => import('../../observability/usage.ts'))

const BY = fill(
  'by',
  '--by <groups>',
  `one row for each, with commas between: ${USAGE_GROUPS.join(', ')} (day)`,
  LIST,
)

const DAY = /^\d{4}-\d\d-\d\d$/

// A day alone is its beginning.
const readTime = (text: string): string => (DAY.test(text) ? `${text}T00:00:00Z` : text)
const FIRST_DAY = { parse: parseDay, read: readTime }

/** Parses a day. A text with a time in it is left to the schema. */
function parseDay(text: string): string {
  if (!text.includes('T') && !isDay(text))
    throw new InvalidArgumentError('expected a day such as 2026-11-05')
  return text
}

/** The last day of a time is a part of it. */
const LAST_DAY: Fields = {
  options: [
    new Option('--to <day>', 'up to this day, and with it').argParser(parseDay).conflicts('until'),
  ],
  flags: { until: '--to' },
  read: ({ to }) => (to === undefined ? {} : { until: findNextDay(String(to)) }),
}

function findNextDay(text: string): string {
  const day = Date.parse(`${text}T00:00:00Z`)
  return DAY.test(text) && !Number.isNaN(day) ? new Date(day + 86_400_000).toISOString() : text
}

const FIELDS = [
  BY,
  ...PERIOD,
  refuseBeside('since', fill('since', '--from <day>', 'from this day on', FIRST_DAY)),
  LAST_DAY,
  fillNamed('key_hash', '--key <key>', 'calls of this API key, by hash, name or label', KEYS),
  fill('model', '--model <id>', 'calls of this model'),
  fill('provider', '--provider <name>', 'calls that this provider answered'),
  offer('--csv', 'as CSV'),
  CUT,
]

/** `gateway usage`: what calls cost and took. */
export const createUsageCommand = () =>
  verb('usage', 'sum cost and tokens by time, key, model or provider', FIELDS, (core, flags) => {
    if (flags.csv && (flags.json || flags.field !== undefined))
      throw invalid('--csv: expected no --json or --field beside it')
    return withInput(core.UsageQuery, (gateway, _, query) => {
      checkOrder(flags, query)
      return core.summarizeUsage(gateway, query)
    })
  }).printAs(({ data, total, warnings = [] }, { gateway: { memory }, flags, printList }) => {
    for (const warning of warnings) printNote(warning)
    const groups = (typeof flags.by === 'string' ? flags.by : 'day').split(',')
    const names = groups.map(name => name.trim() as (typeof USAGE_GROUPS)[number])
    if (flags.csv) return writeCsv(names, data)
    const nameKey = (hash: string | null) => (hash && memory.keys.get(hash)?.name) || hash
    const rows = data.map(row => [
      ...names.map(name => (name === 'key' ? nameKey(row.key ?? null) : (row[name] ?? null))),
      ...renderSum(row),
    ])
    const rest = names.slice(1).map(() => '')
    const all = data.length > 1 ? [['total', ...rest, ...renderSum(total)]] : []
    printList([...names.map(name => name.toUpperCase()), ...HEADINGS], [...rows, ...all])
  })

function checkOrder({ from, to }: Flags, { since, until }: UsageQuery): void {
  if (since === undefined || until === undefined || Date.parse(since) < Date.parse(until)) return
  const first = from === undefined ? '--since' : '--from'
  throw invalid(
    to === undefined
      ? `--until: expected a time after ${first}`
      : `--to: expected a day that is not before ${first}`,
  )
}

const HEADINGS = ['CALLS', 'INPUT TOKENS', 'OUTPUT TOKENS', 'COST', 'OWN KEYS']
const COLUMNS = ['calls', 'input_tokens', 'output_tokens', 'cost', 'byok_cost'] as const

type Shown = Record<(typeof COLUMNS)[number], number>

const renderSum = (sum: Shown) => [
  sum.calls,
  sum.input_tokens,
  sum.output_tokens,
  formatDollars(sum.cost),
  formatDollars(sum.byok_cost),
]

async function writeCsv(
  names: (typeof USAGE_GROUPS)[number][],
  rows: (Shown & Partial<Record<(typeof USAGE_GROUPS)[number], string | null>>)[],
): Promise<void> {
  await write(renderCsvRow([...names, ...COLUMNS]))
  for (const row of rows)
    await write(
      renderCsvRow([...names.map(name => row[name]), ...COLUMNS.map(name => toDecimal(row[name]))]),
    )
}

// No exponent: a spreadsheet would round 1e-9.
const toDecimal = (value: number): string | number =>
  Number.isInteger(value) ? value : value.toFixed(9).replace(/0+$/, '')
