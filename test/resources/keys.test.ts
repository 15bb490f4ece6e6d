import { afterEach, beforeEach, describe, expect, test } from 'bun:test'
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Gateway, openGateway } from '../../src/app/gateway.ts'
import { toDayNumber } from '../../src/base/clock.ts'
import { GatewayError } from '../../src/base/errors.ts'
import { getOperator, identify } from '../../src/resources/actor.ts'
import type { NewKey } from '../../src/resources/keys/schema.ts'
import { createKey, deleteKey, getKey, listKeys, updateKey } from '../../src/resources/keys.ts'
import { addMember } from '../../src/resources/members.ts'
import { createApi } from '../support/api.ts'
import { createTestKeys, TestClock, testGateway } from '../support/gateway.ts'
import { buildPayer, toExactEstimate, toOwnAmounts } from '../support/ledger.ts'

let clock: TestClock
let gateway: Gateway
let keys: Awaited<ReturnType<typeof createTestKeys>>
let ask: ReturnType<typeof createApi>

beforeEach(async () => {
  clock = new TestClock()
  gateway = await testGateway({ clock })
  keys = await createTestKeys(gateway)
  ask = createApi(gateway, keys.management)
})

const create = (input: Partial<NewKey> = {}) =>
  createKey(gateway, getOperator(gateway), { name: 'ci', ...input })

/** Charges a key on this day, as a finished call does. */
function spend(key_hash: string, nanos: bigint, byok = false): void {
  gateway.ledger.charge({ ...buildPayer({ key_hash }), day: toDayNumber(clock.now()), byok, nanos })
}

