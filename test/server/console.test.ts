import { describe, expect, test } from 'bun:test'
import { listFeedback } from '../../src/observability/feedback.ts'
import { getOperator } from '../../src/resources/actor.ts'
import { rotateKey } from '../../src/resources/keys/rotation.ts'
import { createKey, updateKey } from '../../src/resources/keys.ts'
import { addMember, deactivateMember, updateMember } from '../../src/resources/members.ts'
import { createSignInLink, signIn } from '../../src/resources/sign-ins.ts'
import { addWorkspaceMembers } from '../../src/resources/workspace-members.ts'
import { createWorkspace } from '../../src/resources/workspaces.ts'
import { createApp } from '../../src/server/app.ts'
import { waitUntil } from '../support/chat.ts'
import { createTestKeys, TestClock, testGateway } from '../support/gateway.ts'
import { makeGeneration } from '../support/operations.ts'

const MARKED = { 'x-gateway-console': '1', 'sec-fetch-site': 'same-origin' }
const OWN_PAGE = { ...MARKED, origin: 'http://localhost:8080' }

interface Asked {
  body?: unknown
  headers?: Record<string, string>
  method?: string
  host?: string
}

/** Opens a gateway, and what asks it as the console's page in a browser does. */
async function openHouse(config: Record<string, unknown> = {}) {
  const clock = new TestClock()
  const gateway = await testGateway({ clock, config })
  const keys = await createTestKeys(gateway)
  const app = createApp(gateway)
  const operator = getOperator(gateway)
  const ask = async (path: string, { body, headers, method, host }: Asked = {}) => {
    const response = await app.handle(
      new Request(`http://${host ?? 'localhost:8080'}${path}`, {
        method: method ?? (body === undefined ? 'GET' : 'POST'),
        headers: {
          ...(body === undefined ? {} : { 'content-type': 'application/json' }),
          host: host ?? 'localhost:8080',
          ...headers,
        },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      }),
    )
    const text = await response.text()
    const json = response.headers.get('content-type')?.includes('json') ? JSON.parse(text) : null
    return { status: response.status, headers: response.headers, text, json }
  }
  const begin = (key: string, asked: Asked = {}) =>
    ask('/console/session', { body: { key }, ...asked, headers: { ...OWN_PAGE, ...asked.headers } })
  /** Signs in with a key, and returns what asks with the session. */
  const enter = async (key = keys.management) => as(readSecret(await begin(key)))
  const as = (secret: string) => {
    const cookie = `theme=dark; gateway_console=${secret}`
    return (path: string, asked: Asked = {}) =>
      ask(path, { ...asked, headers: { ...MARKED, cookie, ...asked.headers } })
  }
  /** Signs a new member in by a link. */
  const join = async (email: string, role?: 'org:admin') => {
    const member = await addMember(gateway, operator, { email, ...(role ? { role } : {}) })
    const { url } = (await createSignInLink(gateway, operator, member.id)).data
    const secret = await signIn(gateway, new URL(url).searchParams.get('token') ?? '')
    return { id: member.id, ask: as(secret) }
  }
  return {
    ...{ gateway, keys, operator, clock, ask, begin, enter, as, join },
    [Symbol.asyncDispose]: () => gateway.close(),
  }
}

const readSecret = ({ headers }: { headers: Headers }): string =>
  /^gateway_console=([^;]*);/.exec(headers.get('set-cookie') ?? '')?.[1] ?? ''

