import { afterAll, expect, test } from 'bun:test'
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openWorkers } from '../../../src/cli/status-socket/workers.ts'

const data = mkdtempSync(join(tmpdir(), 'gateway-feed-'))
for (const worker of ['1', '2', '10']) mkdirSync(join(data, 'workers', worker), { recursive: true })
afterAll(() => rmSync(data, { recursive: true, force: true }))

const endpoint = { endpoint: 'local/up', provider: 'local', model: 'up', cooldown: null }
const ENDPOINT = {
  ...{ ...endpoint, is_probing: false, succeeded: 1, failed: 0 },
  ...{ latency_p50: null, latency_p95: null, throughput_p50: null },
}
const STATE = {
  ...{ type: 'state', at: 'now', running_calls: 1, draining: false, memory_bytes: 100 },
  ...{ milliseconds: 1000, finished: 2, failed: 0, refused: 1, tokens_prompt: 3 },
  ...{ tokens_completion: 4, cost: 0.5, first_part_p50: null, first_part_p95: null },
  ...{ queues: { calls: 0, records: 1, deliveries: 0 }, endpoints: [ENDPOINT] },
}

/** Opens what servers tell, each a list of batches by its number; those that are not listed are silent. */
async function openFeed(
  told: Record<string, object[][]>,
  request = { do: 'watch', past: 5 },
  end = Promise.resolve(),
) {
  const asked: [worker: string, request: object | undefined][] = []
  const opened = await openWorkers(data, request, async (directory, ask) => {
    const worker = directory.split('/').at(-1) ?? ''
    if (!told[worker] || asked.some(([one]) => one === worker)) return undefined
    asked.push([worker, ask?.()])
    return {
      status: JSON.stringify({
        url: 'here',
        pid: Number(worker),
        running_calls: 2,
        draining: false,
      }),
      batches: (async function* () {
        for (const batch of told[worker] ?? []) yield batch.map(entry => JSON.stringify(entry))
        await end
      })(),
      close: () => undefined,
    }
  })
  return { opened, asked }
}

const readAll = async (batches: AsyncIterable<string[]> | undefined) =>
  (await Array.fromAsync(batches ?? [])).flat().map(line => JSON.parse(line))

test('several servers are asked as one, what is past of one alone, and tell what they are', async () => {
  const { opened, asked } = await openFeed({ 2: [], 10: [] })
  expect(asked).toEqual([
    ['2', { do: 'watch', past: 5 }],
    ['10', { do: 'watch', past: 0 }],
  ])
  expect(JSON.parse(opened?.status ?? '')).toEqual({
    ...{ url: 'here', pid: 2, running_calls: 4, draining: false },
    workers: [
      { worker: 2, pid: 2, running_calls: 2, draining: false },
      { worker: 10, pid: 10, running_calls: 2, draining: false },
    ],
  })
  expect((await openFeed({})).opened).toBeUndefined()
})

test('entries of all come as they are, and how all are doing is one entry', async () => {
  const listening = { type: 'listening', at: 'now', service_name: 'gateway', version: '1' }
  const second = { ...STATE, first_part_p50: 8, running_calls: 5 }
  const feeds = {
    1: [[listening], [], [], [STATE], ...Array.from({ length: 9 }, () => [])],
    2: [
      [listening, { ...second, finished: 10 }],
      [{ type: 'call.opened', id: 'gen-2' }],
      ...[[], [], [], [{ ...second, finished: 20 }]],
    ],
  }
  const { opened } = await openFeed(feeds, { do: 'once', past: 0 })
  const entries = await readAll(opened?.batches)
  expect(entries.filter(({ type }) => type !== 'state')).toEqual([
    listening,
    { type: 'call.opened', id: 'gen-2' },
  ])
  // The first that has said how it is leads: what the other did is told with its next.
  const states = entries.filter(({ type }) => type === 'state')
  expect(states.map(({ finished }) => finished)).toEqual([10, 2 + 20])
  expect(states.at(-1)).toMatchObject({
    ...{ running_calls: 6, memory_bytes: 200, first_part_p50: 8, first_part_p95: null },
    queues: { calls: 0, records: 2, deliveries: 0 },
    endpoints: [{ endpoint: 'local/up', succeeded: 2, failed: 0 }],
  })
})

test('one that stands still keeps nobody from hearing how the others are', async () => {
  const { promise, resolve } = Promise.withResolvers<void>()
  const own = { ...STATE, running_calls: 5 }
  const feeds = { 1: [[STATE]], 2: Array.from({ length: 12 }, () => [own]) }
  const { opened } = await openFeed(feeds, { do: 'once', past: 0 }, promise)
  const told: { running_calls: number; finished: number }[] = []
  for await (const lines of opened?.batches ?? []) {
    told.push(...lines.map(line => JSON.parse(line)))
    if (told.length === 7) break
  }
  resolve()
  expect(told.map(({ running_calls }) => running_calls)).toEqual([1, ...Array(6).fill(5)])
  // Nothing of what was done meanwhile is lost.
  expect(told.reduce((sum, { finished }) => sum + finished, 0)).toBe(2 * (1 + 12))
})