describe('E2 POST /keys', () => {
  test('E2 answers 201 with the record and, only once, the plaintext', async () => {
    const { status, json } = await ask('POST', '/keys', { body: { name: 'ci' } })
    expect(status).toBe(201)
    expect(json).toEqual({
      data: {
        hash: new Bun.CryptoHasher('sha256').update(json.key).digest('hex'),
        name: 'ci',
        label: `${json.key.slice(0, 9)}...${json.key.slice(-3)}`,
        disabled: false,
        limit: null,
        limit_remaining: null,
        limit_reset: null,
        include_byok_in_limit: false,
        usage: 0,
        usage_daily: 0,
        usage_weekly: 0,
        usage_monthly: 0,
        byok_usage: 0,
        byok_usage_daily: 0,
        byok_usage_weekly: 0,
        byok_usage_monthly: 0,
        created_at: '2026-03-04T05:06:07.000Z',
        updated_at: null,
        expires_at: null,
        creator_user_id: gateway.memory.owner.user_id,
        external_user: null,
        workspace_id: gateway.memory.owner.workspace_id,
      },
      key: expect.stringMatching(/^gw-v1-[0-9a-f]{72}$/),
    })
  })

  test('E2 X-15 the plaintext is in no later response', async () => {
    const { json } = await ask('POST', '/keys', { body: { name: 'ci' } })
    const later = await Promise.all([
      ask('GET', '/keys'),
      ask('GET', `/keys/${json.data.hash}`),
      ask('GET', '/key', { key: json.key }),
    ])
    for (const answer of later) {
      expect(answer.status).toBe(200)
      expect(JSON.stringify(answer.json)).not.toContain(json.key)
      expect(JSON.stringify(answer.json)).not.toContain(json.key.slice(6, -8))
    }
  })

  test('E2 no two keys are equal, and the label reveals only a part', async () => {
    const real = await openGateway()
    const made = await Promise.all(
      Array.from({ length: 50 }, () => createKey(real, getOperator(real), { name: 'x' })),
    )
    expect(new Set(made.map(one => one.key)).size).toBe(50)
    for (const { data, key } of made)
      expect(data.label.replace('...', '').length).toBeLessThan(key.length / 4)
    await real.close()
  })

  test.each([
    ['nothing', '', 'body'],
    ['invalid JSON', '{', undefined],
    ['no name', {}, 'name'],
    ['an empty name', { name: '' }, 'name'],
    ['a name that is no text', { name: 5 }, 'name'],
    ['an empty creator', { name: 'a', creator_user_id: '' }, 'creator_user_id'],
    ['a time of minute precision', { name: 'a', expires_at: '2027-01-01T00:00Z' }, 'expires_at'],
    ['a time with an offset', { name: 'a', expires_at: '2027-01-01T00:00:00+01:00' }, 'expires_at'],
    ['a day that does not exist', { name: 'a', expires_at: '2027-02-30T00:00:00Z' }, 'expires_at'],
    ['a time that has passed', { name: 'a', expires_at: '2026-03-04T05:06:07Z' }, 'expires_at'],
    ['a negative limit', { name: 'a', limit: -1 }, 'limit'],
    ['a limit that is a text', { name: 'a', limit: '5' }, 'limit'],
    ['an unknown period', { name: 'a', limit_reset: 'yearly' }, 'limit_reset'],
    ['a workspace id that is no uuid', { name: 'a', workspace_id: 'default' }, 'workspace_id'],
    [
      'a workspace that does not exist',
      { name: 'a', workspace_id: '11111111-1111-4111-8111-111111111111' },
      'workspace_id',
    ],
    [
      'a switch that is no boolean',
      { name: 'a', include_byok_in_limit: 'yes' },
      'include_byok_in_limit',
    ],
    ['an external identity without a user', { name: 'a', external: {} }, 'external.user'],
  ])('E2 refuses %s', async (_, body, field) => {
    const { status, json } = await ask('POST', '/keys', { body })
    expect([status, json.error.code, json.error.metadata.error_type]).toEqual([
      400,
      400,
      'invalid_request',
    ])
    if (field !== undefined && field !== 'body') expect(json.error.metadata.field).toBe(field)
    expect(gateway.memory.keys.size).toBe(2)
  })

  test('E2 accepts seconds and fractions, and keeps the time as given', async () => {
    for (const expires_at of [
      '2027-01-01T00:00:00Z',
      '2026-03-04T05:06:07.001Z',
      '2027-01-01T00:00:00.123456789Z',
    ])
      expect((await create({ expires_at })).data.expires_at).toBe(expires_at)
  })

  test('E2 accepts null for every nullable field', async () => {
    const { data } = await create({
      creator_user_id: null,
      expires_at: null,
      limit: null,
      limit_reset: null,
    })
    expect(data).toMatchObject({ expires_at: null, limit: null, limit_reset: null })
  })

  test('E2 belongs to the named workspace, or to the default one', async () => {
    const named = await create({ workspace_id: gateway.memory.owner.workspace_id })
    expect(named.data.workspace_id).toBe((await create()).data.workspace_id)
  })

  test('E2 stores a partner’s user, and only a hash of the partner’s key', async () => {
    const secret = 'partner-secret-0123456789-0123456789'
    const { data } = await create({ external: { user: 'ada', api_key: secret } })
    expect(data.external_user).toBe('ada')
    expect(gateway.memory.keys.get(data.hash)?.external_api_key_hash).toBe(
      new Bun.CryptoHasher('sha256').update(secret).digest('hex'),
    )
  })

  test('E2 is for management keys only, which is checked before the body', async () => {
    const body = '{ not json'
    const refused = await ask('POST', '/keys', { key: keys.inference, body })
    expect([refused.status, refused.json.error.message]).toEqual([
      403,
      'Only management keys can perform this operation',
    ])
    const unknown = await ask('POST', '/keys', { key: null, body })
    expect([unknown.status, unknown.json.error.message]).toEqual([
      401,
      'Missing Authentication header',
    ])
  })
})