describe('the page', () => {
  test('runs what came with it, and nothing else', async () => {
    await using house = await openHouse()
    const page = await house.ask('/console')
    expect([page.status, page.headers.get('content-type')]).toEqual([
      ...[200, 'text/html; charset=utf-8'],
    ])
    const policy = page.headers.get('content-security-policy') ?? ''
    expect(policy).toStartWith("default-src 'none'; script-src 'self'; style-src 'self'")
    expect(policy).not.toContain('unsafe')
    expect(page.text).not.toMatch(
      /<script(?! type="module" src="\/console\/main\.js">)|<style|https?:/,
    )
    expect(page.text).toContain('<noscript>')
    for (const [part, type] of [
      ['main.js', 'text/javascript; charset=utf-8'],
      ['main.css', 'text/css; charset=utf-8'],
    ] as const) {
      const { status, headers } = await house.ask(`/console/${part}`)
      expect([status, headers.get('content-type'), headers.get('content-encoding')]).toEqual([
        ...[200, type, 'gzip'],
      ])
      const known = { 'if-none-match': headers.get('etag') ?? '' }
      expect((await house.ask(`/console/${part}`, { headers: known })).status).toBe(304)
    }
  })

  test.each(['main.tsx', '..%2Fmain.js', 'constructor', '__proto__'])('has no %s', async part => {
    await using house = await openHouse()
    expect((await house.ask(`/console/${part}`)).status).toBe(404)
  })

  test('is nowhere where the config has none, and no session counts', async () => {
    await using house = await openHouse()
    const ask = await house.enter()
    const { config } = house.gateway
    house.gateway.config = { ...config, server: { ...config.server, console: false } }
    for (const path of ['/console', '/console/main.js', '/console/session', '/console/sessions'])
      expect((await ask(path)).status).toBe(404)
    expect((await house.begin(house.keys.management)).status).toBe(404)
    expect((await ask('/api/v1/keys')).status).toBe(401)
  })
})

