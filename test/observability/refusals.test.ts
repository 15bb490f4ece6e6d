import { expect, test } from 'bun:test'
import { notFound } from '../../src/base/errors.ts'
import { openEvents } from '../../src/base/events.ts'
import { openRefusalLog, type Refusal } from '../../src/observability/refusals.ts'
import { TestClock } from '../support/gateway.ts'
import { TestTimers } from '../support/timers.ts'

const REQUEST = { id: 'r-1', key: null, key_hash: null, workspace_id: null, path: '/', model: null }

test('refusals are written together once a second, which one timer serves', async () => {
  const timers = new TestTimers()
  try {
    const added: number[] = []
    const store = {
      add: async (rows: Refusal[]) => void added.push(rows.length),
      removeBefore: async () => 0,
      list: async () => [],
    }
    const log = openRefusalLog({ store, events: openEvents(), clock: timers, readKeep: () => 9 })
    for (let i = 0; i < 3; i++) log.note(REQUEST, notFound('No'))
    expect([timers.waiting, added]).toEqual([1, []])
    await timers.passSeconds(1)
    log.note(REQUEST, notFound('No'))
    await timers.passSeconds(10)
    expect([timers.waiting, added]).toEqual([0, [3, 1]])
  } finally {
    timers.stop()
  }
})

const CREDENTIAL = `sk-proj-${'aB3dE6gH9jK2mN5pQ8sT1vW4'.repeat(2)}`

test('what is stored and what is logged of a refusal is cut alike, without credentials', async () => {
  const stored: Refusal[] = []
  const logged: Refusal[] = []
  const events = openEvents()
  events.on('call.refused', refusal => logged.push(refusal))
  const store = {
    add: async (rows: Refusal[]) => void stored.push(...rows),
    removeBefore: async () => 0,
    list: async () => [],
  }
  const log = openRefusalLog({ store, events, clock: new TestClock(), readKeep: () => 9 })
  const path = `/api/v1/models/${CREDENTIAL}${'/x'.repeat(1_000)}`
  log.note({ ...REQUEST, path, model: `${CREDENTIAL}\u001b[2J` }, notFound(CREDENTIAL))
  await log.flush()
  expect(logged).toEqual(stored)
  expect(JSON.stringify(logged)).not.toContain(CREDENTIAL)
  expect(logged[0]?.path.length).toBeLessThan(300)
  expect(logged[0]?.model).toBe('[secret]\uFFFD[2J')
})
