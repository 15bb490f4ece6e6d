import { afterEach, beforeEach, describe, expect, test } from 'bun:test'
import { createHmac } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Gateway } from '../../../src/app/gateway.ts'
import { toDayNumber } from '../../../src/base/clock.ts'
import { parseConfig } from '../../../src/config.ts'
import { assignMembers } from '../../../src/limits/assignments.ts'
import { setBudget } from '../../../src/limits/budgets.ts'
import { addCredit } from '../../../src/limits/credits.ts'
import { createGuardrail, updateGuardrail } from '../../../src/limits/guardrails.ts'
import type { Subaccount } from '../../../src/limits/ledger.ts'
import type { NoticeContent } from '../../../src/observability/alerts/notice.ts'
import type { NewAlert } from '../../../src/observability/alerts/schema.ts'
import { AlertSender } from '../../../src/observability/alerts/sender.ts'
import { testAlert } from '../../../src/observability/alerts/test-alert.ts'
import { AlertWatch } from '../../../src/observability/alerts/watch.ts'
import { createAlert, deleteAlert, updateAlert } from '../../../src/observability/alerts.ts'
import { createDestination } from '../../../src/observability/destinations.ts'
import type { Generation } from '../../../src/observability/generations/store.ts'
import { type Actor, getOperator } from '../../../src/resources/actor.ts'
import { getDefaultGuardrailId } from '../../../src/resources/default-guardrail.ts'
import { createKey, deleteKey } from '../../../src/resources/keys.ts'
import { createWorkspace } from '../../../src/resources/workspaces.ts'
import { openDatabase } from '../../support/database.ts'
import { TestClock, testGateway } from '../../support/gateway.ts'
import { buildGeneration } from '../../support/generation.ts'
import { type Receiver, startReceiver } from '../../support/receiver.ts'
import { startServer } from '../../support/server.ts'
import { startMailServer } from '../../support/smtp.ts'

const SECRET = 'whsec_MDEyMzQ1Njc4OWFiY2RlZg=='
const DAY = 86_400_000

let receiver: Receiver
let clock: TestClock
let gateway: Gateway
let operator: Actor
let watch: AlertWatch

beforeEach(async () => {
  receiver = await startReceiver()
  clock = new TestClock()
  gateway = await testGateway({
    clock,
    config: {
      security: { allow_private_urls: [receiver.host] },
      limits: { credits: true },
    },
  })
  operator = getOperator(gateway)
  watch = new AlertWatch(gateway, new AlertSender(gateway, { firstPause: 1, longestPause: 1 }))
})
afterEach(async () => {
  await watch.stop()
  await gateway.close()
  await receiver.close()
})

const alertOf = async (cause: NewAlert['cause'], more: Partial<NewAlert> = {}) => {
  const to = { type: 'webhook' as const, url: `${receiver.url}/hook`, secret: SECRET }
  return (await createAlert(gateway, operator, { name: 'mine', cause, to, ...more })).data
}
const listTold = () => receiver.requests.map(({ body }) => JSON.parse(body) as NoticeContent)
const listMessages = () => listTold().map(({ data }) => data.message)

/** Looks at the causes once, and waits until all is told. */
async function look(): Promise<void> {
  await watch.tick()
  await watch.rest()
}

/** Spends by a key, as a finished call of it does. */
function spend(key_hash: string, nanos: bigint, subaccounts: Subaccount[] = []): void {
  const { workspace_id, user_id } = operator
  const day = toDayNumber(clock.now())
  gateway.ledger.charge({ key_hash, user_id, workspace_id, byok: false, nanos, day, subaccounts })
  gateway.events.publish('generation.finished', buildGeneration({ key_hash, workspace_id }))
}

async function recordCalls(count: number, more: object): Promise<void> {
  const { workspace_id } = operator
  for (let i = 0; i < count; i++) {
    const id = `gen-${crypto.randomUUID()}`
    const generation = buildGeneration({
      id,
      workspace_id,
      settled_at: clock.now().toISOString(),
      ...more,
    })
    await gateway.store.generations.record([{ generation, charge: null }])
    gateway.events.publish('generation.finished', generation)
  }
}