describe('limits', () => {
  test('are exact to the nano-dollar', async () => {
    for (const limit of [0, 0.000000001, 0.1, 5.979018446, 1_000_000_000])
      expect((await create({ limit })).data.limit).toBe(limit)
    expect(gateway.memory.keys.get((await create({ limit: 0.1 })).data.hash)?.limit).toBe(
      100_000_000n,
    )
  })

  test('the remainder is the limit less the spending in its window and the holds', async () => {
    const { data } = await create({ limit: 1, limit_reset: 'daily' })
    const remaining = () => getKey(gateway, getOperator(gateway), data.hash).data.limit_remaining
    spend(data.hash, 250_000_000n)
    expect(remaining()).toBe(0.75)
    const hold = gateway.ledger.reserve(
      buildPayer({ key_hash: data.hash }),
      toExactEstimate(toOwnAmounts(500_000_000n)),
      [],
    )
    expect(remaining()).toBe(0.25)
    gateway.ledger.release(hold)
    clock.pass(86_400_000)
    expect(remaining()).toBe(1)
  })

  test('the remainder is never negative, and null without a limit', async () => {
    const { data } = await create({ limit: 0.1 })
    spend(data.hash, 250_000_000n)
    expect(getKey(gateway, getOperator(gateway), data.hash).data).toMatchObject({
      usage: 0.25,
      limit_remaining: 0,
    })
    expect(getKey(gateway, getOperator(gateway), keys.hash).data.limit_remaining).toBeNull()
  })

  test('spending through own provider keys counts only on request', async () => {
    const apart = await create({ limit: 1 })
    const counted = await create({ limit: 1, include_byok_in_limit: true })
    for (const { data } of [apart, counted]) spend(data.hash, 100_000_000n, true)
    expect(getKey(gateway, getOperator(gateway), apart.data.hash).data).toMatchObject({
      usage: 0,
      byok_usage: 0.1,
      limit_remaining: 1,
    })
    expect(getKey(gateway, getOperator(gateway), counted.data.hash).data).toMatchObject({
      usage: 0,
      byok_usage: 0.1,
      limit_remaining: 0.9,
    })
  })
})

describe('the list', () => {
  test('has the newest first, and disabled keys only on request', async () => {
    clock.pass(1_000)
    const first = await create({ name: 'first' })
    clock.pass(1_000)
    await create({ name: 'second' })
    await updateKey(gateway, getOperator(gateway), first.data.hash, { disabled: true })
    const names = async (query: string) =>
      (await ask('GET', `/keys${query}`)).json.data.map((one: { name: string }) => one.name)
    expect((await names(''))[0]).toBe('second')
    expect(await names('')).not.toContain('first')
    expect((await names('?include_disabled=true')).slice(0, 2)).toEqual(['second', 'first'])
    expect(await names('?include_disabled=false')).not.toContain('first')
  })

  test('has pages of 100, with every key on exactly one of them', async () => {
    for (let i = 0; i < 203; i++) await create({ name: `k${i}` })
    const page = async (offset: number) =>
      (await ask('GET', `/keys?offset=${offset}`)).json.data.map(
        (one: { hash: string }) => one.hash,
      )
    const pages = await Promise.all([0, 100, 200, 300].map(page))
    expect(pages.map(one => one.length)).toEqual([100, 100, 5, 0])
    expect(new Set(pages.flat()).size).toBe(205)
  })

  test.each([
    '?offset=-1',
    '?offset=x',
    '?include_disabled=maybe',
    '?workspace_id=x',
    '?workspace_id=11111111-1111-4111-8111-111111111111',
  ])('refuses %s', async query => {
    expect((await ask('GET', `/keys${query}`)).status).toBe(400)
  })
})

