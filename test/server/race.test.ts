import { expect, test } from 'bun:test'
import { examineGateway } from '../../src/app/doctor.ts'
import type { Gateway } from '../../src/app/gateway.ts'
import type { Period } from '../../src/base/clock.ts'
import { hashSecret } from '../../src/base/credential.ts'
import { toNanos } from '../../src/base/money.ts'
import { listDeadCalls } from '../../src/engine/recover.ts'
import { assignKeys, assignMembers } from '../../src/limits/assignments.ts'
import { setBudget } from '../../src/limits/budgets.ts'
import { addCredit } from '../../src/limits/credits.ts'
import { getPolicy } from '../../src/limits/effective.ts'
import { createGuardrail } from '../../src/limits/guardrails.ts'
import { type Account, type Bound, openLedger } from '../../src/limits/ledger.ts'
import { type Send, toIncomingResponse } from '../../src/network/egress.ts'
import { getOperator } from '../../src/resources/actor.ts'
import { createKey } from '../../src/resources/keys.ts'
import { addMember } from '../../src/resources/members.ts'
import { createWorkspace } from '../../src/resources/workspaces.ts'
import { createApp } from '../../src/server/app.ts'
import { testGateway } from '../support/gateway.ts'
import { decodeOutgoing } from '../support/outgoing.ts'
import { createSeededIntegers, SEED } from '../support/random.ts'
import { completion, delta, done, finish, usage } from '../support/upstream.ts'

const CALLS = 1_000
const CLIENTS = 100
/** A dollar per million output tokens: a call holds ten cents, and costs any part of that. */
const BOUND = 100_000

const random = createSeededIntegers(SEED)
const soon = () => Bun.sleep(random(8))

/** Returns the body of a scripted answer, without its head and its framing. */
const said = (...events: Buffer[]) =>
  events.map(one => one.toString().replace(/^[0-9a-f]+\r\n|\r\n$/g, ''))

/** A provider that randomly answers, fails, breaks off or pauses. */
const provider: Send = async ({ body }) => {
  await soon()
  const fate = random(10)
  if (fate === 0) throw new Error('The connection was refused')
  if (fate === 1) return toIncomingResponse(new Response('{}', { status: 500 }))
  const counts = usage(1, random(BOUND) + 1)
  if (!(JSON.parse(decodeOutgoing(body)) as { stream?: boolean }).stream)
    return toIncomingResponse(Response.json(wholeWith(counts)))
  const events =
    fate === 2
      ? said(delta('Hel'))
      : said(delta('Hel'), delta('lo'), finish('stop', counts), done())
  return toIncomingResponse(
    new Response(spoken(events, fate === 2), { headers: { 'content-type': 'text/event-stream' } }),
  )
}

const wholeWith = (counts: object) =>
  JSON.parse(completion('Hello', { usage: counts }).split('\r\n\r\n')[1] ?? '')

const spoken = (events: string[], isCut: boolean) =>
  new ReadableStream({
    async pull(controller) {
      await soon()
      const next = events.shift()
      if (next !== undefined) controller.enqueue(Buffer.from(next))
      else if (isCut) controller.error(new Error('The connection was reset'))
      else controller.close()
    },
  })

const config = {
  providers: {
    local: { protocol: 'openai-chat', base_url: 'http://127.0.0.1:1/v1', api_key: 'mock' },
  },
  models: [
    {
      id: 'acme/small',
      context_length: 1_000_000,
      endpoints: [
        { provider: 'local', model: 'm', usd_per_million_tokens: { prompt: 0, completion: 1 } },
      ],
    },
  ],
  limits: { credits: true, strict: false, wait_seconds: 0 },
}

/** Ten keys of three members in two workspaces, with every kind of limit. */
async function tenKeys(gateway: Gateway): Promise<string[]> {
  const boss = getOperator(gateway)
  const members = await Promise.all(
    ['ada', 'bob', 'cy'].map(name => addMember(gateway, boss, { email: `${name}@acme.example` })),
  )
  const spaces = await Promise.all(
    ['red', 'blue'].map(name => createWorkspace(gateway, boss, { name, slug: name })),
  )
  await addCredit(gateway, boss, { amount: 10 })
  const keys: string[] = []
  for (let i = 0; i < 10; i++) {
    const [member, space] = [members[i % 3]?.id, spaces[i % 2]?.data.id]
    const limit =
      i < 8
        ? {
            limit: 1 + i / 2,
            limit_reset: (['daily', 'weekly', 'monthly', null] as const)[i % 4] ?? null,
          }
        : {}
    keys.push(
      (
        await createKey(gateway, boss, {
          name: `k${i}`,
          creator_user_id: member ?? '',
          workspace_id: space ?? '',
          ...limit,
        })
      ).key,
    )
  }
  await setBudget(gateway, boss, 'red', 'daily', { limit_usd: 4 })
  await setBudget(gateway, boss, 'blue', 'lifetime', { limit_usd: 7 })
  const guardrail = async (space: number, limit_usd: number) =>
    (
      await createGuardrail(gateway, boss, {
        name: 'Rules',
        workspace_id: spaces[space]?.data.id ?? '',
        limit_usd,
        reset_interval: 'daily',
      })
    ).data.id
  await assignKeys(gateway, boss, await guardrail(0, 0.7), {
    key_hashes: [hashSecret(keys[8] ?? '')],
  })
  await assignMembers(gateway, boss, await guardrail(1, 3), {
    member_user_ids: [members[0]?.id ?? ''],
  })
  return keys
}