describe('an alert arrives of', () => {
  test('a limit that is near, once for each threshold and window', async () => {
    const { data: key } = await createKey(gateway, operator, {
      ...{ name: 'small', limit: 1, limit_reset: 'daily' as const },
    })
    const alert = await alertOf('limit_near')
    await watch.start()
    await look()
    spend(key.hash, 700_000_000n)
    await look()
    expect(listTold()).toEqual([])
    spend(key.hash, 150_000_000n)
    await look()
    await look()
    spend(key.hash, 10_000_000n)
    await look()
    expect(listTold()).toEqual([
      {
        ...{ id: expect.stringMatching(/^alert_[0-9a-f]{40}$/), type: 'alert.limit_near' },
        created_at: '2026-03-04T05:06:07.000Z',
        alert: { id: alert.id, name: 'mine', workspace_id: operator.workspace_id },
        data: {
          message: 'The key small has spent 85 % of its daily limit: $0.85 of $1.00',
          ...{ value: 0.85, threshold: 0.8, window_start: '2026-03-04T00:00:00.000Z' },
          ...{ account: 'key', key_hash: key.hash, name: 'small', period: 'daily' },
          ...{ spent: 0.85, limit: 1 },
        },
      },
    ])
    spend(key.hash, 300_000_000n)
    await look()
    clock.pass(DAY)
    spend(key.hash, 2_000_000_000n)
    await look()
    expect(listTold().map(({ data }) => [data.threshold, data.value, data.window_start])).toEqual([
      [0.8, 0.85, '2026-03-04T00:00:00.000Z'],
      [1, 1.16, '2026-03-04T00:00:00.000Z'],
      [1, 2, '2026-03-05T00:00:00.000Z'],
    ])
    expect(new Set(listTold().map(({ id }) => id)).size).toBe(3)
  })

  test('a soft budget, which refuses no call', async () => {
    const { data: key } = await createKey(gateway, operator, { name: 'any' })
    const { workspace_id } = operator
    await setBudget(gateway, operator, workspace_id, 'daily', { limit_usd: 1, soft: true })
    await alertOf('limit_near')
    await watch.start()
    spend(key.hash, 2_000_000_000n)
    await look()
    expect(listTold().map(({ data }) => [data.message, data.workspace_id, data.value])).toEqual([
      [
        'The workspace default has spent 200 % of its daily limit: $2.00 of $1.00',
        ...[workspace_id, 2],
      ],
    ])
  })

  test('a budget of each tag, with the tag', async () => {
    const { data: key } = await createKey(gateway, operator, { name: 'any' })
    const { workspace_id } = operator
    const budgets = [{ by: 'tag' as const, limit_usd: 1, reset_interval: 'daily' as const }]
    await updateGuardrail(gateway, operator, getDefaultGuardrailId(workspace_id), { budgets })
    await alertOf('limit_near')
    await watch.start()
    const leave = await gateway.ledger.openSubaccounts([`tag workspace ${workspace_id} docs`])
    spend(key.hash, 900_000_000n, [`tag workspace ${workspace_id} docs`])
    leave()
    await look()
    expect(listTold().map(({ data }) => [data.message, data.workspace_id, data.tag])).toEqual([
      [
        'The tag docs of the workspace default has spent 90 % of its daily limit: $0.90 of $1.00',
        ...[workspace_id, 'docs'],
      ],
    ])
  })

  test('what a member may spend, in the default workspace alone', async () => {
    const { user_id, workspace_id } = operator
    const { data: rule } = await createGuardrail(gateway, operator, {
      ...{ name: 'each', limit_usd: 1, reset_interval: 'daily' as const },
    })
    await assignMembers(gateway, operator, rule.id, { member_user_ids: [user_id] })
    const other = await createWorkspace(gateway, operator, { name: 'Other', slug: 'other' })
    const { data: key } = await createKey(gateway, operator, { name: 'any' })
    await alertOf('limit_near')
    await alertOf('limit_near', { workspace_id: other.data.id })
    await alertOf('limit_near', { key_hash: key.hash })
    await watch.start()
    spend(key.hash, 900_000_000n)
    await look()
    expect(listTold().map(({ alert, data }) => [alert.workspace_id, data.message, data.user_id])) //
      .toEqual([
        [
          workspace_id,
          `The member ${user_id} has spent 90 % of its daily limit: $0.90 of $1.00`,
          user_id,
        ],
      ])
  })

  test('an error rate, once enough calls were made', async () => {
    await alertOf('error_rate', { thresholds: [0.1, 0.5], window: 'hourly' })
    await watch.start()
    await recordCalls(7, {})
    await recordCalls(2, { error_type: 'server' })
    await look()
    expect(listTold()).toEqual([])
    await recordCalls(1, {})
    await look()
    await look()
    clock.pass(3_600_000)
    await recordCalls(10, { error_type: 'server' })
    await look()
    expect(listMessages()).toEqual([
      '2 of 10 calls this hour have failed: 20 %',
      '10 of 10 calls this hour have failed: 100 %',
    ])
  })

  test('an error rate that has fallen again, once, also in another window', async () => {
    const alert = await alertOf('error_rate', { thresholds: [0.1, 0.5], window: 'hourly' })
    await watch.start()
    await recordCalls(10, { error_type: 'server' })
    await look()
    const [told] = listTold()
    clock.pass(7_200_000)
    await recordCalls(9, {})
    await look()
    expect(listTold()).toHaveLength(1)
    await recordCalls(1, {})
    await look()
    await recordCalls(1, {})
    await watch.stop()
    await watch.start()
    await look()
    expect(listTold().slice(1)).toEqual([
      {
        ...{ id: expect.stringMatching(/^alert_[0-9a-f]{40}$/), type: 'alert.error_rate.ended' },
        created_at: '2026-03-04T07:06:07.000Z',
        alert: { id: alert.id, name: 'mine', workspace_id: operator.workspace_id },
        data: {
          message: 'Well again: 0 of 10 calls this hour have failed: 0 %',
          ...{ value: 0, window_start: '2026-03-04T05:00:00.000Z', ends: told?.id },
          ...{ calls: 10, failed_calls: 0, key_hash: null },
        },
      },
    ])
    await recordCalls(11, { error_type: 'server' })
    await look()
    expect(listTold().map(({ type }) => type)).toEqual([
      ...['alert.error_rate', 'alert.error_rate.ended', 'alert.error_rate'],
    ] as never)
    // What has ended is forgotten with its window, and what lasts is not.
    clock.pass(2 * DAY)
    await watch.stop()
    watch = new AlertWatch(gateway)
    await watch.start()
    await look()
    expect(await gateway.store.alerts.listNoticeIds()).toEqual([listTold()[2]?.id ?? ''])
  })

  test('a provider whose account is empty', async () => {
    await alertOf('provider_empty', { provider: 'sandbox' })
    await watch.start()
    const fail = (slug: string, trouble: 'balance' | 'account') =>
      gateway.events.publish('operator.needed', {
        ...{ trouble, reason: 'no money', endpoint: { provider: { slug } } as never },
      })
    fail('openai', 'balance')
    fail('sandbox', 'account')
    await look()
    fail('sandbox', 'balance')
    await look()
    fail('sandbox', 'balance')
    await look()
    const told = [
      'sandbox says that the account there has no money left: its calls fail until you pay in',
    ]
    expect(listMessages()).toEqual(told)
    const answer = (more: Partial<Generation> = {}) =>
      gateway.events.publish(
        'generation.finished',
        buildGeneration({ provider_name: 'Sandbox', error_type: null, ...more }),
      )
    // Another of its credentials may be the one that has answered.
    answer()
    await look()
    answer({ is_byok: true })
    answer({ error_type: 'server' })
    answer({ response_cache_source_id: 'gen-1' })
    await look()
    expect(listMessages()).toEqual(told)
    answer()
    await look()
    answer()
    await look()
    expect(listMessages()).toEqual([...told, 'Well again: sandbox answers calls'])
    expect(listTold()[1]).toMatchObject({ type: 'alert.provider_empty.ended', data: { value: 0 } })
  })

  test('a destination’s backlog', async () => {
    const { data } = await createDestination(gateway, operator, {
      ...{ type: 'webhook', name: 'slow', config: { url: 'https://hooks.example.com/a' } },
    })
    await alertOf('destination_backlog', { thresholds: [5, 50], destination_id: data.id })
    await watch.start()
    let waiting = 4
    gateway.deliveries.list = () => [{ destination_id: data.id, waiting } as never]
    await look()
    waiting = 70
    await look()
    waiting = 7
    await look()
    expect(listMessages()).toEqual(['70 calls wait for the destination slow'])
    waiting = 4
    await look()
    await look()
    expect(listMessages().slice(1)).toEqual(['Well again: 4 calls wait for the destination slow'])
    expect(listTold()[1]?.data.ends).toBe(listTold()[0]?.id ?? '')
  })

  test('a credential that is about to end', async () => {
    const expires_at = '2026-03-10T00:00:00Z'
    const { data: key } = await createKey(gateway, operator, { name: 'ci', expires_at })
    await createKey(gateway, operator, { name: 'far', expires_at: '2026-08-10T00:00:00Z' })
    await alertOf('credential_ending')
    await alertOf('credential_ending', { key_hash: key.hash, thresholds: [0.5], name: 'late' })
    await watch.start()
    await look()
    await look()
    clock.pass(5 * DAY)
    await look()
    clock.pass(DAY / 2)
    await look()
    expect(listTold().map(({ alert, data }) => [alert.name, data.threshold])).toEqual([
      ['mine', 7],
      ['mine', 1],
      ['late', 0.5],
    ])
    expect(listMessages()[0]).toBe('The key ci ends at 2026-03-10T00:00:00Z')
  })

  test('credits that are low', async () => {
    await addCredit(gateway, operator, { amount: 20 })
    await alertOf('credits_low', { thresholds: [10, 1] })
    await watch.start()
    spend('k', 9_000_000_000n)
    await look()
    spend('k', 2_000_000_000n)
    await look()
    await look()
    spend('k', 8_500_000_000n)
    await look()
    expect(listMessages()).toEqual(['$9.00 of credits are left', '$0.50 of credits are left'])
    await addCredit(gateway, operator, { amount: 20 })
    await look()
    // What was told last has ended, with all before it.
    expect(listMessages().slice(2)).toEqual(['Well again: $20.50 of credits are left'])
    expect(await gateway.store.alerts.listLasting()).toEqual([])
  })
})

