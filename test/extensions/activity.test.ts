import { describe, expect, test } from 'bun:test'
import type { Gateway } from '../../src/app/gateway.ts'
import { GatewayError } from '../../src/base/errors.ts'
import { type ActivityEntry, ENTRY_FIELDS } from '../../src/extensions/activity/entries.ts'
import { Activity } from '../../src/extensions/activity.ts'
import { authenticate, getOperator } from '../../src/resources/actor.ts'
import { createKey } from '../../src/resources/keys.ts'
import { createWorkspace } from '../../src/resources/workspaces.ts'
import { readUntil } from '../support/activity.ts'
import { getApp } from '../support/app.ts'
import { TestClock, testGateway } from '../support/gateway.ts'

/** Opens the feed of a gateway, without its timer: tests say when a second is over. */
const openActivity = (gateway: Gateway) => new Activity(gateway, () => () => undefined)

const typesOf = (entries: ActivityEntry[]) => entries.map(({ type }) => type)
const pick = <Type extends ActivityEntry['type']>(entries: ActivityEntry[], type: Type) =>
  entries.filter((entry): entry is Extract<ActivityEntry, { type: Type }> => entry.type === type)

/** Makes a call with a new key to its end. */
async function call(gateway: Gateway, more: object = {}, input: object = {}): Promise<number> {
  const { key } = await createKey(gateway, getOperator(gateway), { name: 'laptop', ...input })
  const body = { model: 'sandbox/echo', messages: [{ role: 'user', content: 'Hello' }], ...more }
  const response = await getApp(gateway).handle(
    new Request('http://localhost/api/v1/chat/completions', {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: JSON.stringify(body),
    }),
  )
  await response.text()
  return response.status
}

