import { afterAll, beforeEach, describe, expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Gateway } from '../../src/app/gateway.ts'
import { hashUser, keepModel } from '../../src/limits/call-budgets.ts'
import type { NewGuardrail } from '../../src/limits/guardrails/schema.ts'
import { createGuardrail, updateGuardrail } from '../../src/limits/guardrails.ts'
import { openLedger, type Subaccount } from '../../src/limits/ledger.ts'
import { getOperator } from '../../src/resources/actor.ts'
import { getDefaultGuardrailId } from '../../src/resources/default-guardrail.ts'
import { createKey } from '../../src/resources/keys.ts'
import { createApp } from '../../src/server/app.ts'
import { createOtherWorkspace, TestClock, testGateway } from '../support/gateway.ts'
import { createLedgerStore, spend } from '../support/ledger.ts'
import { createSeededIntegers, LONG, SEED } from '../support/random.ts'

type Budget = NonNullable<NewGuardrail['budgets']>[number]

const data = mkdtempSync(join(tmpdir(), 'gateway-budgets-'))
afterAll(() => rmSync(data, { recursive: true, force: true }))

const messages = [{ role: 'user', content: 'Hi' }]
const priced = (id: string, dollars: number) => ({
  id,
  endpoints: [
    {
      ...{ provider: 'sandbox', model: 'echo' },
      usd_per_million_tokens: { prompt: 0, completion: dollars },
    },
  ],
})
const MODELS = [priced('acme/small', 5_000), priced('acme/large', 10_000)]
/** What a call holds: its tokens of output at half a cent each. */
const TOKENS = 20

let clock: TestClock
let gateway: Gateway
let app: ReturnType<typeof createApp>

const open = async (more: object = {}) => {
  const config = { models: MODELS, limits: { strict: false, wait_seconds: 0 } }
  gateway = await testGateway({ clock, config, ...more })
  app = createApp(gateway)
}

beforeEach(async () => {
  clock = new TestClock()
  await open()
})

const operator = () => getOperator(gateway)
const makeKey = async () => (await createKey(gateway, operator(), { name: 'k' })).key
const setDefault = (budgets: Budget[] | null, workspace = gateway.memory.owner.workspace_id) =>
  updateGuardrail(gateway, operator(), getDefaultGuardrailId(workspace), { budgets })

const budget = (by: Budget['by'], limit_usd: number, name?: string): Budget => ({
  ...{ by, limit_usd, reset_interval: 'monthly' },
  ...(name === undefined ? {} : { name }),
})

const ask = (path: string, key: string, body?: object, headers: Record<string, string> = {}) =>
  app.handle(
    new Request(`http://localhost/api/v1${path}`, {
      method: body ? 'POST' : 'GET',
      headers: {
        'content-type': 'application/json',
        authorization: `Bearer ${key}`,
        ...headers,
      },
      ...(body ? { body: JSON.stringify(body) } : {}),
    }),
  )

async function chat(key: string, more: object = {}, headers: Record<string, string> = {}) {
  const body = { model: 'acme/small', messages, max_tokens: TOKENS, ...more }
  const answer = await ask('/chat/completions', key, body, headers)
  const text = await answer.text()
  return { status: answer.status, text, model: readField(text, 'model'), cost: readCost(text) }
}

const readField = (text: string, field: string) =>
  new RegExp(`"${field}":"([^"]*)"`).exec(text)?.[1] ?? null
const readCost = (text: string) =>
  Math.round(Number(/"cost":([\d.e-]+)/.exec(text)?.[1] ?? 0) * 1e9)

/** What a dry run with the key `k` tells. */
async function explain(more: object) {
  const { key } = await createKey(gateway, operator(), { name: 'm' }, 'management')
  const hash = [...gateway.memory.keys.values()].find(({ name }) => name === 'k')?.hash
  const answer = await ask('/chat/completions', key, {
    ...{ model: 'acme/small', messages, max_tokens: TOKENS, ...more },
    debug: { dry_run: true, key: hash },
  })
  return answer.json()
}