describe('a session of a management key', () => {
  test('asks what the key may, until it ends', async () => {
    await using house = await openHouse()
    const begun = await house.begin(house.keys.management)
    expect(begun.status).toBe(200)
    const cookie = begun.headers.get('set-cookie') ?? ''
    expect(cookie).toMatch(
      /^gateway_console=gw-session-v1-\w+; Path=\/; Max-Age=43200; HttpOnly; SameSite=Strict$/,
    )
    expect(cookie).not.toContain(house.keys.management)
    const ask = house.as(readSecret(begun))
    const { json } = await ask('/console/session')
    expect(json.data.session).toMatchObject({ role: 'manager', name: 'management' })
    expect((await ask('/api/v1/keys')).json.data).toHaveLength(2)
    const made = await ask('/api/v1/keys', { body: { name: 'made' } })
    expect(made.status).toBe(201)
    const { data: audit } = (await ask('/api/v1/audit')).json
    expect(audit[0]).toMatchObject({ action: 'keys.create', actor: 'management' })
    house.clock.pass(12 * 3_600_000)
    expect((await ask('/api/v1/keys')).status).toBe(401)
  })

  test('over https has a cookie that only this host gets', async () => {
    await using house = await openHouse({ server: { site_url: 'https://gateway.example' } })
    const headers = { origin: 'https://gateway.example' }
    const begun = await house.begin(house.keys.management, { headers, host: 'gateway.example' })
    expect(begun.headers.get('set-cookie')).toMatch(
      /^__Host-gateway_console=\S+; Path=\/; .*HttpOnly; SameSite=Strict; Secure$/,
    )
  })

  test.each([
    ['no mark of the page', { 'x-gateway-console': '' }],
    ['another site', { 'sec-fetch-site': 'cross-site' }],
    ['another address of the site', { 'sec-fetch-site': 'same-site' }],
    ['a key that is wrong', { authorization: 'Bearer gw-v1-wrong' }],
    ['another cookie', { cookie: 'gateway_session=x' }],
    ['a made-up secret', { cookie: `gateway_console=gw-session-v1-${'0'.repeat(64)}` }],
  ])('does not count with %s', async (_, headers) => {
    await using house = await openHouse()
    const ask = await house.enter()
    const given = Object.entries({ ...MARKED, ...headers }).filter(([, value]) => value !== '')
    const { cookie = '' } = headers as { cookie?: string }
    const secret = readSecret(await house.begin(house.keys.management))
    const bare = { cookie: cookie || `gateway_console=${secret}`, ...Object.fromEntries(given) }
    expect((await house.ask('/api/v1/keys', { headers: bare })).status).toBe(401)
    expect((await ask('/api/v1/keys')).status).toBe(200)
  })

  test.each([
    ['a key for inference', 'inference', {}, 403],
    ['a key that nobody has', 'nobody', {}, 401],
    ['a form of another site', 'management', { origin: 'https://evil.example' }, 403],
    ['a request that no page of its own sent', 'management', { 'sec-fetch-site': 'none' }, 403],
  ] as const)('is not begun by %s', async (_, name, headers, status) => {
    await using house = await openHouse()
    const keys: Record<string, string> = { ...house.keys, nobody: 'gw-v1-nobody' }
    const begun = await house.begin(keys[name] ?? '', { headers })
    expect([begun.status, begun.headers.get('set-cookie')]).toEqual([status, null])
  })

  test('is not begun over a network in plain text', async () => {
    await using house = await openHouse()
    const headers = { origin: 'http://10.0.0.7:8080' }
    const begun = await house.begin(house.keys.management, { host: '10.0.0.7:8080', headers })
    expect([begun.status, begun.headers.get('set-cookie')]).toEqual([403, null])
    expect(begun.json.error.message).toContain('https')
  })

  test('makes no calls, but has them explained', async () => {
    await using house = await openHouse()
    const ask = await house.enter()
    const body = { model: 'sandbox/echo', messages: [{ role: 'user', content: 'Hi' }] }
    for (const path of ['messages', 'batches', 'moderations'])
      expect([path, (await ask(`/api/v1/${path}`, { body })).status]).toEqual([path, 401])
    const chat = '/api/v1/chat/completions'
    expect((await ask(chat, { body })).status).toBe(403)
    const debug = { dry_run: true, key: house.keys.hash }
    const explained = await ask(chat, { body: { ...body, debug } })
    expect(explained.json).toMatchObject({ models: ['sandbox/echo'], error: null })
    const ada = await house.join('ada@acme.example')
    expect((await ada.ask(chat, { body: { ...body, debug } })).status).toBe(403)
    expect((await ada.ask(chat, { body })).status).toBe(403)
  })

  test('ends with its key, at once', async () => {
    await using house = await openHouse()
    const { gateway, operator } = house
    const made = await createKey(gateway, operator, { name: 'short' }, 'management')
    const ask = await house.enter(made.key)
    expect((await ask('/api/v1/keys')).status).toBe(200)
    await updateKey(gateway, operator, made.data.hash, { disabled: true })
    expect((await ask('/api/v1/keys')).status).toBe(401)
    expect((await ask('/console/session')).json.data.session).toBeNull()
  })

  test('ends with the secret that it was begun with', async () => {
    await using house = await openHouse()
    const { gateway, operator, clock } = house
    const made = await createKey(gateway, operator, { name: 'leaked' }, 'management')
    const rotate = async (overlap_seconds: number) =>
      (await rotateKey(gateway, operator, made.data.hash, { overlap_seconds })).key
    const isOver = async (ask: typeof house.ask) => (await ask('/api/v1/keys')).status === 401
    const first = await house.enter(made.key)
    const next = await rotate(60)
    const [late, second] = [await house.enter(made.key), await house.enter(next)]
    clock.pass(59_999)
    expect(await Promise.all([first, late, second].map(isOver))).toEqual([false, false, false])
    clock.pass(1)
    expect(await Promise.all([first, late, second].map(isOver))).toEqual([true, true, false])
    const [begun] = await Promise.all([house.begin(next), rotate(0)])
    expect(await Promise.all([second, house.as(readSecret(begun))].map(isOver))).toEqual([
      ...[true, true],
    ])
  })

  test('ends the oldest of a hundred for one more, also of many begun at once', async () => {
    await using house = await openHouse()
    const oldest = await house.enter()
    const asks = []
    for (let i = 0; i < 99; i++) {
      house.clock.pass(1)
      asks.push(await house.enter())
    }
    expect((await oldest('/api/v1/keys')).status).toBe(200)
    house.clock.pass(1)
    const newest = await house.enter()
    const states = [oldest, asks[0], newest].map(async ask => (await ask?.('/api/v1/keys'))?.status)
    expect(await Promise.all(states)).toEqual([401, 200, 200])
    expect((await newest('/console/sessions')).json.data).toHaveLength(100)
    house.clock.pass(1)
    const [last = newest] = await Promise.all(Array.from({ length: 5 }, () => house.enter()))
    expect((await last('/console/sessions')).json.data).toHaveLength(100)
  })

  test('is listed and ended by whoever has the key, and by nobody else', async () => {
    await using house = await openHouse()
    const [first, second] = [await house.enter(), await house.enter()]
    const other = await createKey(house.gateway, house.operator, { name: 'other' }, 'management')
    const stranger = await house.enter(other.key)
    const { data } = (await first('/console/sessions')).json
    expect(data.map(({ is_current }: { is_current: boolean }) => is_current).toSorted()).toEqual([
      ...[false, true],
    ])
    const { id } = data.find(({ is_current }: { is_current: boolean }) => !is_current)
    const path = `/console/sessions/${id}`
    expect((await stranger(path, { method: 'DELETE' })).status).toBe(404)
    expect((await second('/api/v1/keys')).status).toBe(200)
    expect((await first(path, { method: 'DELETE' })).status).toBe(200)
    expect((await second('/api/v1/keys')).status).toBe(401)
    const out = await first('/console/session', { method: 'DELETE' })
    expect(out.headers.get('set-cookie')).toStartWith('gateway_console=; Path=/; Max-Age=0;')
    expect((await first('/api/v1/keys')).status).toBe(401)
  })
})