describe('a notice', () => {
  /** An alert that has something to tell at once. */
  async function prepare(more: Partial<NewAlert> = {}) {
    await createKey(gateway, operator, { name: 'ci <b> & co', expires_at: '2026-03-05T00:00:00Z' })
    return alertOf('credential_ending', { thresholds: [7], ...more })
  }

  test('is signed as Standard Webhooks say', async () => {
    await prepare()
    await watch.start()
    await look()
    const [request] = receiver.requests
    const { 'webhook-id': id, 'webhook-timestamp': seconds, ...headers } = request?.headers ?? {}
    const mac = createHmac('sha256', '0123456789abcdef').update(`${id}.${seconds}.${request?.body}`)
    expect(headers['webhook-signature']).toBe(`v1,${mac.digest('base64')}`)
    expect(seconds).toBe(String(clock.now().getTime() / 1000))
    expect(id).toBe(listTold()[0]?.id ?? '')
  })

  test('is a line of text for Slack, in which nothing is a link or a mention', async () => {
    await prepare({ to: { type: 'slack', url: `${receiver.url}/slack` }, name: '<!channel>' })
    await watch.start()
    await look()
    expect(JSON.parse(receiver.requests[0]?.body ?? '')).toEqual({
      text: '&lt;!channel&gt;: The key ci &lt;b&gt; &amp; co ends at 2026-03-05T00:00:00Z',
    })
  })

  test('is a mail, whose Message-ID is that of its notice', async () => {
    const server = await startMailServer()
    const mail = { host: '127.0.0.1', port: server.port, security: 'none', from: 'a@acme.example' }
    gateway.config = parseConfig(JSON.stringify({ mail }), {})
    await prepare({ to: { type: 'mail', addresses: ['ada@example.com'] } })
    await watch.start()
    await look()
    const text = server.mails[0]?.text ?? ''
    const [id] = await gateway.store.alerts.listNoticeIds()
    expect(text).toContain(`Message-ID: <${id}@acme.example>`)
    expect(text).toContain('The key ci <b> & co ends at 2026-03-05T00:00:00Z')
    await server.close()
  })

  test('is sent again under the same id, whatever its receiver does, and never again after that', async () => {
    const answers = [{ status: 500 }, 'reset', { status: 302 }, { status: 200 }] as const
    receiver.answer = (_, index) => answers[index] ?? { status: 200 }
    await prepare()
    // The clock stands still, so that what is due in a millisecond is due when it is moved.
    await watch.start()
    for (let sent = 1; sent <= 4; sent++) {
      await look()
      await receiver.waitFor(sent)
      await watch.rest()
      clock.pass(2)
      await watch.stop()
      await watch.start()
    }
    await look()
    expect(receiver.requests.map(({ headers }) => headers['webhook-id'])).toEqual(
      Array(4).fill(listTold()[0]?.id),
    )
    expect(new Set(receiver.requests.map(({ body }) => body)).size).toBe(1)
  })

  test('waits again for a receiver that takes it and never answers', async () => {
    receiver.answer = () => 'hang'
    const pace = { firstPause: 60_000, timeout: 20 }
    watch = new AlertWatch(gateway, new AlertSender(gateway, pace))
    await prepare()
    await watch.start()
    await look()
    expect(await gateway.store.alerts.listWaiting()).toMatchObject([
      { state: 'waiting', attempts: 1, error: 'It did not answer in time' },
    ])
  })

  test('is given up after a day, or once its alert is switched off or gone', async () => {
    const given: string[] = []
    gateway.events.on('alert.undelivered', ({ error }) => given.push(error))
    receiver.answer = () => ({ status: 500 })
    const { id } = await prepare()
    await watch.start()
    await look()
    clock.pass(DAY)
    await watch.stop()
    await watch.start()
    await watch.rest()
    expect(given).toEqual(['It answered 500'])
    await updateAlert(gateway, operator, id, { thresholds: [9], disabled: true })
    const { id: other } = await alertOf('credential_ending', { name: 'other' })
    await createKey(gateway, operator, { name: 'next', expires_at: '2026-03-06T00:00:00Z' })
    await look()
    await updateAlert(gateway, operator, other, { disabled: true })
    clock.pass(2)
    await watch.stop()
    await watch.start()
    await watch.rest()
    expect(given).toEqual(['It answered 500', 'The alert was switched off'])
    await deleteAlert(gateway, operator, other)
    expect(await gateway.store.alerts.listWaiting()).toEqual([])
  })

  test('of a key that was deleted is not made', async () => {
    const { data: key } = await createKey(gateway, operator, { name: 'small', limit: 1 })
    await alertOf('limit_near', { key_hash: key.hash })
    await watch.start()
    spend(key.hash, 1_000_000_000n)
    await deleteKey(gateway, operator, key.hash)
    await look()
    expect(receiver.requests).toEqual([])
  })

  test('waits for the next look where the store fails', async () => {
    const { data: key } = await createKey(gateway, operator, { name: 'small', limit: 1 })
    await alertOf('limit_near')
    await watch.start()
    await look()
    spend(key.hash, 1_000_000_000n)
    const { addNotices } = gateway.store.alerts
    gateway.store.alerts.addNotices = () => Promise.reject(new Error('database is locked'))
    await watch.tick().catch(() => undefined)
    gateway.store.alerts.addNotices = addNotices
    await look()
    expect(listTold()).toHaveLength(1)
  })
})