describe('a budget', () => {
  test('for each end user counts every one by itself, and one that is named instead of it', async () => {
    const key = await makeKey()
    await setDefault([budget('end_user', 0.1), budget('end_user', 0, 'bob')])
    expect((await chat(key, { user: 'ada' })).status).toBe(200)
    const refused = await chat(key, { user: 'ada' })
    expect(refused.status).toBe(402)
    expect(refused.text).toContain(
      'Guardrail monthly budget of $0.10 for the end user “ada” of its workspace exceeded',
    )
    expect(refused.text).toContain('"limit":"end_user"')
    expect((await chat(key, { user: 'eve' })).status).toBe(200)
    expect((await chat(key, { user: 'bob' })).text).toContain(
      'budget of $0.00 for the end user “bob”',
    )
    expect((await chat(key)).status).toBe(200)
  })

  test('holds for a call that takes long to be planned, after which others have their turn', async () => {
    const { ticks } = clock
    let jumped = 0
    clock.ticks = () => {
      jumped += 20
      return ticks.call(clock) + jumped
    }
    await setDefault([budget('end_user', 0.1)])
    const key = await makeKey()
    expect((await chat(key, { user: 'u' })).status).toBe(200)
    expect((await chat(key, { user: 'u' })).status).toBe(402)
  })

  test('by tag counts the tags of the header and of the trace, and refuses what is none', async () => {
    const key = await makeKey()
    await setDefault([budget('tag', 0.1, 'docs')])
    const tagged = (tags: string, trace: object = {}) =>
      chat(key, { trace }, { 'x-gateway-tags': tags })
    expect((await tagged('other, docs')).status).toBe(200)
    expect((await tagged('docs')).text).toContain('for the tag “docs” of its workspace')
    expect((await tagged('', { tags: ['docs'] })).status).toBe(402)
    expect((await tagged('', { tags: 'docs' })).status).toBe(402)
    expect((await tagged('other')).status).toBe(200)
    for (const [tags, field] of [
      [Array.from({ length: 11 }, (_, i) => `t${i}`), 'trace.tags'],
      [['x'.repeat(65)], 'trace.tags'],
      [[7], 'trace.tags'],
      [{ docs: true }, 'trace.tags'],
      [['a\ud800'], 'trace.tags'],
      [['a\nb'], 'trace.tags'],
    ] as const) {
      const refused = await tagged('', { tags })
      expect([refused.status, refused.text]).toEqual([400, expect.stringContaining(field)])
    }
    await setDefault(null)
    expect((await tagged('x'.repeat(65))).status).toBe(200)
  })

  test('of a model leaves its fallbacks, and counts those calls alone that it has answered', async () => {
    const key = await makeKey()
    await setDefault([budget('model', 0.1, 'acme/small')])
    const models = ['acme/small', 'acme/large']
    const answers = [await chat(key, { models }), await chat(key, { models })]
    expect(answers.map(({ model }) => model)).toEqual(models)
    expect((await chat(key)).text).toContain('for the model “acme/small” of its workspace')
    expect((await explain({ models })).dropped).toMatchObject([
      { model: 'acme/small', excluded_by: 'payment_required' },
    ])
    const { workspace_id } = gateway.memory.owner
    const account: Subaccount = `model workspace ${workspace_id} acme/small`
    expect(gateway.ledger.getSpent(account, 'monthly', false)).toBe(BigInt(answers[0]?.cost ?? 0))
    expect(keepModel([account], 'acme/small:free')).toEqual([account])
    expect(keepModel([account, 'tag key k acme/large'], 'acme/large')).toEqual([
      'tag key k acme/large',
    ])
  })

  test('is of one workspace, begins anew with its window, and is told by GET /key and explain', async () => {
    const key = await makeKey()
    const other = await createOtherWorkspace(
      gateway,
      '00000000-0000-7000-8000-0000000000aa',
      'inference',
    )
    const all = [budget('end_user', 0.1), budget('tag', 5, 'docs'), budget('end_user', 9, 'bob')]
    await setDefault(all)
    await chat(key, { user: 'ada' })
    expect((await chat(key, { user: 'ada' })).status).toBe(402)
    expect((await chat(other.key, { user: 'ada' })).status).toBe(200)
    expect((await ask('/key', key).then(answer => answer.json())).data.budgets).toEqual([
      { by: 'end_user', limit_usd: 0.1, reset_interval: 'monthly' },
      {
        ...{ by: 'tag', name: 'docs', limit_usd: 5, reset_interval: 'monthly' },
        remaining_usd: 5,
      },
    ])
    const { error, policy } = await explain({ user: 'ada' })
    expect(error.message).toContain('for the end user “ada” of its workspace exceeded')
    expect(policy.limits).toMatchObject([{ limit_usd: 0.1, remaining_usd: 0.095, pays: 'no' }])
    clock.pass(Date.parse('2026-03-31T23:59:59.999Z') - clock.now().getTime())
    expect((await chat(key, { user: 'ada' })).status).toBe(402)
    clock.pass(1)
    expect((await chat(key, { user: 'ada' })).status).toBe(200)
  })

  test('survives a restart, and what is older than any window is removed', async () => {
    await open({ data })
    const key = await makeKey()
    await setDefault([budget('end_user', 0.1)])
    await chat(key, { user: 'ada' })
    await gateway.close()
    await open({ data })
    expect((await chat(key, { user: 'ada' })).status).toBe(402)
    const { ledger } = gateway.store
    const { workspace_id } = gateway.memory.owner
    const accounts: Subaccount[] = [
      `end_user workspace ${workspace_id} ${hashUser(workspace_id, 'ada')}`,
    ]
    expect(await ledger.listSubaccountDays(accounts, 0)).toHaveLength(1)
    expect(await ledger.removeSubaccountDays(20_000)).toBe(0)
    expect(await ledger.removeSubaccountDays(30_000)).toBe(1)
    await gateway.close()
  })
})

