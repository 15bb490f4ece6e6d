import { afterEach, expect, test } from 'bun:test'
import { examineGateway } from '../../src/app/doctor.ts'
import type { Gateway } from '../../src/app/gateway.ts'
import { planRepricing, type Repricing, reprice } from '../../src/observability/repricing.ts'
import { recomputeRollups } from '../../src/observability/rollups.ts'
import { summarizeUsage } from '../../src/observability/usage.ts'
import { getOperator } from '../../src/resources/actor.ts'
import { listAudit } from '../../src/resources/audit.ts'
import { buildPaidModel } from '../support/batches.ts'
import { createTestKeys, TestClock, testGateway } from '../support/gateway.ts'
import { buildGeneration, buildStepCharge } from '../support/generation.ts'

let gateway: Gateway
afterEach(() => gateway.close())

const CHANGE: Repricing = {
  ...{ model: 'acme/small', provider: 'local', from: '2026-03-01', to: '2026-03-02' },
  ...{ was_prompt: 1, was_completion: 2, prompt: 3, completion: 4 },
}

/** What 10 tokens in, of which 3 are cached, and 5 out cost: 7 × 3 + 3 × 3 + 5 × 4 µ$. */
const [WAS, IS] = [20_000n, 50_000n]

async function open() {
  const config = buildPaidModel('http://127.0.0.1:1')
  const local = { ...config.providers.local, name: 'Local' }
  const clock = new TestClock('2026-03-04T05:06:07.000Z')
  gateway = await testGateway({ clock, config: { ...config, providers: { local } } })
  const { hash } = await createTestKeys(gateway)
  const record = async (id: string, day: string, cost: bigint | null, more: object = {}) => {
    const settled_at = `${day}T10:00:00.000Z`
    const money = { total_cost: cost, upstream_inference_cost: cost, settled_at }
    const call = { id, key_hash: hash, created_at: settled_at, ...money, ...more }
    const charge = {
      ...{ id, key_hash: hash, settled_at, nanos: cost ?? 0n },
      day: Date.parse(day) / 86_400_000,
    }
    await gateway.store.generations.record([
      { generation: buildGeneration(call), charge: buildStepCharge(charge) },
    ])
  }
  return { record, hash, operator: getOperator(gateway) }
}

const sumByDay = async () =>
  (await summarizeUsage(gateway, { by: ['day'] })).data.map(({ day, cost }) => [day, cost])

const findWrong = async () => (await examineGateway(gateway)).data.filter(({ ok }) => !ok)

test('a correction is a new entry on its day, and sums follow it', async () => {
  const { record, hash, operator } = await open()
  await record('gen-1', '2026-03-01', WAS)
  await record('gen-2', '2026-03-01', WAS)
  await record('gen-3', '2026-03-02', WAS)
  await record('gen-4', '2026-03-03', WAS)
  for (const id of ['gen-1', 'gen-2', 'gen-3', 'gen-4'])
    gateway.ledger.charge(buildStepCharge({ id, key_hash: hash, nanos: WAS, day: 20_514 }))
  const before = await sumByDay()
  const plan = await planRepricing(gateway, CHANGE)
  expect(plan.total).toEqual({
    ...{ calls: 3, left: 0, corrections: 2, difference_usd: '0.00009', is_done: false },
  })
  expect(await sumByDay()).toEqual(before)
  const done = await reprice(gateway, operator, CHANGE)
  expect(done).toEqual({ ...plan, total: { ...plan.total, is_done: true } })
  expect(done.data[0]).toMatchObject({
    ...{ day: '2026-03-01', key_hash: hash, calls: 2 },
    ...{ charged_usd: '0.00004', expected_usd: '0.0001', difference_usd: '0.00006' },
  })
  expect((await sumByDay()).map(([, cost]) => cost)).toEqual([0.0001, 0.00005, 0.00002])
  const { data: counted, total } = await summarizeUsage(gateway, { by: ['day'] })
  expect([...counted, total].map(({ calls }) => calls)).toEqual([2, 1, 1, 4])
  expect(gateway.ledger.getSpent(`key ${hash}`, null, false)).toBe(2n * IS + IS + WAS)
  const first = await gateway.store.generations.byId('gen-1')
  expect(first?.total_cost).toBe(WAS)
  expect(await findWrong()).toEqual([])
  const { data: entries } = await listAudit(gateway, operator, { action: 'ledger.reprice' })
  expect(entries).toMatchObject([{ after: { model: 'acme/small', difference_usd: '0.00009' } }])
})