test('nothing is listened to without an alert, or for causes that no alert has', async () => {
  const names: string[] = []
  const { on } = gateway.events
  gateway.events.on = (name, listener) => {
    names.push(name)
    return on(name, listener)
  }
  await watch.start()
  await alertOf('destination_backlog')
  await alertOf('limit_near', { disabled: true })
  expect(names).toEqual(['alerts.changed'])
  await alertOf('limit_near')
  expect(names).toEqual(['alerts.changed', 'generation.finished'])
})

describe('a test', () => {
  const send = async (to?: NewAlert['to']) => {
    const { id } = await alertOf('limit_near', { disabled: true, ...(to ? { to } : {}) })
    return (await testAlert(gateway, operator, id)).data
  }

  test('sends a sample and tells what came back', async () => {
    expect(await send()).toEqual({ passed: true, status: 200, reason: null })
    expect(listTold()).toMatchObject([
      { type: 'alert.test', data: { message: 'This is a test. Nothing has happened.' } },
    ])
    receiver.answer = () => ({ status: 302, headers: { location: 'http://127.0.0.1/' } })
    expect(await send()).toEqual({ passed: false, status: 302, reason: 'It answered 302' })
    receiver.answer = () => 'reset'
    expect(await send()).toMatchObject({ passed: false, status: null })
    expect(receiver.requests).toHaveLength(3)
  })

  test('goes to no private network that a name turns out to be in', async () => {
    const inside = await testGateway({ resolve: async () => ['10.0.0.1'] })
    const to = { type: 'slack' as const, url: 'https://hooks.example.com/a' }
    const { data } = await createAlert(inside, getOperator(inside), {
      ...{ name: 'x', cause: 'limit_near', to },
    })
    expect((await testAlert(inside, getOperator(inside), data.id)).data).toEqual({
      ...{ passed: false, status: null, reason: 'The URL: expected the URL of a public host' },
    })
    await inside.close()
  })
})

