import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { type Child, pinSelf } from '../src/cli/bench/children.ts'
import { enableEverything } from '../src/cli/bench/contenders.ts'
import { openStreams, runClosedLoop } from '../src/cli/bench/generator.ts'
import { createCpuReader } from '../src/cli/bench/procfs.ts'
import { computeSpread, shuffle } from '../src/cli/bench/statistics.ts'
import { type Dialect, MODEL, renderCall, type Target } from '../src/cli/bench/wire.ts'
import {
  CORES,
  type Contender,
  initGateway,
  renderSingleModelConfig,
  startFloor,
  startGateway,
  startUpstream,
} from './contenders.ts'

const USAGE = `bun run bench/compare.ts [--rounds N] [--calls N] [--warm-up N] [--connections N]
  [--everything] [--stream] [--dialect chat|messages] PROGRAM...

Compares the CPU that a call costs in several programs: built gateways, or the source of one
(src/cli/main.ts of any checkout). They take turns of less than a second, in a new order each
round, so that other load on the machine affects all of them alike. Prints the microseconds of
CPU per call, and the median over the rounds of each round's ratio to the first program and to
the ten-line proxy. With --stream, calls are streams, of ten chunks and of 200, so that what a
stream costs is told apart from what a chunk costs. With --dialect messages, clients speak Messages
to the gateways, to a provider that speaks Chat. With --everything the gateways have limits, filters
and a webhook that is told every call. Calls come over 10 connections unless told otherwise.
`

/** In milliseconds, between two chunks, and between the starts of two streams. */
const PACE = { interval: 20, gap: 4 }
/** The chunks of a stream, and how many streams take one turn. */
const SHORT = { chunks: 10, streams: 500 }
const LONG = { chunks: 200, streams: 100 }

/** What one contender cost in each round, in microseconds of CPU. */
interface ContenderCosts {
  contender: Contender
  costs: number[]
}

const home = mkdtempSync(join(tmpdir(), 'gateway-compare-'))
process.once('exit', () => rmSync(home, { recursive: true, force: true }))
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const)
  process.once(signal, () => process.exit(1))
main().then(
  () => process.exit(0),
  error => {
    process.stderr.write(`${error instanceof Error ? error.message : error}\n`)
    process.exit(1)
  },
)

async function main(): Promise<void> {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      rounds: { type: 'string', default: '25' },
      calls: { type: 'string', default: '2000' },
      'warm-up': { type: 'string', default: '25000' },
      stream: { type: 'boolean', default: false },
      connections: { type: 'string', default: '10' },
      everything: { type: 'boolean', default: false },
      dialect: { type: 'string', default: 'chat' },
    },
  })
  const programs = positionals.map(path => resolve(path))
  if (programs.length === 0) throw new Error(USAGE)
  pinSelf(CORES.tools)
  const contenders = await startContenders(programs, values.everything)
  const rounds = Number(values.rounds)
  const dialect = values.dialect === 'messages' ? 'messages' : 'chat'
  const figures = values.stream
    ? await compareStreams(contenders, dialect, rounds)
    : { call: await compareCalls(contenders, rounds, values) }
  for (const [unit, all] of Object.entries(figures)) process.stdout.write(renderCosts(all, unit))
}

async function compareCalls(
  contenders: Contender[],
  rounds: number,
  {
    calls,
    'warm-up': warmUp,
    connections,
  }: { calls: string; 'warm-up': string; connections: string },
): Promise<ContenderCosts[]> {
  const sendCalls = openConnections(Number(connections))
  const all = contenders.map((contender): ContenderCosts => ({ contender, costs: [] }))
  for (const { contender } of all) await measureCost(contender, sendCalls, Number(warmUp))
  for (let round = 0; round < rounds; round++)
    for (const { contender, costs } of shuffle(all))
      costs.push(await measureCost(contender, sendCalls, Number(calls)))
  return all
}

