import type { Rival } from './contenders.ts'
import type { Ledger } from './ledger.ts'
import type { Machine, Versions } from './machine.ts'
import type { Plan, Samples, StreamSample } from './rounds.ts'
import { computeSpread, type Spread } from './statistics.ts'

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
  const [floor, other] = [findSamples(samples, 'floor'), findSamples(samples, rival)]
  const cpu = compare(listCpuPerCall(other), listCpuPerCall(floor))
  const ceiling = compare(listRates(other), listRates(floor))
  return {
    cpuRatio: cpu.ratio,
    cpuRatios: cpu.rounds,
    ceilingRatio: ceiling.ratio,
    ceilingRatios: ceiling.rounds,
  }
}

/** Lists the limits that this run broke, one sentence each. */
export function listBrokenLimits({ verdict, ledger }: Report): string[] {
  const broken: string[] = []
  if (!(verdict.cpuRatio <= LIMITS.cpuRatio))
    broken.push(`the CPU per call is above ${LIMITS.cpuRatio.toFixed(1)} x the floor's`)
  if (!(verdict.ceilingRatio >= LIMITS.ceilingRatio))
    broken.push(`the ceiling is below ${LIMITS.ceilingRatio} of the floor's`)
  if (ledger && !ledger.matches) broken.push('the ledger does not hold what was called')
  return broken
}

/** Renders the report for people. */
export function renderReport(report: Report): string {
  const { samples, rival } = report
  const lines = [
    ...renderHead(report),
    '',
    renderRow(
      '',
      samples.map(({ name }) => name),
    ),
    ...renderCallRows(samples),
    ...report.plan.streams.flatMap(streams => renderStreamRows(samples, streams)),
    renderRow(
      'RSS idle MB',
      samples.map(({ name, idleMb }) => (name === 'direct' ? '-' : idleMb.toFixed(0))),
    ),
    renderRow('RSS at most MB', samples.map(renderMostResident)),
    '',
    ...renderVerdict(report, rival),
  ]
  return `${lines.join('\n')}\n`
}

function renderHead({ plan, rival, versions, machine }: Report): string[] {
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

function renderCallRows(samples: Samples[]): string[] {
  const renderCells = (
    pick: (sample: Samples['cpu'][number]) => number,
    digits: number,
    from: 'cpu' | 'ceiling',
  ) => samples.map(one => renderCell(one[from].map(pick), digits))
  return [
    renderRow(
      'CPU per call, c=10, us',
      renderCells(sample => sample.cpuPerCall, 1, 'cpu'),
    ),
    renderRow(
      '  p50 ms',
      renderCells(sample => sample.p50Ms, 2, 'cpu'),
    ),
    renderRow(
      '  p99 ms',
      renderCells(sample => sample.p99Ms, 2, 'cpu'),
    ),
    renderRow(
      'ceiling, c=32, calls/s',
      renderCells(sample => sample.callsPerSecond, 0, 'ceiling'),
    ),
    renderRow(
      '  CPU per call, us',
      renderCells(sample => sample.cpuPerCall, 1, 'ceiling'),
    ),
  ]
}

function renderStreamRows(samples: Samples[], streams: number): string[] {
  const renderCells = (pick: (sample: StreamSample) => number, digits: number) =>
    samples.map(one =>
      renderCell(one.streams.filter(sample => sample.streams === streams).map(pick), digits),
    )
  return [
    renderRow(
      `${streams} streams: TTFT p50 ms`,
      renderCells(sample => sample.ttftP50Ms, 2),
    ),
    renderRow(
      '  TTFT p99 ms',
      renderCells(sample => sample.ttftP99Ms, 2),
    ),
    renderRow(
      '  chunk relay p50 ms',
      renderCells(sample => sample.relayP50Ms, 2),
    ),
    renderRow(
      '  chunk relay p99 ms',
      renderCells(sample => sample.relayP99Ms, 2),
    ),
    renderRow(
      '  CPU per chunk, us',
      renderCells(sample => sample.cpuPerChunk, 1),
    ),
  ]
}

function renderVerdict(report: Report, rival: Rival): string[] {
  const { verdict, samples, ledger } = report
  const rate = (name: string) =>
    computeSpread(listRates(findSamples(samples, name))).median.toFixed(0)
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
    ...listWarnings(report),
    ...listBrokenLimits(report).map(sentence => `BROKEN: ${sentence}`),
  ]
}

function listWarnings({ samples, machine }: Report): string[] {
  const rate = computeSpread(listRates(findSamples(samples, 'direct'))).median
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
    ratio: computeSpread(ours).median / computeSpread(floors).median,
    rounds: computeSpread(ours.map((value, round) => value / (floors[round] ?? Number.NaN))),
  }
}

function findSamples(samples: Samples[], name: string): Samples {
  const found = samples.find(one => one.name === name)
  if (!found) throw new Error(`${name} was not measured`)
  return found
}

function listCpuPerCall({ cpu }: Samples): number[] {
  return cpu.map(sample => sample.cpuPerCall)
}

function listRates({ ceiling }: Samples): number[] {
  return ceiling.map(sample => sample.callsPerSecond)
}

function renderMostResident({ name, cpu, ceiling, streams }: Samples): string {
  return name === 'direct'
    ? '-'
    : Math.max(...[...cpu, ...ceiling, ...streams].map(sample => sample.residentMb)).toFixed(0)
}

function renderCell(values: number[], digits: number): string {
  const { median, least, most } = computeSpread(values)
  if (!(most > 0)) return '-'
  return `${median.toFixed(digits)} (${least.toFixed(digits)}-${most.toFixed(digits)})`
}

function renderRow(title: string, cells: string[]): string {
  return title.padEnd(26) + cells.map(text => text.padStart(24)).join('')
}