test('64 calls at once of all kinds of names spend no more than any budget has, whatever comes', async () => {
  for (let seed = 0; seed < (LONG ? 40 : 4); seed++) {
    const random = createSeededIntegers(SEED + seed)
    await open()
    const key = await makeKey()
    const cents = () => (5 + random(60)) / 100
    const budgets = [
      ...[budget('end_user', cents()), budget('end_user', cents(), 'u0')],
      ...[budget('tag', cents()), budget('tag', cents(), 't1')],
      budget('model', cents(), 'acme/large'),
    ]
    await setDefault(budgets)
    let opened = 0
    const { openSubaccounts } = gateway.ledger
    gateway.ledger.openSubaccounts = async accounts => {
      const close = await openSubaccounts(accounts)
      opened += 1
      return () => {
        opened -= 1
        close()
      }
    }
    const limitOf = (by: string, name: string) =>
      budgets.find(one => one.by === by && one.name === name) ??
      budgets.find(one => one.by === by && one.name === undefined)
    const spent = new Map<string, number>()
    const call = async () => {
      const [user, tag] = [`u${random(4)}`, `t${random(3)}`]
      const model = random(2) === 0 ? 'acme/small' : 'acme/large'
      const spoken = [{ role: 'user', content: 'word '.repeat(40) }]
      const more = { model, user, max_tokens: 1 + random(TOKENS), stream: random(2) === 0 }
      const { status, cost } = await chat(
        key,
        { ...more, messages: spoken },
        { 'x-gateway-tags': tag },
      )
      expect([200, 402]).toContain(status)
      for (const name of [`end_user ${user}`, `tag ${tag}`, `model ${model}`])
        spent.set(name, (spent.get(name) ?? 0) + cost)
    }
    await Promise.all(Array.from({ length: 64 }, call))
    await Promise.all(Array.from({ length: 64 }, call))
    expect(opened).toBe(0)
    const { workspace_id } = gateway.memory.owner
    for (const [subject, nanos] of spent) {
      const [by = '', name = ''] = subject.split(' ')
      const limit = limitOf(by, name)?.limit_usd
      if (limit === undefined) continue
      const id = by === 'end_user' ? hashUser(workspace_id, name) : name
      const account = `${by} workspace ${workspace_id} ${id}` as Subaccount
      expect([subject, nanos <= Math.round(limit * 1e9)]).toEqual([subject, true])
      expect(gateway.ledger.getSpent(account, 'monthly', false)).toBe(BigInt(nanos))
      expect(gateway.ledger.getHeld(account, true)).toBe(0n)
    }
    await gateway.close()
  }
})