test('a kill -9 between the decision and the delivery leaves one notice, which keeps its id', async () => {
  const data = mkdtempSync(join(tmpdir(), 'gateway-alerts-'))
  const config = { security: { allow_private_urls: [receiver.host] } }
  const killed = Promise.withResolvers<void>()
  const first = await startServer({ data, config })
  receiver.answer = () => {
    killed.resolve(first.kill())
    return 'hang'
  }
  const key = first.management_key
  const expires_at = new Date(Date.now() + DAY).toISOString()
  await first.fetch('/keys', { key, json: { name: 'ci', expires_at } })
  const to = { type: 'webhook', url: `${receiver.url}/hook`, secret: SECRET }
  const alert = { name: 'mine', cause: 'credential_ending', to }
  // The process may be killed before it has answered.
  void first.fetch('/alerts', { key, json: alert }).catch(() => undefined)
  await killed.promise
  receiver.answer = () => ({ status: 200 })
  const second = await startServer({ data, config })
  await receiver.waitFor(2)
  await second.stop()
  expect(new Set(receiver.requests.map(({ body }) => body)).size).toBe(1)
  const db = openDatabase(data, { readonly: true })
  expect(db.query('select id from alert_notices').all()).toEqual([{ id: listTold()[0]?.id ?? '' }])
  db.close()
  rmSync(data, { recursive: true, force: true })
}, 60_000)