/** Tells what a stream costs apart from its chunks, and what a chunk costs. */
async function compareStreams(
  contenders: Contender[],
  dialect: Dialect,
  rounds: number,
): Promise<Record<string, ContenderCosts[]>> {
  const all = contenders.map((contender, at) => ({
    ...{ contender, ofStream: [] as number[], ofChunk: [] as number[] },
    send: (shape: typeof SHORT) => openSized(shape, at === 0 ? 'chat' : dialect),
  }))
  for (const { contender, send } of all)
    for (const shape of [SHORT, SHORT, LONG])
      await measureCost(contender, send(shape), shape.streams)
  for (let round = 0; round < rounds; round++)
    for (const { contender, send, ofStream, ofChunk } of shuffle(all)) {
      const short = await measureCost(contender, send(SHORT), SHORT.streams)
      const long = await measureCost(contender, send(LONG), LONG.streams)
      const chunk = (long - short) / (LONG.chunks - SHORT.chunks)
      ofChunk.push(chunk)
      ofStream.push(short - chunk * SHORT.chunks)
    }
  return {
    'stream without its chunks': all.map(one => ({ ...one, costs: one.ofStream })),
    chunk: all.map(one => ({ ...one, costs: one.ofChunk })),
  }
}

/** Starts the ten-line proxy, and the programs to compare with it. */
async function startContenders(programs: string[], everything: boolean): Promise<Contender[]> {
  const upstream = await startUpstream(home, { INTERVAL_MS: String(PACE.interval) })
  const started = [await startFloor(upstream, home)]
  for (const [at, path] of programs.entries()) {
    const directory = join(home, String(at))
    const program = path.endsWith('.ts') ? [process.execPath, path] : [path]
    const key = await initGateway(renderConfig(upstream), directory, program)
    const own = { program, data: join(directory, 'data'), key }
    if (everything) await enableEverything(own, upstream)
    started.push(await startGateway(key, directory, program))
  }
  return started.map((contender, at) =>
    at === 0 ? contender : { ...contender, name: getProgramName(programs[at - 1] ?? '') },
  )
}

/** Renders the config of a model for each length of streams. */
function renderConfig(upstream: Child): string {
  const config = renderSingleModelConfig(upstream)
  const [, model = ''] = /models:\n([\s\S]*)security:/.exec(config) ?? []
  const sized = [SHORT, LONG].map(({ chunks }) =>
    model
      .replace(MODEL, nameModel(chunks))
      .replace('model: bench-model', `model: bench-model-${chunks}`),
  )
  return config.replace('security:', `${sized.join('')}security:`)
}

const nameModel = (chunks: number) => `${MODEL}-${chunks}`

// A source is named after its checkout.
const getProgramName = (path: string) =>
  basename(path.replace(/\/(src\/cli\/main\.ts|dist\/gateway)$/, ''))

/** Sends so many calls, and returns how many were answered well. */
type Send = (target: Target, calls: number) => Promise<number>

const openConnections =
  (connections: number): Send =>
  async (target, calls) => {
    const limit = { connections, calls, seconds: 120 }
    const { calls: answered, errors } = await runClosedLoop(target, limit)
    return answered - errors
  }

const openSized =
  ({ chunks }: typeof SHORT, dialect: Dialect): Send =>
  async (target, streams) => {
    const load = { streams, gapMs: PACE.gap, seconds: 120 }
    const request = renderCall(target, { stream: true, dialect, model: nameModel(chunks) })
    return (await openStreams(target, load, request)).finished
  }

/** Sends a number of calls, and returns the cost of one. Throws if one fails. */
async function measureCost(
  { target, pid, name }: Contender,
  send: Send,
  calls: number,
): Promise<number> {
  const cpu = createCpuReader(pid)
  const answered = await send(target, calls)
  if (answered !== calls) throw new Error(`${name}: ${calls - answered} calls failed`)
  return cpu() / calls
}

function renderCosts(all: ContenderCosts[], unit: string): string {
  const [floor, first] = all
  const lines = all.map(one => {
    const { median, least, most } = computeSpread(one.costs)
    const [toFirst, toFloor] = [renderRatio(one, first), renderRatio(one, floor)]
    const ratios = `${toFirst} of the first, ${toFloor} of the floor`
    const name = one.contender.name.padEnd(16)
    const range = `${least.toFixed(1)} to ${most.toFixed(1)}`
    return `${name} ${median.toFixed(1)} µs a ${unit} (${range}), ${ratios}\n`
  })
  return lines.join('')
}

// The ratio is per round, so that what slows a whole round down cancels out.
const renderRatio = ({ costs }: ContenderCosts, to?: ContenderCosts) =>
  computeSpread(costs.map((cost, round) => cost / (to?.costs[round] ?? Number.NaN))).median.toFixed(
    3,
  )
