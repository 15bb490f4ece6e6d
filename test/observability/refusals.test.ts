import { expect, test } from 'bun:test'
import { notFound } from '../../src/base/errors.ts'
import { openEvents } from '../../src/base/events.ts'
import { openRefusalLog, type Refusal } from '../../src/observability/refusals.ts'
import { TestClock } from '../support/gateway.ts'

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
  const request = { id: 'r-1', key: null, key_hash: null, workspace_id: null }
  const path = `/api/v1/models/${CREDENTIAL}${'/x'.repeat(1_000)}`
  log.note({ ...request, path, model: `${CREDENTIAL}\u001b[2J` }, notFound(CREDENTIAL))
  await log.flush()
  expect(logged).toEqual(stored)
  expect(JSON.stringify(logged)).not.toContain(CREDENTIAL)
  expect(logged[0]?.path.length).toBeLessThan(300)
  expect(logged[0]?.model).toBe('[secret]\uFFFD[2J')
})