describe('the feed', () => {
  test('tells a call from its opening to its end, with the facts of its record', async () => {
    const gateway = await testGateway()
    const activity = openActivity(gateway)
    const listener = activity.listen(getOperator(gateway))
    await call(gateway, { stream: true })
    const entries = await readUntil(listener, 'call.finished')
    expect(typesOf(entries)).toEqual([
      ...(['listening', 'state', 'call.opened', 'call.planned', 'attempt.started'] as const),
      ...(['call.answering', 'call.finished'] as const),
    ])
    const [finished] = pick(entries, 'call.finished')
    const record = await gateway.store.generations.byId(finished?.id ?? '')
    expect(finished).toMatchObject({
      status: 200,
      model: record?.model,
      provider_name: record?.provider_name,
      tokens_prompt: record?.native_tokens_prompt,
      tokens_completion: record?.native_tokens_completion,
      key_name: 'laptop',
      attempts: 1,
      total_cost: 0,
    })
    expect(pick(entries, 'call.planned')[0]?.candidates).toMatchObject([
      { provider: 'sandbox', model: 'sandbox/echo', probability: 1, cooling_down: false },
    ])
    await listener.return()
    await gateway.close()
  })

  test('subscribes to nothing while nobody listens', async () => {
    const gateway = await testGateway()
    let subscribed = 0
    const { on } = gateway.events
    gateway.events.on = (name, listener) => {
      const stop = on(name, listener)
      subscribed += 1
      return () => {
        subscribed -= 1
        stop()
      }
    }
    const activity = openActivity(gateway)
    const operator = getOperator(gateway)
    expect(subscribed).toBe(0)
    const listeners = [activity.listen(operator), activity.listen(operator)]
    expect(subscribed).toBeGreaterThan(10)
    for (const listener of listeners) await listener.return()
    expect([subscribed, activity.size]).toEqual([0, 0])
    await gateway.close()
  })

  test('drops what a listener does not read, tells it how much, and goes on', async () => {
    const gateway = await testGateway()
    const activity = openActivity(gateway)
    const stalled = activity.listen(getOperator(gateway))
    const publish = () =>
      gateway.events.publish('config.rejected', { error: new GatewayError('server', 'wrong') })
    for (let i = 0; i < 5_000; i++) publish()
    const { value = [] } = await stalled.next()
    expect(value.length).toBe(2_001)
    expect(JSON.parse(value.at(-1) ?? '')).toMatchObject({ type: 'lost', count: 3_002 })
    publish()
    expect(JSON.parse((await stalled.next()).value?.[0] ?? '').type).toBe('config.rejected')
    activity.close()
    await gateway.close()
    expect((await stalled.next()).done).toBe(true)
  })

  test('shows a manager of one workspace the calls of that one, and nothing of the server', async () => {
    const gateway = await testGateway()
    const operator = getOperator(gateway)
    const { data } = await createWorkspace(gateway, operator, { name: 'Other', slug: 'other' })
    const managing = await createKey(
      gateway,
      operator,
      { name: 'manager', workspace_id: data.id },
      'management',
    )
    const manager = await authenticate(gateway, `Bearer ${managing.key}`)
    const activity = openActivity(gateway)
    const listener = activity.listen(manager)
    await call(gateway)
    activity.tick()
    gateway.events.publish('config.applied', { changed: ['limits'], needsRestart: [] })
    await call(gateway, {}, { workspace_id: data.id })
    const entries = await readUntil(listener, 'call.finished')
    expect(typesOf(entries)).toEqual([
      ...(['listening', 'call.opened', 'call.planned', 'attempt.started'] as const),
      ...(['call.answering', 'call.finished'] as const),
    ])
    expect(pick(entries, 'call.finished')[0]?.workspace_id).toBe(data.id)
    await gateway.close()
  })

  test('tells refusals, changes of the config, alarms, and each circuit once', async () => {
    const clock = new TestClock()
    const gateway = await testGateway({ clock })
    const activity = openActivity(gateway)
    const listener = activity.listen(getOperator(gateway))
    expect(await call(gateway, { model: 'acme/none' })).toBe(400)
    gateway.events.publish('config.applied', { changed: ['limits'], needsRestart: ['storage'] })
    gateway.events.publish('store.failing', { error: new Error('disk') })
    const [endpoint] = gateway.catalog.models.get('sandbox/echo')?.endpoints ?? []
    if (!endpoint) throw new Error('The sandbox has an endpoint')
    gateway.traffic.health.rest(endpoint, 60_000)
    activity.tick()
    activity.tick()
    clock.pass(60_001)
    activity.tick()
    const entries = await readUntil(listener, 'circuit.closed')
    expect(pick(entries, 'call.refused')).toMatchObject([{ status: 400, key_name: 'laptop' }])
    expect(pick(entries, 'config.applied')).toMatchObject([
      { changed: ['limits'], needs_restart: ['storage'] },
    ])
    expect(pick(entries, 'alarm').map(({ name }) => name)).toEqual(['store.failing'])
    expect(pick(entries, 'circuit.opened')).toMatchObject([
      { endpoint: endpoint.id, reason: 'by_hand', seconds_left: 60 },
    ])
    expect(pick(entries, 'circuit.closed')).toHaveLength(1)
    await gateway.close()
  })

  test('tells once that a key comes near its limit, and once that it has reached it', async () => {
    const gateway = await testGateway()
    const activity = openActivity(gateway)
    const listener = activity.listen(getOperator(gateway))
    const operator = getOperator(gateway)
    const { data } = await createKey(gateway, operator, { name: 'small', limit: 1 })
    const charge = (nanos: bigint) =>
      gateway.ledger.charge({
        ...{ key_hash: data.hash, user_id: 'u', workspace_id: 'w', byok: false, nanos },
        day: Math.floor(gateway.clock.now().getTime() / 86_400_000),
      })
    const close = () =>
      gateway.events.publish('call.closed', {
        actor: { ...operator, key_hash: data.hash },
        policy: {
          bounds: [
            {
              ...{ account: `key ${data.hash}`, period: null, limit: 1_000_000_000n },
              ...{ byok: false, message: 'no' },
            },
          ],
        },
      } as never)
    for (const nanos of [500_000_000n, 350_000_000n, 10_000_000n, 200_000_000n]) {
      charge(nanos)
      close()
    }
    gateway.events.publish('config.applied', { changed: [], needsRestart: [] })
    const entries = await readUntil(listener, 'config.applied')
    expect(pick(entries, 'limit.near')).toMatchObject([
      { account: 'key', name: 'small', limit: 1, spent: 0.85, share: 0.85 },
      { account: 'key', name: 'small', limit: 1, spent: 1.06, share: 1.06 },
    ])
    await gateway.close()
  })

  test('tells what the last second came to, and how endpoints are doing', async () => {
    const gateway = await testGateway()
    const activity = openActivity(gateway)
    const listener = activity.listen(getOperator(gateway))
    await readUntil(listener, 'state')
    await call(gateway, { stream: true })
    await call(gateway, { model: 'acme/none' })
    activity.tick()
    activity.tick()
    const states = pick(await readUntil(listener, 'state'), 'state')
    expect(states).toMatchObject([
      { finished: 1, failed: 0, refused: 1, endpoints: [{ model: 'sandbox/echo', succeeded: 1 }] },
      { finished: 0, failed: 0, refused: 0, queues: { calls: 0, records: 0, deliveries: 0 } },
    ])
    for (const name of states.flatMap(Object.keys)) expect(ENTRY_FIELDS).toHaveProperty(name)
    await gateway.close()
  })

  test('begins with past calls, oldest first, of those that the listener may see', async () => {
    const gateway = await testGateway()
    const operator = getOperator(gateway)
    const { data } = await createWorkspace(gateway, operator, { name: 'Other', slug: 'other' })
    await call(gateway)
    await call(gateway, {}, { workspace_id: data.id })
    await call(gateway)
    const managed = { name: 'manager', workspace_id: data.id }
    const { key } = await createKey(gateway, operator, managed, 'management')
    const activity = openActivity(gateway)
    const read = async (actor: typeof operator, past: number, count: number) => {
      const listener = activity.listen(actor, past)
      const entries: ActivityEntry[] = []
      while (pick(entries, 'call.finished').length < count)
        entries.push(...((await listener.next()).value ?? []).map(json => JSON.parse(json)))
      await listener.return()
      return pick(entries, 'call.finished')
    }
    const all = await read(operator, 5, 3)
    expect(all.map(({ at }) => at)).toEqual(all.map(({ at }) => at).toSorted())
    expect(all.map(({ attempts }) => attempts)).toEqual([1, 1, 1])
    expect((await read(operator, 1, 1)).map(({ id }) => id)).toEqual([all[2]?.id as string])
    const own = await read(await authenticate(gateway, `Bearer ${key}`), 5, 1)
    expect(own.map(({ workspace_id }) => workspace_id)).toEqual([data.id])
    gateway.store.generations.list = () => Promise.reject(new Error('disk'))
    const listener = activity.listen(operator, 5)
    expect(pick(await readUntil(listener, 'alarm'), 'alarm')).toMatchObject([
      { name: 'past.unreadable' },
    ])
    await gateway.close()
  })
})
