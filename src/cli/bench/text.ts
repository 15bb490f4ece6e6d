import { formatDollars } from '../output.ts'
import { CASE_NAMES, type Extent, getCase } from './cases.ts'
import type { Row } from './goals.ts'
import { type Goal, isSteady } from './goals.ts'
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
