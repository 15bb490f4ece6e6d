/**
 * Measures sandboxes: `bun run bench/containers.ts [ROUNDS] [AT_ONCE]`, 40 rounds and 50 containers
 * without arguments. Prints, for each sandbox that holds here, how long one takes to start, cold and
 * from a pool as servers have it, how long a command takes above the time that the same needs outside
 * of it, and what so many containers take that run a command at once, with the bytes that they must
 * not exceed. A start counts until its first command has ended, less the time of that command.
 */

import { Cancellation } from '../src/base/cancellation.ts'
import { createDefaultConfig } from '../src/config.ts'
import { getSandboxLimits, SandboxPool } from '../src/network/sandboxes/pool.ts'
import { SANDBOXES } from '../src/network/sandboxes/registry.ts'
import type { Sandbox, SandboxBox } from '../src/network/sandboxes/sandbox.ts'

const [rounds = '40', atOnce = '50'] = process.argv.slice(2)
const ROUNDS = Number(rounds)
const AT_ONCE = Number(atOnce)
if (!Number.isInteger(ROUNDS) || ROUNDS < 1) throw new Error('expected a number of rounds')
if (!Number.isInteger(AT_ONCE) || AT_ONCE < 1) throw new Error('expected a number of containers')

const MIB = 1024 * 1024
const config = createDefaultConfig()
Object.assign(config.sandbox, { home_mib: 16, memory_mib: 192, processes: 24, ready: 1 })
const LIMITS = getSandboxLimits(config)
const print = (text: string) => void process.stdout.write(`${text}\n`)

async function measure(sandbox: Sandbox): Promise<void> {
  const starts: number[] = []
  const firsts: number[] = []
  const commands: number[] = []
  const outside: number[] = []
  for (let i = 0; i < ROUNDS; i++) {
    const box = await takeTime(starts, () => sandbox.open(LIMITS))
    await run(box, 'true')
    await takeTime(commands, () => run(box, 'true'))
    await takeTime(outside, () => Bun.spawn(['bash', '-c', 'true']).exited)
    await box.close()
    await takeFromPool(sandbox, firsts)
  }
  const [start = 0, first = 0, command = 0, own = 0] = [starts, firsts, commands, outside].map(
    findMedian,
  )
  print(
    `${sandbox.name}: a start takes ${start.toFixed(1)} ms (slowest ${Math.max(...starts).toFixed(1)})`,
  )
  print(
    `${sandbox.name}: one that is ready takes ${Math.max(0, first - command).toFixed(1)} ms to start: ` +
      `its first command has ended after ${first.toFixed(1)} ms (slowest ${Math.max(...firsts).toFixed(1)})`,
  )
  print(
    `${sandbox.name}: a command takes ${command.toFixed(1)} ms, ${(command - own).toFixed(1)} ms above ` +
      `the ${own.toFixed(1)} ms that bash takes outside (${(command / own).toFixed(1)} times as long)`,
  )
  await measureMany(sandbox)
}

/** Takes the time from asking a pool to the end of the first command. */
async function takeFromPool(sandbox: Sandbox, firsts: number[]): Promise<void> {
  const pool = new SandboxPool()
  const world = {
    config: { sandbox: { ...config.sandbox, kind: sandbox.name } },
    sandboxes: [sandbox],
  }
  pool.fill(world)
  await pool.settle()
  await takeTime(firsts, async () => {
    const box = pool.take(world)
    if (!box) throw new Error('The pool is empty')
    await run(box, 'true')
    void box.close()
  })
  await pool.close()
}

/** Has many containers write more than they may, at once, and counts what they got. */
async function measureMany(sandbox: Sandbox): Promise<void> {
  const before = performance.now()
  const boxes = await Promise.all(Array.from({ length: AT_ONCE }, () => sandbox.open(LIMITS)))
  const opened = performance.now()
  const grow = 'for i in {1..40}; do head -c 1000000 /dev/zero > z$i 2>/dev/null; done; echo done'
  await Promise.all(boxes.map(box => run(box, grow)))
  const ran = performance.now()
  const homes = await Promise.all(boxes.map(async box => sumHome(box)))
  const most = Math.max(...homes)
  print(
    `${sandbox.name}: ${AT_ONCE} at once start in ${(opened - before).toFixed(0)} ms and write in ` +
      `${(ran - opened).toFixed(0)} ms; the largest home has ${(most / MIB).toFixed(1)} of ` +
      `${LIMITS.homeBytes / MIB} MiB${most > LIMITS.homeBytes ? ': TOO MUCH' : ''}`,
  )
  await Promise.all(boxes.map(box => box.close()))
}

const sumHome = async (box: SandboxBox): Promise<number> =>
  box.isGone ? 0 : (await box.list()).files.reduce((sum, { size }) => sum + size, 0)

const run = (box: SandboxBox, text: string) =>
  box.run({ text, timeoutMs: 60_000, maxOutput: 16_384, cancellation: new Cancellation() })

async function takeTime<Result>(times: number[], work: () => Promise<Result>): Promise<Result> {
  const before = performance.now()
  const result = await work()
  times.push(performance.now() - before)
  return result
}

const findMedian = (times: number[]): number =>
  times.toSorted((a, b) => a - b)[Math.floor(times.length / 2)] ?? 0

for (const sandbox of SANDBOXES) {
  const obstacle = await sandbox.findObstacle()
  if (obstacle === null) await measure(sandbox)
  else print(`${sandbox.name}: ${obstacle}`)
}
