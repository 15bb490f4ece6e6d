/**
 * Measures `gateway doctor` beside a writer: `bun run bench/doctor.ts [ROWS] [DIRECTORY]`, a million
 * rows without an argument, half of them records of calls and half their charges. Generates a data
 * directory with them (in a temporary place, unless DIRECTORY says where; one that exists is used as
 * it is). A second process records calls meanwhile, and the largest write-ahead log is printed.
 */
import { existsSync, mkdtempSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { examineGateway } from '../src/app/doctor.ts'
import { type Gateway, openGateway } from '../src/app/gateway.ts'
import { rollUp } from '../src/observability/rollups.ts'
import { recordCalls } from './records.ts'

const MIB = 2 ** 20
const [count = '1000000', directory, role] = process.argv.slice(2)
const ROWS = Number(count)
if (!Number.isInteger(ROWS) || ROWS < 2) throw new Error('expected a number of rows')
const clock = { now: () => new Date('2026-11-02T00:00:00.000Z'), ticks: () => performance.now() }

if (role === 'writer') await writeUntilStopped(directory ?? '')
else await measure(directory ?? mkdtempSync(join(tmpdir(), 'gateway-bench-doctor-')))

async function measure(data: string): Promise<void> {
  const isNew = directory === undefined || !existsSync(directory)
  const gateway = await openGateway({ data, clock })
  if (isNew) {
    await report(`Recorded ${ROWS / 2} calls`, () => recordCalls(gateway, ROWS / 2, true))
    await report('Rolled them up', () => rollUp(gateway))
  }
  await examine(gateway, 'Doctor alone')
  await examineBeside(gateway, data)
  await gateway.close()
  if (directory === undefined) rmSync(data, { recursive: true })
}

async function examineBeside(gateway: Gateway, data: string): Promise<void> {
  const writer = Bun.spawn([process.execPath, 'run', import.meta.path, count, data, 'writer'], {
    stdout: 'pipe',
  })
  const lines = writer.stdout.getReader()
  await lines.read()
  const log = join(data, 'gateway.db-wal')
  let [largest, slowest, turn] = [0, 0, performance.now()]
  const timer = setInterval(() => {
    largest = Math.max(largest, statSync(log).size)
  }, 20)
  await examine(gateway, 'Doctor beside a writer', () => {
    slowest = Math.max(slowest, performance.now() - turn)
    turn = performance.now()
  })
  clearInterval(timer)
  writer.kill()
  const { value } = await lines.read()
  print(`The writer: ${new TextDecoder().decode(value).trim()}`)
  print(`Largest write-ahead log: ${(largest / MIB).toFixed(0)} MiB`)
  print(`Longest time between two turns: ${slowest.toFixed(0)} ms`)
}

async function examine(gateway: Gateway, what: string, onProgress?: () => void): Promise<void> {
  const { data } = await report(what, () => examineGateway(gateway, onProgress))
  for (const { check, ok, found } of data) if (!ok) print(`  ${check}: ${found}`)
  print(`  resident memory: ${(process.memoryUsage().rss / MIB).toFixed(0)} MiB`)
}

/** Records 500 calls a second, and tells how long the slowest transaction took. */
async function writeUntilStopped(data: string): Promise<void> {
  const gateway = await openGateway({ data, clock })
  const first = Date.now() % 1e9
  let [written, slowest] = [0, 0]
  process.on('SIGTERM', () => {
    print(`${written} calls, slowest transaction ${slowest.toFixed(0)} ms`)
    process.exit(0)
  })
  print('writing')
  for (;;) {
    const before = performance.now()
    await recordCalls(gateway, 10, true, { prefix: `gen-w${first}-${written}` })
    slowest = Math.max(slowest, performance.now() - before)
    written += 10
    await Bun.sleep(20)
  }
}

async function report<Result>(what: string, run: () => Promise<Result>): Promise<Result> {
  const [before, cpu] = [performance.now(), process.cpuUsage()]
  const result = await run()
  const { user, system } = process.cpuUsage(cpu)
  const seconds = (milliseconds: number) => `${(milliseconds / 1_000).toFixed(1)} s`
  const used = seconds((user + system) / 1_000)
  print(`${what}: ${seconds(performance.now() - before)} (${used} of a processor)`)
  return result
}

function print(line: string): void {
  process.stdout.write(`${line}\n`)
}
