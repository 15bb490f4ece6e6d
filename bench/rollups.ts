/**
 * Measures queries over roll-ups: `bun run bench/rollups.ts [CALLS] [DIRECTORY]`, 200,000 calls of a
 * month without an argument. Generates a data directory with so many records (in a temporary place,
 * unless DIRECTORY says where; one that exists is used as it is), rolls them up, and prints how long
 * queries take, of that on the processor, and how large the directory is.
 */
import { existsSync, mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs'
import { availableParallelism, loadavg, tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Gateway, openGateway } from '../src/app/gateway.ts'
import type { AnalyticsQuery } from '../src/observability/analytics/query.ts'
import { queryAnalytics } from '../src/observability/analytics.ts'
import { rollUp } from '../src/observability/rollups.ts'
import { getOperator } from '../src/resources/actor.ts'
import { recordCalls } from './records.ts'

const [count = '200000', directory] = process.argv.slice(2)
const CALLS = Number(count)

if (!Number.isInteger(CALLS) || CALLS < 1) throw new Error('expected a number of calls')

const data = directory ?? mkdtempSync(join(tmpdir(), 'gateway-bench-rollups-'))
const isNew = directory === undefined || !existsSync(directory)
const clock = { now: () => new Date('2026-11-02T00:00:00.000Z'), ticks: () => performance.now() }
const gateway = await openGateway({ data, clock })
try {
  if (isNew) await report(`Recorded ${CALLS} calls`, () => recordCalls(gateway, CALLS, false))
  await report('Rolled up what was not yet', () => rollUp(gateway))
  print(`${availableParallelism()} cores; load of the last minute: ${loadavg()[0]?.toFixed(1)}`)
  await measureQueries(gateway)
} finally {
  await gateway.close()
}
print(`Size of the data directory: ${(measureSize(data) / 2 ** 20).toFixed(0)} MiB`)
if (directory === undefined) rmSync(data, { recursive: true })

async function measureQueries(world: Gateway): Promise<void> {
  const time_range = { start: '2026-10-01T00:00:00Z', end: '2026-11-01T00:00:00Z' }
  const month = { metrics: ['request_count', 'total_usage'], time_range, limit: 10_000 }
  const queries: Record<string, AnalyticsQuery> = {
    'A month by day and model': { ...month, dimensions: ['model'], granularity: 'day' },
    'A month by model and provider': { ...month, dimensions: ['model', 'provider'] },
    'A month by day and key': { ...month, dimensions: ['api_key_id'], granularity: 'day' },
    'A month by hour': { ...month, granularity: 'hour' },
    'A day by hour and model': {
      ...month,
      dimensions: ['model'],
      granularity: 'hour',
      time_range: { start: '2026-10-15T00:00:00Z', end: '2026-10-16T00:00:00Z' },
    },
  }
  for (const [name, query] of Object.entries(queries)) {
    const times: number[] = []
    const worked: number[] = []
    for (let i = 0; i < 7; i++) {
      const [before, cpu] = [performance.now(), process.cpuUsage()]
      await queryAnalytics(world, getOperator(world), query)
      const { user, system } = process.cpuUsage(cpu)
      times.push(performance.now() - before)
      worked.push((user + system) / 1_000)
    }
    for (const list of [times, worked]) list.sort((a, b) => a - b)
    const slowest = `slowest ${times[6]?.toFixed(1)} ms`
    print(`${name}: median ${times[3]?.toFixed(1)} ms, ${slowest}; CPU ${worked[3]?.toFixed(1)} ms`)
  }
}

async function report(what: string, run: () => Promise<unknown>): Promise<void> {
  const before = performance.now()
  await run()
  print(`${what}: ${((performance.now() - before) / 1_000).toFixed(1)} s`)
}

function measureSize(path: string): number {
  return readdirSync(path, { recursive: true, withFileTypes: true })
    .filter(entry => entry.isFile())
    .reduce((sum, { parentPath, name }) => sum + statSync(join(parentPath, name)).size, 0)
}

function print(line: string): void {
  process.stdout.write(`${line}\n`)
}
