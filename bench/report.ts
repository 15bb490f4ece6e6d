import type { Rival } from './contenders.ts'
import type { Ledger } from './ledger.ts'
import type { Machine, Versions } from './machine.ts'
import type { Plan, Samples, StreamSample } from './rounds.ts'
import { type Spread, spread } from './statistics.ts'

/** Everything that one run found. `--json` prints it unchanged. */
export type Report = {
  plan: Plan
  rival: Rival
  versions: Versions
  machine: Machine
  samples: Samples[]
  ledger?: Ledger
  verdict: Verdict
}

/** The two ratios with a limit, of the medians. Each spread is that of the rounds' own ratios. */
export type Verdict = {
  cpuRatio: number
  cpuRatios: Spread
  ceilingRatio: number
  ceilingRatios: Spread
}

/**
 * The limits: at most twice the CPU per call of the floor, and at least half of its calls per
 * second.
 */
export const LIMITS = { cpuRatio: 2.0, ceilingRatio: 0.5 }

const TOOL_RATE = 15_000
const QUIET = 0.3

/** Compares the rival's rounds with the floor's. */
export function judge(samples: Samples[], rival: Rival): Verdict {
  const [floor, other] = [named(samples, 'floor'), named(samples, rival)]
  const cpu = compare(perCall(other), perCall(floor))
  const ceiling = compare(rates(other), rates(floor))
  return {
    cpuRatio: cpu.ratio,
    cpuRatios: cpu.rounds,
    ceilingRatio: ceiling.ratio,
    ceilingRatios: ceiling.rounds,
  }
}

/** Lists the limits that this run broke, one sentence each. */
export function brokenLimits({ verdict, ledger }: Report): string[] {
  const broken: string[] = []
  if (!(verdict.cpuRatio <= LIMITS.cpuRatio))
    broken.push(`the CPU per call is above ${LIMITS.cpuRatio.toFixed(1)} x the floor's`)
  if (!(verdict.ceilingRatio >= LIMITS.ceilingRatio))
    broken.push(`the ceiling is below ${LIMITS.ceilingRatio} of the floor's`)
  if (ledger && !ledger.matches) broken.push('the ledger does not hold what was called')
  return broken
}

/** Renders the report for people. */
export function render(report: Report): string {
  const { samples, rival } = report
  const lines = [
    ...headLines(report),
    '',
    row(
      '',
      samples.map(({ name }) => name),
    ),
    ...callRows(samples),
    ...report.plan.streams.flatMap(streams => streamRows(samples, streams)),
    row(
      'RSS idle MB',
      samples.map(({ name, idleMb }) => (name === 'direct' ? '-' : idleMb.toFixed(0))),
    ),
    row('RSS at most MB', samples.map(mostResident)),
    '',
    ...verdictLines(report, rival),
  ]
  return `${lines.join('\n')}\n`
}

function headLines({ plan, rival, versions, machine }: Report): string[] {
  const what =
    rival === 'ours'
      ? `${versions.binary} (${versions.binaryMb?.toFixed(0)} MB)`
      : 'the floor once more, in place of the gateway'
  const load = (values: number[]) => values.map(value => value.toFixed(2)).join(' ')
  return [
    `floor: bench/floor.ts   ${rival}: ${what}`,
    `Bun ${versions.bun}, Linux ${versions.kernel}, ${versions.processor}, ${versions.cores} cores`,
    versions.pinned
      ? 'contender alone on core 1; mock provider and load on core 0'
      : 'NOT PINNED: contender, mock provider and load share the cores',
    `loadavg ${load(machine.loadBefore)} before, ${load(machine.loadAfter)} after; ` +
      `others used ${machine.otherCores.toFixed(2)} cores, ` +
      `stolen ${machine.stolenCores.toFixed(3)}`,
    `${plan.rounds} rounds in shuffled order, ${machine.seconds.toFixed(0)} s; ` +
      'each figure: median (least-most) of the rounds',
  ]
}

function callRows(samples: Samples[]): string[] {
  const cells = (
    pick: (sample: Samples['cpu'][number]) => number,
    digits: number,
    from: 'cpu' | 'ceiling',
  ) => samples.map(one => cell(one[from].map(pick), digits))
  return [
    row(
      'CPU per call, c=10, us',
      cells(sample => sample.cpuPerCall, 1, 'cpu'),
    ),
    row(
      '  p50 ms',
      cells(sample => sample.p50Ms, 2, 'cpu'),
    ),
    row(
      '  p99 ms',
      cells(sample => sample.p99Ms, 2, 'cpu'),
    ),
    row(
      'ceiling, c=32, calls/s',
      cells(sample => sample.callsPerSecond, 0, 'ceiling'),
    ),
    row(
      '  CPU per call, us',
      cells(sample => sample.cpuPerCall, 1, 'ceiling'),
    ),
  ]
}