test('the same correction a second time does nothing, and another one counts from there', async () => {
  const { record, operator } = await open()
  await record('gen-1', '2026-03-01', WAS)
  await reprice(gateway, operator, CHANGE)
  const again = await reprice(gateway, operator, CHANGE)
  expect(again).toMatchObject({ data: [], total: { corrections: 0, is_done: false } })
  const less = await reprice(gateway, operator, { ...CHANGE, prompt: 0, completion: 0 })
  expect(less.total.difference_usd).toBe('-0.00005')
  expect((await sumByDay()).map(([, cost]) => cost)).toEqual([0])
  expect(await findWrong()).toEqual([])
  expect((await listAudit(gateway, operator, { action: 'ledger.reprice' })).data).toHaveLength(2)
  await recomputeRollups(gateway)
  expect((await sumByDay()).map(([, cost]) => cost)).toEqual([0])
})

test('calls of unknown cost are priced, and what tokens do not explain stays', async () => {
  const { record, operator } = await open()
  await record('unknown', '2026-03-01', null)
  await record('free', '2026-03-01', 0n, { error_type: 'server' })
  await record('searched', '2026-03-01', WAS + 10_000n)
  await record('drawn', '2026-03-01', WAS, { native_tokens_completion_images: 5 })
  await record('spoken', '2026-03-01', WAS, { api_type: 'tts' })
  await record('other', '2026-03-01', WAS, { model: 'acme/large' })
  await record('elsewhere', '2026-03-01', WAS, { provider_name: 'Other' })
  const { total } = await reprice(gateway, operator, CHANGE)
  expect(total).toMatchObject({ calls: 5, left: 4, corrections: 1, difference_usd: '0.00005' })
  expect(await findWrong()).toEqual([])
})

test('without prices the calls of unknown cost get those in effect now', async () => {
  const { record } = await open()
  await record('unknown', '2026-03-01', null)
  await record('known', '2026-03-01', WAS)
  const { model, provider, from, to } = CHANGE
  const { total } = await planRepricing(gateway, { model, provider, from, to })
  expect(total).toMatchObject({ calls: 2, left: 1, difference_usd: '0.00002' })
})

test('calls with callers’ own keys are corrected as such', async () => {
  const { record, operator } = await open()
  const settled_at = '2026-03-01T10:00:00.000Z'
  const money = { total_cost: 0n, upstream_inference_cost: WAS, is_byok: true }
  const times = { created_at: settled_at, settled_at }
  const day = Date.parse('2026-03-01') / 86_400_000
  await record('gen-0', '2026-03-01', WAS)
  await gateway.store.generations.record([
    {
      generation: buildGeneration({ id: 'own', ...money, ...times }),
      charge: buildStepCharge({ id: 'own', byok: true, nanos: WAS, day, settled_at }),
    },
  ])
  await reprice(gateway, operator, CHANGE)
  const { total } = await summarizeUsage(gateway, {})
  expect([total.cost, total.byok_cost]).toEqual([0.00005, 0.00005])
  expect(await findWrong()).toEqual([])
})

test('while a server runs nothing is corrected', async () => {
  const { record, operator } = await open()
  await record('gen-1', '2026-03-01', WAS)
  const locked = Object.assign(Object.create(gateway), {
    lock: () => {
      throw Object.assign(new Error('A server runs'), { status: 409 })
    },
  })
  await expect(reprice(locked, operator, CHANGE)).rejects.toMatchObject({ status: 409 })
  expect(await sumByDay()).toEqual([[expect.anything(), 0.00002]])
})

test.each<[string, object, string]>([
  ['a day that is none', { from: '2026-02-30' }, 'from: expected a day'],
  ['days backwards', { to: '2026-02-28' }, 'to: expected a day from the first'],
  ['a day that is not over', { to: '2026-03-04' }, 'to: expected a day that is over'],
  ['a provider that is not known', { provider: 'nobody' }, 'found nobody'],
  ['half of the prices before', { was_completion: undefined }, 'was_prompt: expected it together'],
  [
    'a model without a price',
    { model: 'acme/none', prompt: undefined },
    'prompt: expected it, and completion',
  ],
])('%s is refused', async (_, wrong, message) => {
  await open()
  await expect(planRepricing(gateway, { ...CHANGE, ...wrong })).rejects.toMatchObject({
    status: 400,
    message: expect.stringContaining(message),
  })
})