/** Calls, and randomly reads on or leaves. Returns the status; 0 for a client that left. */
async function ask(
  handle: (request: Request) => Response | Promise<Response>,
  key: string,
): Promise<number> {
  await soon()
  const client = new AbortController()
  const fate = random(8)
  const json = {
    model: 'acme/small',
    messages: [{ role: 'user', content: 'Hi' }],
    max_tokens: BOUND,
    stream: random(2) === 0,
  }
  const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }
  const request = new Request('http://localhost/api/v1/chat/completions', {
    method: 'POST',
    headers,
    body: JSON.stringify(json),
    signal: client.signal,
  })
  if (fate === 0) setTimeout(() => client.abort(), random(10))
  const response = await handle(request)
  if (fate !== 1 || !json.stream) await response.text()
  else await response.body?.cancel()
  return fate <= 1 ? 0 : response.status
}

const PERIODS: (Period | null)[] = ['daily', 'weekly', 'monthly', null]

test(`A-03 A-05 ${CALLS} calls, ${CLIENTS} at once, exceed no limit and leave no hold (seed ${SEED})`, async () => {
  const gateway = await testGateway({ config, egress: provider })
  const keys = await tenKeys(gateway)
  const actors = keys.map(key => {
    const {
      hash: key_hash,
      creator_user_id,
      workspace_id,
    } = gateway.memory.keys.get(hashSecret(key)) ?? {
      hash: '',
      creator_user_id: '',
      workspace_id: '',
    }
    return { kind: 'inference' as const, key_hash, user_id: creator_user_id ?? '', workspace_id }
  })
  const bounds = new Map(
    actors
      .flatMap(actor => getPolicy(gateway, actor).bounds)
      .map(bound => [JSON.stringify(bound, texts), bound]),
  )
  const left = ({ account, period, limit }: Bound) =>
    limit - gateway.ledger.getSpent(account, period, false) - gateway.ledger.getHeld(account, false)
  const broken = new Set<string>()
  const look = () => {
    for (const [name, bound] of bounds) if (left(bound) < 0n) broken.add(name)
  }
  gateway.events.on('generation.finished', look)
  gateway.events.on('attempt.failed', look)
  const app = createApp(gateway)
  const statuses: number[] = []
  const client = async (key: string) => {
    for (let i = 0; i < CALLS / CLIENTS; i++)
      statuses.push(await ask(request => app.handle(request), key))
  }
  const quiet = async () => {
    while (gateway.traffic.calls.size > 0) await Bun.sleep(5)
    await gateway.recorder.flush()
  }
  await Promise.all(Array.from({ length: CLIENTS }, (_, i) => client(keys[i % keys.length] ?? '')))
  await quiet()
  // One client continues alone: without other holds, a refusal means that less is left than a call
  // may cost.
  while ((await ask(request => app.handle(request), keys[8] ?? '')) !== 402) await quiet()
  look()

  expect([...broken]).toEqual([])
  const accounts = [
    ...new Set<Account>(
      actors.flatMap(
        one =>
          [
            `key ${one.key_hash}`,
            `member ${one.user_id}`,
            `workspace ${one.workspace_id}`,
            'all',
          ] as const,
      ),
    ),
  ]
  expect(accounts.filter(account => gateway.ledger.getHeld(account, true) !== 0n)).toEqual([])
  expect(await listDeadCalls(gateway)).toEqual([])
  expect((await examineGateway(gateway)).data.filter(one => !one.ok)).toEqual([])
  const anew = await openLedger(gateway.store.ledger, gateway.clock)
  const seen = (ledger: typeof anew) =>
    accounts.map(account => PERIODS.map(period => ledger.getSpent(account, period, false)))
  expect(seen(gateway.ledger)).toEqual(seen(anew))
  // The test proves nothing unless all of it happened: answers, failures, clients that left,
  // refusals, and limits with less than a call left.
  expect(new Set(statuses)).toEqual(new Set([0, 200, 402, 502]))
  expect([...bounds.values()].filter(bound => left(bound) < toNanos(0.1)).length).toBeGreaterThan(0)
  await gateway.close()
}, 60_000)

test('X-09 of 200 requests at once each is answered with what is its own', async () => {
  const gateway = await testGateway({ config, egress: provider })
  const keys = await tenKeys(gateway)
  const app = createApp(gateway)
  const askOwn = async (key: string) => {
    const headers = { authorization: `Bearer ${key}` }
    const answer = await app.handle(new Request('http://localhost/api/v1/key', { headers }))
    return ((await answer.json()) as { data: { label: string } }).data.label
  }
  const own = await Promise.all(keys.map(askOwn))
  expect(new Set(own).size).toBe(keys.length)
  const mixed = Array.from({ length: 200 }, (_, i) => i % keys.length)
  const labels = await Promise.all(mixed.map(i => askOwn(keys[i] ?? '')))
  expect(labels).toEqual(mixed.map(i => own[i] ?? ''))
  await gateway.close()
})

const texts = (_: string, value: unknown) => (typeof value === 'bigint' ? String(value) : value)
