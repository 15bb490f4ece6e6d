import type { Machine, Versions } from '../../src/cli/bench/machine.ts'
import { computeSpread, type Spread } from '../../src/cli/bench/statistics.ts'
import type { Cell, MatrixResult, Plan } from './matrix.ts'
import type { CostCurve } from './readers.ts'

/** The limit: microseconds of CPU for a chunk, for every translation. */
export const MAX_PER_CHUNK = 60

/** The limit: how much more a delta may cost in the longest stream than in the shortest. */
export const MAX_GROWTH = 2

/** What a matrix run found. `--json` prints it unchanged. */
export interface MatrixReport {
  plan: Plan
  versions: Versions
  machine: Machine
  limit: number
  found: MatrixResult
}

const QUIET = 0.3
const MIN_READS = 0.9

/** Lists the limits that this run broke, one sentence each. */
export const listBrokenChunks = ({ found }: MatrixReport): string[] =>
  found.cells
    .filter(cell => !(computeSpread(cell.cpuPerChunk).median <= MAX_PER_CHUNK))
    .map(
      ({ protocol, dialect }) =>
        `${protocol} -> ${dialect} costs more than ${MAX_PER_CHUNK} us of CPU per chunk`,
    )

/** Renders the matrix for people. */
export function renderMatrix(report: MatrixReport): string {
  const { plan, versions, machine, found } = report
  const reference = found.cells.find(
    cell => cell.protocol === 'openai-chat' && cell.dialect === 'chat',
  )
  const lines = [
    `${versions.program} on Bun ${versions.bun}, ${versions.processor}, ${versions.cores} cores` +
      `${versions.pinned ? '' : ', NOT PINNED'}`,
    `${plan.streams} concurrent streams, ${plan.rounds} rounds in shuffled order, ` +
      `${machine.seconds.toFixed(0)} s; others used ${machine.otherCores.toFixed(2)} cores`,
    `idle: ${found.idle.toFixed(0)} us of CPU per second; ` +
      `RSS at the end ${found.residentMb.toFixed(0)} MB`,
    '',
    renderRow('CPU per chunk, us', ['median', 'least-most', 'x chat -> chat', 'reads/chunk']),
    ...found.cells.map(cell => renderCellRow(cell, reference)),
    '',
    ...found.skipped.map(reason => `not measured: ${reason}`),
    ...(hasMergedReads(found)
      ? ['warning: chunks came several at once; on a quiet machine each costs more']
      : []),
    ...(machine.otherCores > QUIET
      ? ['warning: the machine was not quiet; do not publish these figures']
      : []),
    ...listBrokenChunks(report).map(sentence => `BROKEN: ${sentence}`),
  ]
  return `${lines.join('\n')}\n`
}

function renderCellRow(
  { protocol, dialect, cpuPerChunk, readsPerChunk }: Cell,
  reference: Cell | undefined,
): string {
  const cpu = computeSpread(cpuPerChunk)
  const ratio = cpu.median / computeSpread(reference?.cpuPerChunk ?? []).median
  const reads = computeSpread(readsPerChunk).median
  return renderRow(`${protocol} -> ${dialect}`, [
    cpu.median.toFixed(1),
    renderRange(cpu),
    ratio.toFixed(2),
    reads.toFixed(2),
  ])
}

// Then the figure is that of a gateway that was delayed.
const hasMergedReads = ({ cells }: MatrixResult) =>
  cells.some(({ readsPerChunk }) => computeSpread(readsPerChunk).median < MIN_READS)

const renderRange = ({ least, most }: Spread) => `${least.toFixed(1)}-${most.toFixed(1)}`

/** Lists the curves that grow faster than their length, one sentence each. */
export const listBrokenCurves = (curves: CostCurve[]): string[] =>
  curves
    .filter(({ growth }) => !(growth <= MAX_GROWTH))
    .map(({ name }) => `${name} costs more for each piece the longer it is`)

/** Renders what each reader costs per piece as streams get longer. */
export function renderCurves(curves: CostCurve[]): string {
  const lines = [
    renderRow('nanoseconds per piece', ['1x', '2x', '4x', '8x', 'growth']),
    ...curves.map(({ name, nanoseconds, growth }) =>
      renderRow(name, [...nanoseconds.map(value => value.toFixed(0)), growth.toFixed(2)]),
    ),
    ...listBrokenCurves(curves).map(sentence => `BROKEN: ${sentence}`),
  ]
  return `${lines.join('\n')}\n`
}

const renderRow = (title: string, cells: string[]): string =>
  title.padEnd(44) + cells.map(text => text.padStart(cells.length > 4 ? 10 : 14)).join('')
