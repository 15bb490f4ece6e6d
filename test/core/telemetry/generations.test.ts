import { expect, test } from 'bun:test'
import { getOperator } from '../../../src/core/identity/actor.ts'
import { listGenerations } from '../../../src/core/telemetry/generations.ts'
import { testGateway } from '../../support/gateway.ts'
import { buildGeneration } from '../../support/generation.ts'

async function openHistory() {
  const gateway = await testGateway()
  const generation = buildGeneration({ id: 'gen-1', created_at: '2026-03-05T10:00:00.000Z' })
  await gateway.store.generations.record([{ generation, charge: null }])
  return gateway
}

test.each([
  [{ since: '2026-03-05T10:00:00Z' }, ['gen-1']],
  [{ since: '2026-03-05T10:00:00.0Z' }, ['gen-1']],
  [{ since: '2026-03-05T10:00:01Z' }, []],
  [{ until: '2026-03-05T10:00:00Z' }, []],
  [{ until: '2026-03-05T10:00:00.001000000Z' }, ['gen-1']],
])('calls are listed by time, however it is written: %j', async (query, ids) => {
  const gateway = await openHistory()
  const { data } = await listGenerations(gateway, getOperator(gateway), query)
  expect(data.map(({ id }) => id)).toEqual(ids)
})

test('a cursor that is no call is refused: an empty page would look like the end', async () => {
  const gateway = await openHistory()
  const listed = listGenerations(gateway, getOperator(gateway), { cursor: 'gen-none' })
  await expect(listed).rejects.toMatchObject({ status: 404 })
})
