import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pinSelf } from '../src/cli/bench/children.ts'
import { runClosedLoop } from '../src/cli/bench/generator.ts'
import { createCpuReader } from '../src/cli/bench/procfs.ts'
import { computeSpread, shuffle } from '../src/cli/bench/statistics.ts'
import {
  CORES,
  type Contender,
  ensureGateway,
  initGateway,
  renderSingleModelConfig,
  startFloor,
  startGateway,
  startUpstream,
} from './contenders.ts'
import { type ExchangeCosts, measureExchange } from './workers/exchange.ts'

/*
 * `bun run bench/workers.ts [ROUNDS]`: what several processes on one port could gain on two cores.
 * Limits stay exact and the ledger is one only if one process owns it, so every call costs the
 * record's way to that owner and the word that it is on disk, in the worker and in the owner. It
 * measures that way, for one call at a time and for several that end together, beside what a call
 * costs in the built gateway, in turns; and prints how much faster two cores can be at most.
 */
const ROUNDS = Number(process.argv[2] ?? 15)
const CALLS = 3_000
const WARM_UP = 20_000
const CONNECTIONS = 10
/** How many calls end together. */
const BATCHES = [1, 4, 10]

const home = mkdtempSync(join(tmpdir(), 'gateway-workers-'))
process.once('exit', () => rmSync(home, { recursive: true, force: true }))
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const)
  process.once(signal, () => process.exit(1))

await ensureGateway()
pinSelf(CORES.tools)
const upstream = await startUpstream(home, {})
const floor = await startFloor(upstream, home)
const key = await initGateway(renderSingleModelConfig(upstream), home)
const gateway = await startGateway(key, home)
for (const contender of [floor, gateway]) await measureCall(contender, WARM_UP)

const calls = { floor: [] as number[], gateway: [] as number[] }
const exchanges = new Map(BATCHES.map(batch => [batch, [] as ExchangeCosts[]]))
const measures = [
  async () => calls.floor.push(await measureCall(floor, CALLS)),
  async () => calls.gateway.push(await measureCall(gateway, CALLS)),
  ...[...exchanges].map(
    ([batch, costs]) =>
      async () =>
        costs.push(await measureExchange(home, batch)),
  ),
]
for (let round = 0; round < ROUNDS; round++)
  for (const measure of shuffle(measures)) await measure()
report()
process.exit(0)

/** Returns the CPU of a call, in microseconds. */
async function measureCall({ target, pid, name }: Contender, count: number): Promise<number> {
  const cpu = createCpuReader(pid)
  const limit = { connections: CONNECTIONS, calls: count, seconds: 120 }
  const { calls: answered, errors } = await runClosedLoop(target, limit)
  if (answered - errors !== count) throw new Error(`${name}: calls failed`)
  return cpu() / count
}

function report(): void {
  const call = computeSpread(calls.gateway).median
  const print = (line: string) => process.stdout.write(`${line}\n`)
  print(`a call: ten-line proxy ${computeSpread(calls.floor).median.toFixed(1)} µs`)
  print(`a call: gateway ${call.toFixed(1)} µs`)
  for (const [batch, costs] of exchanges) {
    const worker = computeSpread(costs.map(cost => cost.worker)).median
    const owner = computeSpread(costs.map(cost => cost.owner)).median
    const gain = (2 * call) / (call + worker + owner)
    print(
      `its way to an owner, ${batch} at once: ${worker.toFixed(1)} µs in the worker, ` +
        `${owner.toFixed(1)} µs in the owner: two cores are at most ${gain.toFixed(2)} × as fast`,
    )
  }
}