function streamRows(samples: Samples[], streams: number): string[] {
  const cells = (pick: (sample: StreamSample) => number, digits: number) =>
    samples.map(one =>
      cell(one.streams.filter(sample => sample.streams === streams).map(pick), digits),
    )
  return [
    row(
      `${streams} streams: TTFT p50 ms`,
      cells(sample => sample.ttftP50Ms, 2),
    ),
    row(
      '  TTFT p99 ms',
      cells(sample => sample.ttftP99Ms, 2),
    ),
    row(
      '  chunk relay p50 ms',
      cells(sample => sample.relayP50Ms, 2),
    ),
    row(
      '  chunk relay p99 ms',
      cells(sample => sample.relayP99Ms, 2),
    ),
    row(
      '  CPU per chunk, us',
      cells(sample => sample.cpuPerChunk, 1),
    ),
  ]
}

function verdictLines(report: Report, rival: Rival): string[] {
  const { verdict, samples, ledger } = report
  const rate = (name: string) => spread(rates(named(samples, name))).median.toFixed(0)
  const range = ({ least, most }: Spread) => `rounds ${least.toFixed(2)}-${most.toFixed(2)}`
  return [
    `ratio cpu: ${verdict.cpuRatio.toFixed(2)} x ` +
      `(limit ${LIMITS.cpuRatio.toFixed(1)}; ${range(verdict.cpuRatios)})`,
    `ceiling: ${rival} ${rate(rival)} rps, floor ${rate('floor')} rps, ` +
      `ratio ${verdict.ceilingRatio.toFixed(2)} ` +
      `(limit ${LIMITS.ceilingRatio}; ${range(verdict.ceilingRatios)})`,
    ...(ledger
      ? [
          `ledger after kill -9: ${ledger.calls} calls are $${ledger.expectedUsd.toFixed(6)}, ` +
            `the key has spent $${ledger.spentUsd.toFixed(6)}`,
        ]
      : []),
    ...warnings(report),
    ...brokenLimits(report).map(sentence => `BROKEN: ${sentence}`),
  ]
}

function warnings({ samples, machine }: Report): string[] {
  const rate = spread(rates(named(samples, 'direct'))).median
  const late = Math.max(...samples.flatMap(one => one.streams.map(sample => sample.lateP99Ms)))
  return [
    ...(rate < TOOL_RATE
      ? [
          `warning: direct reached only ${rate.toFixed(0)} calls/s; ` +
            'the tool may be what limits the ceiling',
        ]
      : []),
    ...(machine.otherCores > QUIET
      ? ['warning: the machine was not quiet; do not publish these figures']
      : []),
    ...(late > 10
      ? [`warning: streams began up to ${late.toFixed(0)} ms (p99) after their planned time`]
      : []),
  ]
}

function compare(ours: number[], floors: number[]): { ratio: number; rounds: Spread } {
  return {
    ratio: spread(ours).median / spread(floors).median,
    rounds: spread(ours.map((value, round) => value / (floors[round] ?? Number.NaN))),
  }
}

function named(samples: Samples[], name: string): Samples {
  const found = samples.find(one => one.name === name)
  if (!found) throw new Error(`${name} was not measured`)
  return found
}

function perCall({ cpu }: Samples): number[] {
  return cpu.map(sample => sample.cpuPerCall)
}

function rates({ ceiling }: Samples): number[] {
  return ceiling.map(sample => sample.callsPerSecond)
}

function mostResident({ name, cpu, ceiling, streams }: Samples): string {
  return name === 'direct'
    ? '-'
    : Math.max(...[...cpu, ...ceiling, ...streams].map(sample => sample.residentMb)).toFixed(0)
}

function cell(values: number[], digits: number): string {
  const { median, least, most } = spread(values)
  if (!(most > 0)) return '-'
  return `${median.toFixed(digits)} (${least.toFixed(digits)}-${most.toFixed(digits)})`
}

function row(title: string, cells: string[]): string {
  return title.padEnd(26) + cells.map(text => text.padStart(24)).join('')
}