describe('the accounts of names', () => {
  const part = (name: string | number): Subaccount => `tag key k ${name}`

  test('of a million end users take the memory of ten thousand, and those in use stay', async () => {
    let reads = 0
    const store = createLedgerStore()
    store.listSubaccountDays = async accounts => {
      reads += 1
      return accounts.map(account => ({ account, byok: false, day: 20_516, nanos: 1n }))
    }
    const ledger = await openLedger(store, clock)
    const leave = await ledger.openSubaccounts([part('used')])
    for (let i = 0; i < (LONG ? 1_000_000 : 30_000); i++)
      (await ledger.openSubaccounts([part(i)]))()
    expect(ledger.listSubaccounts()).toHaveLength(10_001)
    const before = reads
    await ledger.openSubaccounts([part('used')])
    expect(reads).toBe(before)
    leave()
    const again = await ledger.openSubaccounts([part(0)])
    again()
    expect(reads).toBe(before + 1)
  })

  test('count what is held before it is read what they have spent, and are exact then', async () => {
    const store = createLedgerStore()
    const days = Promise.withResolvers<void>()
    store.listSubaccountDays = async ([account = part('x')]) => {
      await days.promise
      return [{ account, byok: false, day: 20_516, nanos: 30n }]
    }
    const ledger = await openLedger(store, clock)
    const amounts = { own: 50n, byok: null }
    const payer = { key_hash: 'k', user_id: 'm', workspace_id: 'w', subaccounts: [part('x')] }
    const hold = ledger.reserve(payer, { maximum: amounts, minimum: amounts }, [])
    const opened = [ledger.openSubaccounts([part('x')]), ledger.openSubaccounts([part('x')])]
    days.resolve()
    const [first, second] = await Promise.all(opened)
    const bound = { account: part('x'), period: 'monthly' as const, limit: 100n, byok: false }
    expect(ledger.getRemaining(bound)).toBe(20n)
    ledger.release(hold)
    spend(ledger, clock, 10n, payer)
    expect(ledger.getRemaining(bound)).toBe(60n)
    first?.()
    first?.()
    expect(ledger.listSubaccounts()).toEqual([part('x')])
    second?.()
  })

  test('that cannot be read refuse the call with 503', async () => {
    const key = await makeKey()
    await setDefault([budget('end_user', 1)])
    gateway.store.ledger.listSubaccountDays = () => Promise.reject(new Error('disk'))
    const refused = await chat(key, { user: 'ada' })
    expect([refused.status, refused.text]).toEqual([503, expect.stringContaining('budget')])
  })
})

test('an end user’s hash cannot collide by moving a letter from workspace to name', () => {
  expect(hashUser('w1', 'ada')).not.toBe(hashUser('w2', 'ada'))
  expect(hashUser('w1', 'ada')).toMatch(/^[0-9a-f]{64}$/)
})

test('the fields of a budget are refused by name, and its largest values kept', async () => {
  const create = (budgets: unknown) =>
    createGuardrail(gateway, operator(), { name: 'x', budgets } as NewGuardrail)
  const { key } = await createKey(gateway, operator(), { name: 'm' }, 'management')
  const good = budget('tag', 1, 'docs')
  for (const [wrong, field] of [
    [{ ...good, limit: 1 }, 'budgets.0.limit'],
    [{ ...good, limit_usd: -1 }, 'budgets.0.limit_usd'],
    [{ ...good, reset_interval: 'hourly' }, 'budgets.0.reset_interval'],
    [{ ...good, by: 'user' }, 'budgets.0.by'],
    [{ ...good, name: 'a,b' }, 'budgets.0.name'],
    [{ ...good, name: '' }, 'budgets.0.name'],
    [{ ...good, by: 'model' }, 'budgets.0.name'],
    [budget('model', 1), 'budgets.0.name'],
    // One of no model would limit nothing.
    [budget('model', 1, 'acme/smal'), 'budgets.0.name'],
  ] as const) {
    const refused = await ask('/guardrails', key, { name: 'x', budgets: [wrong] })
    expect([wrong, refused.status]).toEqual([wrong, 400])
    expect(await refused.text()).toContain(field)
  }
  const twice = await ask('/guardrails', key, { name: 'x', budgets: [good, good] })
  expect(await twice.text()).toContain('budgets.1')
  const many = Array.from({ length: 200 }, (_, i) =>
    budget('tag', 9_007_199, `${i}`.padEnd(64, 'x')),
  )
  expect((await create(many)).data.budgets).toEqual(many)
  const more = await ask('/guardrails', key, { name: 'y', budgets: [...many, good] })
  expect(more.status).toBe(400)
})