describe('a change', () => {
  test('changes only what it names', async () => {
    const { data } = await create({
      limit: 1,
      limit_reset: 'daily',
      expires_at: '2027-01-01T00:00:00Z',
    })
    clock.pass(5_000)
    const { status, json } = await ask('PATCH', `/keys/${data.hash}`, {
      body: { name: 'new', limit: 2.5 },
    })
    expect(status).toBe(200)
    expect(json.data).toEqual({
      ...data,
      name: 'new',
      limit: 2.5,
      limit_remaining: 2.5,
      updated_at: '2026-03-04T05:06:12.000Z',
    })
    expect(
      (await ask('PATCH', `/keys/${data.hash}`, { body: { limit: null, limit_reset: null } })).json
        .data,
    ).toMatchObject({
      limit: null,
      limit_reset: null,
    })
  })

  test('cannot change the identity of a key', async () => {
    const before = gateway.memory.keys.get(keys.hash)
    const body = {
      hash: 'x',
      kind: 'management',
      workspace_id: 'x',
      label: 'x',
      created_at: 'x',
      key: 'x',
    }
    await ask('PATCH', `/keys/${keys.hash}`, { body })
    expect({ ...gateway.memory.keys.get(keys.hash), updated_at: null }).toEqual({
      ...before,
      updated_at: null,
    } as never)
  })

  test('of a key that does not exist is a 404, and so is its deletion', async () => {
    for (const [method, body] of [
      ['PATCH', { name: 'x' }],
      ['DELETE', undefined],
      ['GET', undefined],
    ] as const)
      expect((await ask(method, '/keys/none', { body })).json.error).toMatchObject({
        code: 404,
        message: 'API key not found',
      })
  })

  test('that deletes a key confirms it, once', async () => {
    expect((await ask('DELETE', `/keys/${keys.hash}`)).json).toEqual({ deleted: true })
    expect((await ask('DELETE', `/keys/${keys.hash}`)).status).toBe(404)
    expect((await ask('GET', '/key', { key: keys.inference })).status).toBe(401)
  })

  test('keeps the effect of a simultaneous change', async () => {
    await Promise.all([
      updateKey(gateway, getOperator(gateway), keys.hash, { disabled: true }),
      updateKey(gateway, getOperator(gateway), keys.hash, { name: 'new' }),
    ])
    const [kept] = [...(await gateway.store.keys.all())].filter(key => key.hash === keys.hash)
    expect(kept).toMatchObject({ disabled: true, name: 'new' })
    expect(getKey(gateway, getOperator(gateway), keys.hash).data).toMatchObject({
      disabled: true,
      name: 'new',
    })
  })

  test('that deletes a key wins over a simultaneous change', async () => {
    await Promise.allSettled([
      updateKey(gateway, getOperator(gateway), keys.hash, { name: 'x' }),
      deleteKey(gateway, getOperator(gateway), keys.hash),
    ])
    expect(gateway.memory.keys.has(keys.hash)).toBe(false)
    const other = (await create()).data.hash
    await Promise.allSettled([
      deleteKey(gateway, getOperator(gateway), other),
      updateKey(gateway, getOperator(gateway), other, { name: 'x' }),
    ])
    expect(gateway.memory.keys.has(other)).toBe(false)
    const trail = await gateway.store.audit.listPage({ resource_id: other }, 0, 9)
    expect(trail.entries.map(({ action }) => action)).toEqual(['keys.delete', 'keys.create'])
  })
})

describe('next to another process', () => {
  let data: string
  let server: Gateway
  let terminal: Gateway

  beforeEach(async () => {
    data = mkdtempSync(join(tmpdir(), 'gateway-test-'))
    server = await openGateway({ data })
    terminal = await openGateway({ data })
  })

  afterEach(async () => {
    await Promise.all([server.close(), terminal.close()])
    rmSync(data, { recursive: true, force: true })
  })

  const made = (where: Gateway) => createKey(where, getOperator(where), { name: 'ci' })

  test('a change that it has just made is not undone by a process with older data', async () => {
    const { hash } = (await made(server)).data
    await terminal.catchUp()
    await updateKey(terminal, getOperator(terminal), hash, { disabled: true })
    await updateKey(server, getOperator(server), hash, { name: 'new' })
    await server.catchUp()
    expect(getKey(server, getOperator(server), hash).data).toMatchObject({
      disabled: true,
      name: 'new',
    })
  })

  test('a key created during a reload is not lost', async () => {
    for (let wait = 0; wait < 12; wait++) {
      await made(terminal)
      const catchingUp = server.catchUp()
      for (let i = 0; i < wait; i++) await Promise.resolve()
      const { data: own } = await made(server)
      await catchingUp
      expect([wait, server.memory.keys.has(own.hash)]).toEqual([wait, true])
    }
  })

  test('changes during a reload are kept: a key created, changed or deleted', async () => {
    const [changed, deleted] = [(await made(server)).data.hash, (await made(server)).data.hash]
    await made(terminal)
    const { all } = server.store.keys
    let own = ''
    server.store.keys.all = async () => {
      const read = await all()
      own = (await made(server)).data.hash
      await updateKey(server, getOperator(server), changed, { disabled: true })
      await deleteKey(server, getOperator(server), deleted)
      return read
    }
    expect(await server.catchUp()).toBe(true)
    expect([
      server.memory.keys.has(own),
      server.memory.keys.get(changed)?.disabled,
      server.memory.keys.has(deleted),
    ]).toEqual([true, true, false])
  })

  test('a key that it has just created is valid at once, for all requests', async () => {
    const { key } = await made(terminal)
    const asked = await Promise.allSettled(
      Array.from({ length: 5 }, () => identify(server, `Bearer ${key}`)),
    )
    expect(asked.map(one => one.status)).toEqual(Array(5).fill('fulfilled'))
  })

  test('a key that it has just created is found even if the first look-up failed', async () => {
    const { key } = await made(terminal)
    const { all } = server.store.keys
    server.store.keys.all = () => Promise.reject(new Error('database is locked'))
    await identify(server, `Bearer ${key}`).catch(() => undefined)
    server.store.keys.all = all
    expect((await identify(server, `Bearer ${key}`)).kind).toBe('inference')
  })
})

