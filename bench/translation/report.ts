import type { Machine, Versions } from '../machine.ts'
import { type Spread, spread } from '../statistics.ts'
import type { Cell, Found, Plan } from './matrix.ts'
import type { Course } from './readers.ts'

/** The limit: microseconds of CPU for a chunk, for every translation. */
export const MOST_PER_CHUNK = 60

/** The limit: how much more a delta may cost in the longest stream than in the shortest. */
export const MOST_GROWTH = 2

/** What a matrix run found. `--json` prints it unchanged. */
export interface MatrixReport {
  plan: Plan
  versions: Versions
  machine: Machine
  limit: number
  found: Found
}

const QUIET = 0.3
const LEAST_READS = 0.9

/** Lists the limits that this run broke, one sentence each. */
export const brokenChunks = ({ found }: MatrixReport): string[] =>
  found.cells
    .filter(cell => !(spread(cell.cpuPerChunk).median <= MOST_PER_CHUNK))
    .map(
      ({ protocol, dialect }) =>
        `${protocol} -> ${dialect} costs more than ${MOST_PER_CHUNK} us of CPU per chunk`,
    )

/** Renders the matrix for people. */
export function renderMatrix(report: MatrixReport): string {
  const { plan, versions, machine, found } = report
  const reference = found.cells.find(
    cell => cell.protocol === 'openai-chat' && cell.dialect === 'chat',
  )
  const lines = [
    `${versions.binary} on Bun ${versions.bun}, ${versions.processor}, ${versions.cores} cores` +
      `${versions.pinned ? '' : ', NOT PINNED'}`,
    `${plan.streams} concurrent streams, ${plan.rounds} rounds in shuffled order, ` +
      `${machine.seconds.toFixed(0)} s; others used ${machine.otherCores.toFixed(2)} cores`,
    `idle: ${found.idle.toFixed(0)} us of CPU per second; ` +
      `RSS at the end ${found.residentMb.toFixed(0)} MB`,
    '',
    row('CPU per chunk, us', ['median', 'least-most', 'x chat -> chat', 'reads/chunk']),
    ...found.cells.map(cell => cellRow(cell, reference)),
    '',
    ...found.skipped.map(reason => `not measured: ${reason}`),
    ...(together(found)
      ? ['warning: chunks came several at once; on a quiet machine each costs more']
      : []),
    ...(machine.otherCores > QUIET
      ? ['warning: the machine was not quiet; do not publish these figures']
      : []),
    ...brokenChunks(report).map(sentence => `BROKEN: ${sentence}`),
  ]
  return `${lines.join('\n')}\n`
}

function cellRow(
  { protocol, dialect, cpuPerChunk, readsPerChunk }: Cell,
  reference: Cell | undefined,
): string {
  const cpu = spread(cpuPerChunk)
  const ratio = cpu.median / spread(reference?.cpuPerChunk ?? []).median
  const reads = spread(readsPerChunk).median
  return row(`${protocol} -> ${dialect}`, [
    cpu.median.toFixed(1),
    range(cpu),
    ratio.toFixed(2),
    reads.toFixed(2),
  ])
}

// Then the figure is that of a gateway that was delayed.
const together = ({ cells }: Found) =>
  cells.some(({ readsPerChunk }) => spread(readsPerChunk).median < LEAST_READS)

const range = ({ least, most }: Spread) => `${least.toFixed(1)}-${most.toFixed(1)}`

/** Lists the curves that grow faster than their length, one sentence each. */
export const brokenCourses = (courses: Course[]): string[] =>
  courses
    .filter(({ growth }) => !(growth <= MOST_GROWTH))
    .map(({ name }) => `${name} costs more for each piece the longer it is`)

/** Renders what each reader costs per piece as streams get longer. */
export function renderCourses(courses: Course[]): string {
  const lines = [
    row('nanoseconds per piece', ['1x', '2x', '4x', '8x', 'growth']),
    ...courses.map(({ name, nanoseconds, growth }) =>
      row(name, [...nanoseconds.map(value => value.toFixed(0)), growth.toFixed(2)]),
    ),
    ...brokenCourses(courses).map(sentence => `BROKEN: ${sentence}`),
  ]
  return `${lines.join('\n')}\n`
}

const row = (title: string, cells: string[]): string =>
  title.padEnd(44) + cells.map(text => text.padStart(cells.length > 4 ? 10 : 14)).join('')
