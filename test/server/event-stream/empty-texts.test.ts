import { fullGC, heapStats } from 'bun:jsc'
import { expect, test } from 'bun:test'
import { createEventStreamResponse } from '../../../src/server/event-stream.ts'

const KEEP_ALIVE = { render: () => ': \n\n', interval: 60_000 }
const EMPTY = 50_000

function countPromises(): number {
  fullGC()
  return heapStats().objectTypeCounts.Promise ?? 0
}

test('texts that are empty, of a provider that thinks for long, leave nothing behind', async () => {
  const before = countPromises()
  let meanwhile = 0
  async function* think() {
    for (let i = 0; i < EMPTY; i++) yield ''
    meanwhile = countPromises() - before
    yield 'data: said\n\n'
  }
  const response = createEventStreamResponse(think(), KEEP_ALIVE, {})
  expect(await response.text()).toBe('data: said\n\n')
  expect(meanwhile).toBeLessThan(EMPTY / 10)
})