describe('a member', () => {
  test('who manages the organization may what its management keys may', async () => {
    await using house = await openHouse()
    const admin = await house.join('admin@acme.example', 'org:admin')
    const { session } = (await admin.ask('/console/session')).json.data
    expect(session).toMatchObject({ role: 'manager', name: 'admin@acme.example' })
    expect((await admin.ask('/api/v1/guardrails')).status).toBe(200)
    const made = await admin.ask('/api/v1/guardrails', { body: { name: 'theirs' } })
    expect(made.status).toBe(201)
    await updateMember(house.gateway, house.operator, admin.id, { role: 'org:member' })
    expect((await admin.ask('/api/v1/guardrails')).status).toBe(403)
  })

  test('who manages says of a call what they think, and others what they do', async () => {
    await using house = await openHouse()
    const { gateway, operator } = house
    const generation_id = await makeGeneration(gateway, operator)
    const managers = [await house.join('ada@acme.example', 'org:admin')]
    managers.push(await house.join('bob@acme.example', 'org:admin'))
    for (const { ask, id } of managers) {
      const body = { generation_id, category: 'other', comment: id }
      expect((await ask('/api/v1/generation/feedback', { body })).status).toBe(200)
    }
    const { data } = await listFeedback(gateway, operator, generation_id)
    expect(
      data.map(({ key_hash, user_id, comment }) => [key_hash, user_id, comment]).sort(),
    ).toEqual(managers.map(({ id }) => ['', id, id]).sort())
  })

  test('makes keys in the workspaces they are in, and sees, changes and deletes their own', async () => {
    await using house = await openHouse()
    const { gateway, operator } = house
    const [ada, bob] = [await house.join('ada@acme.example'), await house.join('bob@acme.example')]
    const team = await createWorkspace(gateway, operator, { name: 'Team', slug: 'team' })
    const theirs = await createWorkspace(gateway, operator, { name: 'Theirs', slug: 'theirs' })
    await addWorkspaceMembers(gateway, operator, team.data.id, { user_ids: [ada.id] })
    const { workspaces } = (await ada.ask('/console/session')).json.data.session
    expect(workspaces.map(({ name }: { name: string }) => name)).toEqual(['Default', 'Team'])

    const make = (body: object) => ada.ask('/api/v1/keys', { body: { name: 'mine', ...body } })
    const made = await make({ limit: 5, limit_reset: 'monthly' })
    expect([made.status, made.json.data.creator_user_id]).toEqual([201, ada.id])
    const inTeam = await make({ workspace_id: team.data.id, creator_user_id: ada.id })
    expect([inTeam.status, inTeam.json.data.workspace_id]).toEqual([201, team.data.id])
    expect((await make({ workspace_id: theirs.data.id })).status).toBe(400)
    expect((await make({ creator_user_id: bob.id })).status).toBe(400)
    expect((await make({ external: { user: 'x' } })).status).toBe(403)
    const listed = (await ada.ask('/api/v1/keys')).json.data
    expect(listed.map(({ hash }: { hash: string }) => hash).toSorted()).toEqual(
      [made.json.data.hash, inTeam.json.data.hash].toSorted(),
    )
    const ofTeam = await ada.ask(`/api/v1/keys?workspace_id=${team.data.id}`)
    expect(ofTeam.json.data).toHaveLength(1)
    expect((await bob.ask('/api/v1/keys')).json.data).toEqual([])

    const path = `/api/v1/keys/${made.json.data.hash}`
    for (const asked of [
      {},
      { method: 'PATCH', body: { name: 'his' } },
      { body: { overlap_seconds: 0 } },
      { method: 'DELETE' },
    ]) {
      const where = asked.body && !('method' in asked) ? `${path}/rotate` : path
      expect((await bob.ask(where, asked)).status).toBe(404)
    }
    const foreign = `/api/v1/keys/${house.keys.hash}`
    expect((await ada.ask(foreign)).status).toBe(404)
    const rotated = await ada.ask(`${path}/rotate`, { body: { overlap_seconds: 0 } })
    expect([rotated.status, rotated.json.key === made.json.key]).toEqual([200, false])
    expect((await ada.ask(path, { method: 'DELETE' })).status).toBe(200)
  })

  test('has a thousand keys at most, also of many at once and of apps', async () => {
    await using house = await openHouse()
    const { gateway, operator } = house
    const ada = await house.join('ada@acme.example')
    for (let i = 0; i < 999; i++)
      await createKey(gateway, operator, { name: `${i}`, creator_user_id: ada.id })
    const make = () => ada.ask('/api/v1/keys', { body: { name: 'one more' } })
    const answers = await Promise.all(Array.from({ length: 5 }, make))
    const [made, ...others] = answers.toSorted((a, b) => a.status - b.status)
    expect(made?.status).toBe(201)
    expect(others.map(({ status, json }) => [status, json.error.message])).toEqual(
      Array(4).fill([403, 'You have 1000 keys: delete one first']),
    )
    const last = await ada.ask('/api/v1/keys?offset=900')
    expect([last.status, last.json.data.length]).toEqual([200, 100])

    const exchange = async () => {
      const headers = { authorization: `Bearer ${made?.json.key}` }
      const body = { callback_url: 'https://app.example/' }
      const code = (await house.ask('/api/v1/auth/keys/code', { headers, body })).json.data.id
      return (await house.ask('/api/v1/auth/keys', { body: { code } })).status
    }
    expect(await exchange()).toBe(403)
    // Who manages all makes them for anyone.
    await updateMember(gateway, operator, ada.id, { role: 'org:admin' })
    expect(await exchange()).toBe(200)
  })

  test('can bound a key, but not loosen what bounds it', async () => {
    await using house = await openHouse()
    const { gateway, operator } = house
    const ada = await house.join('ada@acme.example')
    const { data } = await createKey(gateway, operator, {
      ...{ name: 'given', creator_user_id: ada.id, limit: 5, limit_reset: 'monthly' },
      include_byok_in_limit: true,
    })
    const path = `/api/v1/keys/${data.hash}`
    const change = async (body: object) => (await ada.ask(path, { method: 'PATCH', body })).status
    for (const body of [
      ...[{ limit: 6 }, { limit: null }, { limit_reset: 'daily' }, { limit_reset: null }],
      { include_byok_in_limit: false },
    ])
      expect(await change(body)).toBe(403)
    for (const body of [{ limit: 4 }, { name: 'mine' }, { limit_reset: 'monthly' }])
      expect(await change(body)).toBe(200)
    expect(await change({ disabled: true })).toBe(200)
    expect(await change({ disabled: false })).toBe(403)
    expect((await ada.ask(path)).json.data).toMatchObject({
      ...{ name: 'mine', limit: 4, limit_reset: 'monthly', disabled: true },
    })
  })

  test('sees what their own keys have called and spent, and no other', async () => {
    await using house = await openHouse()
    const [ada, bob] = [await house.join('ada@acme.example'), await house.join('bob@acme.example')]
    const call = async (ask: typeof ada.ask) => {
      const { json } = await ask('/api/v1/keys', { body: { name: 'mine' } })
      const body = { model: 'sandbox/echo', messages: [{ role: 'user', content: 'Hi' }] }
      const headers = { authorization: `Bearer ${json.key}` }
      const answer = await house.ask('/api/v1/chat/completions', { body, headers })
      return answer.json.id as string
    }
    const [hers, his] = [await call(ada.ask), await call(bob.ask)]
    expect((await ada.ask(`/api/v1/generation?id=${hers}`)).status).toBe(200)
    expect((await ada.ask(`/api/v1/generation?id=${his}`)).status).toBe(404)
    house.clock.pass(60_000)
    const body = { metrics: ['request_count'], dimensions: ['user'] }
    const sums = await ada.ask('/api/v1/analytics/query', { body })
    expect(sums.json.data.data).toEqual([{ user: ada.id, request_count: 1 }])
    const named = { field: 'user', operator: 'eq', value: bob.id }
    const asked = await ada.ask('/api/v1/analytics/query', { body: { ...body, filters: [named] } })
    expect(asked.json.data.data).toEqual([])
    const feed = await ada.ask('/api/v1/activity/stream?past=10&limit=2')
    expect(feed.status).toBe(200)
    const entries = feed.text
      .split('\n')
      .flatMap(line => (line.startsWith('data: ') ? [JSON.parse(line.slice(6))] : []))
    expect(entries.map(({ type, id }) => [type, id])).toEqual([
      ['listening', undefined],
      ['call.finished', hers],
    ])
  })

  test.each([
    'guardrails',
    'workspaces',
    'organization/members',
    'byok',
    'audit',
    'alerts',
    'activity',
    'observability/destinations',
    'presets',
    'credits',
    'files',
    'key',
    'datasets/app-rankings',
  ])('is refused at %s', async path => {
    await using house = await openHouse()
    const ada = await house.join('ada@acme.example')
    expect((await ada.ask(`/api/v1/${path}`)).status).toBe(403)
  })

  test('who has left reads no feed any more, nor does a key that is disabled', async () => {
    await using house = await openHouse()
    const { gateway, operator } = house
    const admin = await house.join('admin@acme.example', 'org:admin')
    const made = await createKey(gateway, operator, { name: 'short' }, 'management')
    const key = { headers: { authorization: `Bearer ${made.key}` } }
    const feed = '/api/v1/activity/stream'
    const feeds = [admin.ask(feed), house.ask(feed, key)]
    await waitUntil(() => gateway.activity.size === 2)
    await deactivateMember(gateway, operator, admin.id)
    await updateKey(gateway, operator, made.data.hash, { disabled: true })
    house.clock.pass(1_000)
    gateway.activity.tick()
    for (const { status, text } of await Promise.all(feeds))
      expect([status, text.includes('"listening"')]).toEqual([200, true])
    expect(gateway.activity.size).toBe(0)
  })

  test('who has left has no session any more', async () => {
    await using house = await openHouse()
    const ada = await house.join('ada@acme.example')
    expect((await ada.ask('/api/v1/keys')).status).toBe(200)
    await deactivateMember(house.gateway, house.operator, ada.id)
    expect((await ada.ask('/api/v1/keys')).status).toBe(401)
    expect((await ada.ask('/console/session')).json.data.session).toBeNull()
    await updateMember(house.gateway, house.operator, ada.id, { active: true })
    expect((await ada.ask('/api/v1/keys')).status).toBe(401)
  })
})