describe('storage', () => {
  test('X-15 the plaintext is in no file of the data directory', async () => {
    const data = mkdtempSync(join(tmpdir(), 'gateway-test-'))
    try {
      const real = await openGateway({ data })
      const { key } = await createKey(real, getOperator(real), {
        name: 'findable-name',
        external: { user: 'u', api_key: 'partner-secret-0123456789-0123456789' },
      })
      const bytes = () =>
        Buffer.concat(readdirSync(data).map(file => readFileSync(join(data, file))))
      for (const moment of ['open', 'closed']) {
        if (moment === 'closed') await real.close()
        expect(bytes().includes('findable-name')).toBe(true)
        expect(bytes().includes(key)).toBe(false)
        expect(bytes().includes(key.slice(6, 70))).toBe(false)
        expect(bytes().includes('partner-secret')).toBe(false)
      }
    } finally {
      rmSync(data, { recursive: true, force: true })
    }
  })

  test('a key is unchanged after the gateway is closed and opened again', async () => {
    const data = mkdtempSync(join(tmpdir(), 'gateway-test-'))
    try {
      const before = await openGateway({ data })
      const { data: record } = await createKey(before, getOperator(before), {
        name: 'ci',
        limit: 5.979018446,
        limit_reset: 'weekly',
        expires_at: '2099-01-01T00:00:00.5Z',
      })
      await before.close()
      const after = await openGateway({ data })
      expect(getKey(after, getOperator(after), record.hash).data).toEqual(record)
      expect((await listKeys(after, getOperator(after), {})).data).toEqual([record])
      await after.close()
    } finally {
      rmSync(data, { recursive: true, force: true })
    }
  })

  test('a deletion that the store refuses leaves the key valid', async () => {
    gateway.store.keys.remove = () => Promise.reject(new Error('disk full'))
    expect(
      await deleteKey(gateway, getOperator(gateway), keys.hash).catch(
        thrown => GatewayError.from(thrown).status,
      ),
    ).toBe(500)
    expect(gateway.memory.keys.has(keys.hash)).toBe(true)
  })
})

test.each([
  [{ limit: 1 }, { limit: null }],
  [{ disabled: true }, { disabled: false }],
  [{ limit: 1, include_byok_in_limit: true }, { include_byok_in_limit: false }],
])(
  'what bounds a member’s key, %j, is not undone by theirs at the same moment, %j',
  async (bound, loosening) => {
    const operator = getOperator(gateway)
    const { id } = await addMember(gateway, operator, { email: 'ada@acme.example' })
    const { data } = await create({ creator_user_id: id })
    const member = { ...operator, kind: 'member' as const, user_id: id }
    const [, undone] = await Promise.allSettled([
      updateKey(gateway, operator, data.hash, bound),
      updateKey(gateway, member, data.hash, loosening),
    ])
    expect(getKey(gateway, operator, data.hash).data).toMatchObject(bound)
    expect(undone).toMatchObject({ reason: { status: 403 } })
  },
)
