import { formatDollars } from '../output.ts'
import { CASE_NAMES, type Extent, getCase } from './cases.ts'
import { type Goal, isSteady, type Row } from './goals.ts'
import type { Report } from './report.ts'

/** The headings of the table of rows. */
export const HEADINGS = [
  ...[
    'CASE',
    'CONTENDER',
    'CPU µs',
    '× TEN LINES',
    'QUARTILES',
    'CALLS/S',
    'p50 ms',
    'p99 ms',
    'RSS MB',
  ],
  'ERRORS',
]

/** Returns the cells of a row. */
export const listCells = (row: Row): (string | number | null)[] => [
  row.case,
  row.contender,
  row.cpu_us,
  row.ratio,
  row.ratio_q1 === null ? null : `${row.ratio_q1} to ${row.ratio_q3}`,
  row.calls_per_second,
  row.p50_ms,
  row.p99_ms,
  row.resident_mb,
  row.errors,
]

/** The headings of the table of goals. */
export const GOAL_HEADINGS = ['GOAL', 'AT MOST', 'MEASURED', '']

/** Returns the cells of a goal. */
export const listGoalCells = ({ goal, unit, most, measured, state }: Goal): string[] => [
  goal,
  `${formatFigure(most)} ${unit}`,
  measured === null ? '-' : `${formatFigure(measured)} ${unit}`,
  state,
]

const formatFigure = (value: number) => String(Number(value.toFixed(2)))

/** Describes what each case is, one line each. */
export const describeCases = (report: Report): string[] =>
  CASE_NAMES.filter(name => report.data.some(row => row.case === name)).map(name => {
    const { description, unit } = getCase(name)
    return `${name}: ${describeExtent(name, report.extent)}${description} (CPU per ${unit})`
  })

function describeExtent(name: string, { rate, streams }: Extent): string {
  if (name === 'steady') return `${rate} a second: `
  return name.endsWith('streams') || name === 'aborts' ? `${streams} ` : ''
}

/** Describes the machine and the versions, one line each. */
export function describeMachine({ versions, machine, extent }: Report): string[] {
  const load = (values: number[]) => values.map(value => value.toFixed(2)).join(' ')
  return [
    `gateway ${versions.gateway} (${versions.programMb.toFixed(0)} MB), Bun ${versions.bun}`,
    `${versions.system}, ${versions.processor}, ${versions.cores} cores`,
    versions.pinned
      ? 'each contender alone on core 1; the mock provider and the load on core 0'
      : 'not pinned: contender, mock provider and load share the cores',
    `${extent.rounds} rounds in shuffled order, ${machine.seconds.toFixed(0)} s; ` +
      `load ${load(machine.loadBefore)} before, ${load(machine.loadAfter)} after`,
  ]
}

/** The most cores that other programs may use on a quiet machine. */
const QUIET = 0.3
/** Calls in a second that the tools should reach by themselves. */
const TOOL_RATE = 10_000

/** Lists what the reader has to know about the figures, one line each. */
export function listRemarks({ data, machine, skipped, ledger }: Report): string[] {
  const direct = data.find(row => row.case === 'calls' && row.contender === 'direct')
  const rate = direct?.calls_per_second ?? TOOL_RATE
  return [
    ...skipped.map(({ contender, why }) => `${contender} is left out: ${why}`),
    ...ledger.map(
      one =>
        `${one.contender}: after kill -9 the ledger has ${formatDollars(one.spent_usd)} for ` +
        `${one.calls} answered calls of ${formatDollars(one.expected_usd)} ` +
        `(and what left streams cost), and ${one.rows} calls on record: ` +
        `${one.holds ? 'none is lost' : 'WRONG'}`,
    ),
    ...(machine.otherCores > QUIET
      ? [
          `the machine was not quiet: others used ${machine.otherCores.toFixed(1)} cores, so that ` +
            'CPU figures are too high, and times say little',
        ]
      : []),
    ...CASE_NAMES.filter(name => {
      const floor = data.find(row => row.case === name && row.contender === 'floor')
      return floor && floor.cpu_us !== null && !isSteady(floor)
    }).map(
      name =>
        `${name}: no verdict. The ten-line proxy itself had too few rounds, or quartiles that ` +
        'differ by more than 15 %',
    ),
    ...(rate < TOOL_RATE
      ? [`direct reached ${rate} calls/s only: the tools may be what limits calls/s`]
      : []),
  ]
}

/** Renders a report as the page `docs/performance.md`. */
export const renderPage = (report: Report): string =>
  [
    '# Performance',
    '',
    INTRODUCTION,
    '',
    '## The machine',
    '',
    ...renderList(describeMachine(report)),
    '',
    '## Figures',
    '',
    ...renderTable(HEADINGS, report.data.map(listCells)),
    '',
    ...renderList(describeCases(report)),
    '',
    ...renderList(listRemarks(report)),
    '',
    '## Goals',
    '',
    ...renderTable(GOAL_HEADINGS, report.goals.map(listGoalCells)),
    '',
    EPILOGUE,
    '',
  ].join('\n')

const INTRODUCTION = `This page is what \`gateway bench --markdown\` printed. Run it on your machine:
figures of different machines cannot be compared, ratios can.

The benchmark starts everything itself, on loopback and in a temporary directory, and ends it:

- a mock provider that answers at once, with 1 KB or a stream;
- a load generator;
- the contenders, one under load at a time, in a new order each round: \`direct\` (the mock itself),
  \`sockets\` (bytes from socket to socket, unread), \`nginx\` and \`portkey\` where they are
  installed, \`floor\` (a Bun proxy of ten lines: it looks up a key, parses, forwards and
  serialises), \`ours\` (the gateway with a key) and \`ours-full\`: with limits of the key, the
  workspace and a guardrail, three content filters and a webhook that is told every call.

The ten-line proxy is a fair anchor and no floor: sockets alone take half of it. Each contender is
warmed up with 30,000 calls at the concurrency that is measured, and with streams of each kind, and
begins each turn with calls that are not measured. Turns last a second. CPU is the time that the
scheduler gave to all threads of the contender. Nothing is subtracted: parsing, the connection to
the provider and the record on disk are in it. The ratio is to the ten-line proxy in the same round:
the median of the rounds, with its quartiles. Where the ten-line proxy’s own quartiles differ by
more than 15 %, the machine was too busy, and there is no verdict.`

const EPILOGUE = `What this does not measure: memory of thousands of streams, large bodies and overload are what
\`bun run bench:overload\` prints, a chunk from every protocol to every dialect
\`bun run bench:translation\`, the filters’ cost for a megabyte \`bun run bench:filters\`, questions
about millions of calls \`bun run bench:rollups\`, what a stream costs apart from its chunks
\`bun run bench:compare --stream\`, a data directory that has grown \`bun run bench:growth\`, and the
size of the program’s parts \`bun run sizes\`.`

const renderList = (lines: string[]): string[] => lines.map(line => `- ${wrap(line)}`)

/** Breaks a line of a list at 100 columns. */
function wrap(line: string): string {
  let width = 2 + line.indexOf(' ')
  return line.split(' ').reduce((text, word) => {
    const isFull = width + 1 + word.length > 100
    width = isFull ? 2 + word.length : width + 1 + word.length
    return text + (isFull ? '\n  ' : ' ') + word
  })
}

const renderTable = (headings: string[], rows: (string | number | null)[][]): string[] => [
  renderRow(headings),
  renderRow(headings.map(() => '---')),
  ...rows.map(row => renderRow(row.map(cell => String(cell ?? '-')))),
]

const renderRow = (cells: string[]): string => `| ${cells.join(' | ')} |`
