import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { pinSelf } from '../src/cli/bench/children.ts'
import { runClosedLoop } from '../src/cli/bench/load.ts'
import { createCpuReader } from '../src/cli/bench/procfs.ts'
import { computeSpread, shuffle } from '../src/cli/bench/statistics.ts'
import { openStreams } from '../src/cli/bench/streams.ts'
import type { Target } from '../src/cli/bench/wire.ts'
import {
  CORES,
  type Contender,
  initGateway,
  renderSingleModelConfig,
  startFloor,
  startGateway,
  startUpstream,
} from './contenders.ts'

const USAGE = `bun run bench/compare.ts [--rounds N] [--calls N] [--warm-up N] [--stream] PROGRAM...

Compares the CPU that a call costs in several programs: built gateways, or the source of one
(src/cli/main.ts of any checkout). They take turns of less than a second, in a new order each
round, so that other load on the machine affects all of them alike. Prints the microseconds of
CPU per call, and the median over the rounds of each round's ratio to the first program and to
the ten-line proxy. With --stream, calls are streams of ten chunks.
`

const CONNECTIONS = 10

/** The costs of one contender in each round, in microseconds of CPU per call. */
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
    },
  })
  const programs = positionals.map(path => resolve(path))
  if (programs.length === 0) throw new Error(USAGE)
  pinSelf(CORES.tools)
  const all = (await startContenders(programs)).map(
    (contender): ContenderCosts => ({ contender, costs: [] }),
  )
  const send = values.stream ? sendStreams : sendCalls
  for (const { contender } of all) await measureCost(contender, send, Number(values['warm-up']))
  for (let round = 0; round < Number(values.rounds); round++)
    for (const { contender, costs } of shuffle(all))
      costs.push(await measureCost(contender, send, Number(values.calls)))
  process.stdout.write(renderCosts(all))
}

/** Starts the ten-line proxy, and the programs to compare with it. */
async function startContenders(programs: string[]): Promise<Contender[]> {
  const upstream = await startUpstream(home, { CHUNKS: '10', INTERVAL_MS: '5' })
  const started = [await startFloor(upstream, home)]
  for (const [at, path] of programs.entries()) {
    const directory = join(home, String(at))
    const program = path.endsWith('.ts') ? [process.execPath, path] : [path]
    started.push(
      await startGateway(
        await initGateway(renderSingleModelConfig(upstream), directory, program),
        directory,
        program,
      ),
    )
  }
  return started.map((contender, at) =>
    at === 0 ? contender : { ...contender, name: getProgramName(programs[at - 1] ?? '') },
  )
}

// A source is named after its checkout.
const getProgramName = (path: string) =>
  basename(path.replace(/\/(src\/cli\/main\.ts|dist\/gateway)$/, ''))

/** Sends so many calls, and returns how many were answered well. */
type Send = (target: Target, calls: number) => Promise<number>

const sendCalls: Send = async (target, calls) => {
  const limit = { connections: CONNECTIONS, calls, seconds: 120 }
  const { calls: answered, errors } = await runClosedLoop(target, limit)
  return answered - errors
}

const sendStreams: Send = async (target, streams) =>
  (await openStreams(target, { streams, gapMs: 1, seconds: 120 })).finished

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

function renderCosts(all: ContenderCosts[]): string {
  const [floor, first] = all
  const lines = all.map(one => {
    const { median, least, most } = computeSpread(one.costs)
    const [toFirst, toFloor] = [renderRatio(one, first), renderRatio(one, floor)]
    const ratios = `${toFirst} of the first, ${toFloor} of the floor`
    const name = one.contender.name.padEnd(16)
    const range = `${least.toFixed(1)} to ${most.toFixed(1)}`
    return `${name} ${median.toFixed(1)} µs a call (${range}), ${ratios}\n`
  })
  return lines.join('')
}

// The ratio is per round, so that what slows a whole round down cancels out.
const renderRatio = ({ costs }: ContenderCosts, to?: ContenderCosts) =>
  computeSpread(costs.map((cost, round) => cost / (to?.costs[round] ?? Number.NaN))).median.toFixed(
    3,
  )
