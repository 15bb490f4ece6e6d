/**
 * Measures what the console asks: `bun run bench/console.ts DIRECTORY`, over the calls of a month that
 * `bench/rollups.ts` has made there. Prints of each request how long it takes, how many bytes it
 * answers, and for how long at most it keeps others from their turn.
 */
import { availableParallelism, loadavg } from 'node:os'
import { openGateway } from '../src/app/gateway.ts'
import { rollUp } from '../src/observability/rollups.ts'
import { getOperator } from '../src/resources/actor.ts'
import { createKey } from '../src/resources/keys.ts'
import { createApp } from '../src/server/app.ts'
import { FIRST } from './records.ts'

const [data] = process.argv.slice(2)
if (data === undefined) throw new Error('expected a data directory')

const HOUR = 3_600_000
const END = FIRST + 31 * 24 * HOUR
const ROUNDS = 7

const RANGES = { day: 24, week: 168, month: 720, quarter: 2_160 }
const DIMENSIONS = ['model', 'provider', 'api_key_id', 'user', 'workspace', 'app']
const SUMMED = ['total_usage', 'request_count', 'error_count', 'tokens_total', 'cache_hit_rate']

const clock = { now: () => new Date(END), ticks: () => performance.now() }
await using gateway = Object.assign(await openGateway({ data, clock }), {
  [Symbol.asyncDispose]: () => gateway.close(),
})
const before = performance.now()
await rollUp(gateway)
print(`Rolled up what was not yet: ${((performance.now() - before) / 1_000).toFixed(1)} s`)
print(`${availableParallelism()} cores; load of the last minute: ${loadavg()[0]?.toFixed(1)}`)

const app = createApp(gateway)
const operator = getOperator(gateway)
const { key } = await createKey(gateway, operator, { name: 'bench' }, 'management')
const [newest] = await gateway.store.generations.list({}, 1)

const ask = (path: string, body?: object) =>
  app.handle(
    new Request(`http://localhost/api/v1${path}`, {
      method: body ? 'POST' : 'GET',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      ...(body ? { body: JSON.stringify(body) } : {}),
    }),
  )

/** What one page of the overview asks, all at once. */
async function askOverview(hours: number, by: string, metrics = SUMMED): Promise<number> {
  const time_range = {
    start: new Date(END - hours * HOUR).toISOString(),
    end: new Date(END).toISOString(),
  }
  const granularity = hours === 24 ? 'hour' : 'day'
  const answers = await Promise.all(
    [
      {},
      {
        ...{ dimensions: [by], limit: 1_000 },
        order_by: { field: metrics[0], direction: 'desc' },
      },
      { dimensions: [by], granularity, limit: 10_000 },
    ].map(query => ask('/analytics/query', { metrics, time_range, ...query })),
  )
  return (await Promise.all(answers.map(readSize))).reduce((sum, size) => sum + size, 0)
}

async function readSize(response: Response): Promise<number> {
  if (!response.ok) throw new Error(`${response.status} ${await response.text()}`)
  return (await response.arrayBuffer()).byteLength
}

/** Reads the past calls that the list of calls begins with. */
async function askPast(count: number): Promise<number> {
  const response = await ask(`/activity/stream?past=${count}`)
  const reader = response.body?.getReader()
  let [size, events] = [0, 0]
  const decoder = new TextDecoder()
  while (reader && events < count) {
    const { done, value } = await reader.read()
    if (done) break
    size += value.byteLength
    events += decoder
      .decode(value)
      .split('\n')
      .filter(line => line.startsWith('data: ')).length
  }
  await reader?.cancel()
  return size
}

for (const [range, hours] of Object.entries(RANGES))
  for (const by of DIMENSIONS)
    await measure(`Overview, ${range} by ${by}`, () => askOverview(hours, by))
await measure('Time to first token, day by model', () =>
  askOverview(RANGES.day, 'model', ['avg_latency']),
)
await measure('The calls of the past', () => askPast(100))
await measure('One call', async () => readSize(await ask(`/generation?id=${newest?.id}`)))

async function measure(what: string, run: () => Promise<number>): Promise<void> {
  const times: number[] = []
  let [bytes, longest] = [0, 0]
  for (let i = 0; i < ROUNDS; i++) {
    const gaps = watchLoop()
    const startedAt = performance.now()
    bytes = await run()
    times.push(performance.now() - startedAt)
    longest = Math.max(longest, gaps.stop())
  }
  times.sort((a, b) => a - b)
  const middle = times[Math.floor(ROUNDS / 2)]?.toFixed(0)
  const slowest = times.at(-1)?.toFixed(0)
  const size = `${(bytes / 1024).toFixed(0)} KiB`
  print(
    `${what}: median ${middle} ms, slowest ${slowest} ms; ${size}; blocks ${longest.toFixed(0)} ms`,
  )
}

/** Notes the longest time between two turns of the event loop. */
function watchLoop() {
  let [last, longest, isOver] = [performance.now(), 0, false]
  const turn = () => {
    const now = performance.now()
    longest = Math.max(longest, now - last)
    last = now
    if (!isOver) setImmediate(turn)
  }
  setImmediate(turn)
  return {
    stop() {
      isOver = true
      return Math.max(longest, performance.now() - last)
    },
  }
}

function print(line: string): void {
  process.stdout.write(`${line}\n`)
}
