import { readCpu, readResidentMb } from '../../src/cli/bench/procfs.ts'
import { shuffle } from '../../src/cli/bench/statistics.ts'
import type { Target } from '../../src/cli/bench/wire.ts'
import { protocols } from '../../src/translation/protocols/registry.ts'
import type { Contender } from '../contenders.ts'
import { type Dialect, dialects } from './dialects.ts'
import { checkAnswers, type Delivery, type Load, readStreams } from './load.ts'
import { mockProtocols } from './mock-protocols.ts'
import { OUTPUT } from './model-output.ts'

/** The extent of the measurement. */
export interface Plan extends Load {
  rounds: number
  warmUpStreams: number
}

/**
 * One protocol translated into one dialect, with the cost of a chunk of the provider in each round,
 * in microseconds of CPU.
 */
export interface Cell {
  protocol: string
  dialect: string
  /** The provider's writes in one stream. */
  chunks: number
  cpuPerChunk: number[]
  /**
   * A client's reads per write. Well below 1, the gateway was late and received several writes at
   * once, which is cheaper.
   */
  readsPerChunk: number[]
}

/**
 * The result. `idle` is the CPU per second without calls, in microseconds. `skipped` names what was
 * skipped, and why.
 */
export interface MatrixResult {
  cells: Cell[]
  idle: number
  residentMb: number
  skipped: string[]
}

const IDLE_SECONDS = 2

/** Lists the protocols that both the gateway and the mock support. */
export const listSharedProtocols = (): string[] =>
  Object.keys(mockProtocols).filter(name => name in protocols.text)

/** Measures every protocol in every dialect, one at a time, in a new order each round. */
export async function measureMatrix(
  gateway: Contender,
  plan: Plan,
  progress: (line: string) => void,
): Promise<MatrixResult> {
  const served = await listServedDialects(gateway.target)
  const cells = listSharedProtocols().flatMap(protocol =>
    served.map(dialect => createCell(protocol, dialect)),
  )
  for (const cell of cells)
    await runStreams(gateway.target, cell, 'fast', { ...plan, streams: plan.warmUpStreams })
  const idle = (await measureCpu(gateway, () => Bun.sleep(IDLE_SECONDS * 1_000))).cpu / IDLE_SECONDS
  for (let round = 1; round <= plan.rounds; round++) {
    progress(`round ${round} of ${plan.rounds}`)
    for (const cell of shuffle(cells)) await measureCell(gateway, cell, plan)
  }
  return { cells, idle, residentMb: readResidentMb(gateway.pid), skipped: listSkipped(served) }
}

const createCell = (protocol: string, dialect: string): Cell => ({
  protocol,
  dialect,
  chunks: mockProtocols[protocol]?.render(OUTPUT).length ?? 0,
  cpuPerChunk: [],
  readsPerChunk: [],
})

async function measureCell(gateway: Contender, cell: Cell, plan: Plan): Promise<void> {
  const { result, cpu } = await measureCpu(gateway, () =>
    runStreams(gateway.target, cell, 'bench', plan),
  )
  checkAnswers(result, getDialect(cell))
  const chunks = cell.chunks * plan.streams
  cell.cpuPerChunk.push(cpu / chunks)
  cell.readsPerChunk.push(result.reduce((sum, { reads }) => sum + reads, 0) / chunks)
}

/** The models are named after the protocol of their provider and its speed. */
const runStreams = (
  target: Target,
  cell: Cell,
  pace: 'bench' | 'fast',
  load: Load,
): Promise<Delivery[]> => readStreams(target, getDialect(cell), `${pace}/${cell.protocol}`, load)

function getDialect({ dialect: name }: Cell): Dialect {
  const dialect = dialects[name]
  if (!dialect) throw new Error(`There is no dialect ${name}`)
  return dialect
}

/** Lists the dialects whose route the gateway has. */
async function listServedDialects(target: Target): Promise<string[]> {
  const known = await Promise.all(
    Object.entries(dialects).map(async ([name, { path }]) =>
      (await hasRoute(target, path)) ? [name] : [],
    ),
  )
  return known.flat()
}

async function hasRoute({ url, key }: Target, path: string): Promise<boolean> {
  const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }
  const answer = await fetch(url + path, {
    method: 'POST',
    headers,
    body: '{}',
    signal: AbortSignal.timeout(5_000),
  })
  return answer.status !== 404
}

const listSkipped = (served: string[]): string[] => [
  ...Object.keys(mockProtocols).flatMap(name =>
    name in protocols.text ? [] : [`${name}: the gateway does not support it`],
  ),
  ...Object.keys(protocols.text).flatMap(name =>
    name in mockProtocols ? [] : [`${name}: the mock does not support it`],
  ),
  ...Object.keys(dialects).flatMap(name =>
    served.includes(name) ? [] : [`${name}: its route answers 404`],
  ),
]

// Long enough for writes after an answer.
const SETTLE_MS = 400

/** Runs the work and measures its CPU time, including the writes after the answers. */
async function measureCpu<T>(
  { pid }: Contender,
  work: () => Promise<T>,
): Promise<{ result: T; cpu: number }> {
  const before = readCpu(pid)
  const result = await work()
  await Bun.sleep(SETTLE_MS)
  return { result, cpu: readCpu(pid) - before }
}
