import { expect, test } from 'bun:test'
import { queryAnalytics } from '../../src/observability/analytics.ts'
import { getGeneration, listGenerations } from '../../src/observability/generations.ts'
import { type Actor, authenticate, getOperator } from '../../src/resources/actor.ts'
import { createKey } from '../../src/resources/keys.ts'
import { createApi } from '../support/api.ts'
import { createOtherWorkspace, createTestKeys, testGateway } from '../support/gateway.ts'
import { buildGeneration } from '../support/generation.ts'
import { openSlowStore } from '../support/slow-store.ts'

const PRICES = { prompt: 1, completion: 2 }
const ECHO = { provider: 'sandbox', model: 'echo', usd_per_million_tokens: PRICES }
const PAID = { models: [{ id: 'acme/small', context_length: 128_000, endpoints: [ECHO] }] }

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

test('who may sum a call may see its record, and no one else', async () => {
  const gateway = await testGateway()
  const other = (await createOtherWorkspace(gateway, 'other')).data
  const own = await createTestKeys(gateway)
  const inference = await createKey(
    gateway,
    getOperator(gateway),
    { name: 'i', workspace_id: 'other' },
    'inference',
  )
  const home = gateway.memory.owner.workspace_id
  for (const workspace_id of [home, 'other']) {
    const generation = buildGeneration({ id: `gen-${workspace_id}`, workspace_id })
    await gateway.store.generations.record([{ generation, charge: null }])
  }
  const query = { metrics: ['request_count'], dimensions: ['generation_id'] }
  const time_range = { start: '2026-03-01T00:00:00Z', end: '2026-03-20T00:00:00Z' }
  const listSeen = async (actor: Actor) => {
    const seen = [home, 'other'].map(id => getGeneration(gateway, actor, `gen-${id}`))
    const answers = await Promise.allSettled(seen)
    return answers.flatMap(({ status }, i) => (status === 'fulfilled' ? [i] : []))
  }
  const listSummed = async (actor: Actor) => {
    const { data } = await queryAnalytics(gateway, actor, { ...query, time_range })
    const ids = data.data.map(({ generation_id }) => generation_id)
    return [home, 'other'].flatMap((id, i) => (ids.includes(`gen-${id}`) ? [i] : []))
  }
  const manager = authenticate(gateway, `Bearer ${own.management}`)
  const actors: [Actor, number[]][] = [
    [getOperator(gateway), [0, 1]],
    [manager, [0, 1]],
    [{ ...manager, key_hash: other.hash, workspace_id: 'other' }, [1]],
    [authenticate(gateway, `Bearer ${own.inference}`), [0]],
    [authenticate(gateway, `Bearer ${inference.key}`), [1]],
  ]
  for (const [actor, expected] of actors) {
    expect(await listSeen(actor)).toEqual(expected)
    expect(await listSummed(actor)).toEqual(expected)
  }
})

test('a cursor that is no call is refused: an empty page would look like the end', async () => {
  const gateway = await openHistory()
  const listed = listGenerations(gateway, getOperator(gateway), { cursor: 'gen-none' })
  await expect(listed).rejects.toMatchObject({ status: 404 })
})

test('a call is recorded with its charge when its answer ends, even in a slow store', async () => {
  const gateway = await testGateway({ ...(await openSlowStore({ seed: 3 })), config: PAID })
  const { inference } = await createTestKeys(gateway)
  const ask = createApi(gateway, inference)
  const body = { model: 'acme/small', messages: [{ role: 'user', content: 'Hi' }] }
  const calls = Array.from({ length: 20 }, () => ask('POST', '/chat/completions', { body }))
  for (const { json } of await Promise.all(calls)) {
    const found = await ask('GET', `/generation?id=${json.id}`)
    expect(found.json.data).toMatchObject({
      ...{ id: json.id, total_cost: json.usage.cost, finish_reason: 'stop' },
    })
    expect((await gateway.store.ledger.listCharges(json.id)).map(({ step }) => step)).toEqual([1])
  }
  expect((await gateway.store.ledger.inspect(() => undefined)).unmatched).toEqual([])
  await gateway.close()
})