describe('at a host of its own', () => {
  const server = { site_url: 'https://api.example', console_host: 'console.example' }
  const there = { host: 'console.example', headers: { origin: 'https://console.example' } }

  /** Opens a gateway with such a host, and signs in there with a key. */
  async function openConsole() {
    const house = await openHouse({ server })
    const begun = await house.begin(house.keys.management, there)
    const [cookie = ''] = (begun.headers.get('set-cookie') ?? '').split(';')
    return { house, begun, cookie }
  }

  test('is there alone, as are its sessions', async () => {
    const { house, begun, cookie } = await openConsole()
    await using _ = house
    expect([begun.status, begun.headers.get('set-cookie')]).toEqual([
      ...[200, expect.stringMatching(/^__Host-gateway_console=gw-session-v1-\w+; .*; Secure$/)],
    ])
    const headers = { ...MARKED, cookie }
    for (const host of ['console.example', 'console.example:443', 'CONSOLE.example']) {
      expect((await house.ask('/console', { host })).status).toBe(200)
      expect((await house.ask('/console/sessions', { host, headers })).json.data).toHaveLength(1)
      expect((await house.ask('/api/v1/keys', { host, headers })).status).toBe(200)
    }
    for (const host of ['api.example', 'console.example:8443', 'console.example.evil.example']) {
      for (const path of ['/console', '/console/main.js', '/console/session', '/console/sessions'])
        expect((await house.ask(path, { host, headers })).status).toBe(404)
      expect((await house.ask('/api/v1/keys', { host, headers })).status).toBe(401)
      expect((await house.begin(house.keys.management, { ...there, host })).status).toBe(404)
    }
    const key = { headers: { authorization: `Bearer ${house.keys.management}` } }
    for (const host of ['api.example', 'console.example'])
      expect((await house.ask('/api/v1/keys', { host, ...key })).status).toBe(200)
  })

  test('takes no form of the API’s pages', async () => {
    await using house = await openHouse({ server })
    const headers = { origin: 'https://api.example', 'sec-fetch-site': 'same-site' }
    for (const other of [headers, { origin: 'https://api.example' }])
      expect((await house.begin(house.keys.management, { ...there, headers: other })).status).toBe(
        403,
      )
  })

  test('has all pages of sign-in, and the API’s host leads there', async () => {
    await using house = await openHouse({ server })
    const { url } = (
      await createSignInLink(
        house.gateway,
        house.operator,
        (
          await house.join('ada@acme.example')
        ).id,
      )
    ).data
    const { origin, pathname, search } = new URL(url)
    expect(origin).toBe('https://console.example')
    const led = await house.ask(`${pathname}${search}`, { host: 'api.example' })
    expect([led.status, led.headers.get('location')]).toEqual([303, url])
    expect((await house.ask(`${pathname}${search}`, { host: 'console.example' })).status).toBe(200)
    const away = await house.ask('/auth//evil.example', { host: 'api.example' })
    expect(away.status).toBe(404)
    for (const path of ['/auth', '/auth/sign-in', '/auth/sign-out'])
      expect((await house.ask(path, { host: 'api.example', method: 'POST' })).status).toBe(404)
  })
})
