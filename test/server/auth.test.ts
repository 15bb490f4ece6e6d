import { describe, expect, test } from 'bun:test'
import { examineGateway } from '../../src/app/doctor.ts'
import { assignKeys } from '../../src/limits/assignments.ts'
import { createGuardrail } from '../../src/limits/guardrails.ts'
import { getOperator } from '../../src/resources/actor.ts'
import { createKey, deleteKey, updateKey } from '../../src/resources/keys.ts'
import { addMember, deactivateMember, updateMember } from '../../src/resources/members.ts'
import { createSignInLink, findSessionMember, signIn } from '../../src/resources/sign-ins.ts'
import { addWorkspaceMembers } from '../../src/resources/workspace-members.ts'
import { createWorkspace } from '../../src/resources/workspaces.ts'
import { createApp } from '../../src/server/app.ts'
import { createTestKeys, TestClock, testGateway } from '../support/gateway.ts'

// The example of RFC 7636, appendix B.
const VERIFIER = 'dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk'
const CHALLENGE = 'E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM'
const S256 = { code_challenge: CHALLENGE, code_challenge_method: 'S256' }
const CALLBACK = 'https://app.example/callback?from=here'
const MINUTE = 60_000

/** Opens a gateway with a member, and a browser that keeps its cookie. */
async function openHouse(config: Record<string, unknown> = {}) {
  const clock = new TestClock()
  const gateway = await testGateway({ clock, config })
  const keys = await createTestKeys(gateway)
  const app = createApp(gateway)
  const operator = getOperator(gateway)
  const member = await addMember(gateway, operator, { email: 'ada@acme.example' })
  const { workspace_id } = gateway.memory.owner
  const ask = async (path: string, body?: unknown, key: string | null = keys.inference) => {
    const response = await app.handle(
      new Request(`http://localhost/api/v1${path}`, {
        method: body ? 'POST' : 'GET',
        headers: {
          'content-type': 'application/json',
          ...(key ? { authorization: `Bearer ${key}` } : {}),
        },
        ...(body ? { body: JSON.stringify(body) } : {}),
      }),
    )
    return { status: response.status, json: await response.json() }
  }
  const make = (body: object = {}, key?: string) =>
    ask('/auth/keys/code', { callback_url: CALLBACK, ...body }, key)
  const exchange = (code: string, body: object = {}) => ask('/auth/keys', { code, ...body }, null)
  return {
    ...{ gateway, keys, operator, member, clock, workspace_id, ask, make, exchange, app },
    browser: new TestBrowser(app),
    [Symbol.asyncDispose]: () => gateway.close(),
  }
}

/** Visits pages and sends their forms, as a browser does. */
class TestBrowser {
  cookie = ''
  readonly #app: ReturnType<typeof createApp>

  constructor(app: ReturnType<typeof createApp>) {
    this.#app = app
  }

  async visit(path: string, init: RequestInit = {}) {
    const headers = { host: 'localhost:8080', cookie: this.cookie, ...init.headers }
    const response = await this.#app.handle(
      new Request(`http://localhost:8080${path}`, { ...init, headers }),
    )
    const cookie = response.headers.get('set-cookie')
    if (cookie) this.cookie = cookie.split(';')[0] ?? ''
    const text = await response.text()
    return { status: response.status, headers: response.headers, text, form: readForm(text) }
  }

  send(path: string, form: Record<string, string>, headers: Record<string, string> = {}) {
    const own = {
      'content-type': 'application/x-www-form-urlencoded',
      origin: 'http://localhost:8080',
      'sec-fetch-site': 'same-origin',
    }
    const body = new URLSearchParams(form).toString()
    return this.visit(path, { method: 'POST', body, headers: { ...own, ...headers } })
  }

  async signIn(house: { gateway: Parameters<typeof createSignInLink>[0] }, id: string) {
    const operator = getOperator(house.gateway)
    const { url } = (await createSignInLink(house.gateway, operator, id)).data
    const page = await this.visit(new URL(url).pathname + new URL(url).search)
    expect(page.status).toBe(200)
    return this.send('/auth/sign-in', page.form)
  }
}

const readForm = (html: string): Record<string, string> =>
  Object.fromEntries(
    [...html.matchAll(/<input type="hidden" name="(\w+)" value="([^"]*)">/g)].map(
      ([, name = '', value = '']) => [name, value.replaceAll('&amp;', '&')],
    ),
  )

const toQuery = (fields: Record<string, string>) => `/auth?${new URLSearchParams(fields)}`

describe('a code of a key', () => {
  test('is exchanged once for a key of the same user and workspace', async () => {
    await using house = await openHouse()
    const limits = { limit: 2.5, usage_limit_type: 'daily', expires_at: '2027-01-01T00:00:00Z' }
    const { status, json } = await house.make({ ...S256, ...limits, key_label: 'My app' })
    expect([status, typeof json.data.app_id]).toEqual([200, 'number'])
    expect(json.data.created_at).toBe(house.clock.now().toISOString())
    const code = json.data.id
    const exchanged = await house.exchange(code, { code_verifier: VERIFIER })
    expect(exchanged.status).toBe(200)
    const key = await house.ask('/key', undefined, exchanged.json.key)
    expect(key.json.data).toMatchObject({
      ...{ limit: 2.5, limit_reset: 'daily', is_management_key: false },
      expires_at: limits.expires_at,
      creator_user_id: exchanged.json.user_id,
    })
    const again = await house.exchange(code, { code_verifier: VERIFIER })
    expect([again.status, again.json.error.message]).toEqual([403, 'Invalid code or code_verifier'])
  })

  test('of two apps that come at once, one gets the key', async () => {
    await using house = await openHouse()
    const code = (await house.make(S256)).json.data.id
    const body = { code_verifier: VERIFIER, code_challenge_method: 'S256' }
    const both = await Promise.all([house.exchange(code, body), house.exchange(code, body)])
    expect(both.map(({ status }) => status).sort()).toEqual([200, 403])
    expect(house.gateway.memory.keys.size).toBe(3)
  })

  test('may have a plain challenge, or none', async () => {
    await using house = await openHouse()
    const plain = { code_challenge: VERIFIER, code_challenge_method: 'plain' }
    for (const [challenge, verifier] of [
      [plain, { code_verifier: VERIFIER, code_challenge_method: 'plain' }],
      [{ code_challenge: VERIFIER }, { code_verifier: VERIFIER }],
      [{}, {}],
    ] as const) {
      const code = (await house.make(challenge)).json.data.id
      expect((await house.exchange(code, verifier)).status).toBe(200)
    }
  })

  test.each<[string, object, object, number]>([
    ['a wrong verifier', S256, { code_verifier: 'x'.repeat(43) }, 403],
    ['the challenge as the verifier', S256, { code_verifier: CHALLENGE }, 403],
    ['no verifier', S256, {}, 403],
    ['a verifier without a challenge', {}, { code_verifier: VERIFIER }, 403],
    ['another method', S256, { code_verifier: CHALLENGE, code_challenge_method: 'plain' }, 400],
  ])('is used up by %s', async (_, challenge, body, status) => {
    await using house = await openHouse()
    const code = (await house.make(challenge)).json.data.id
    expect((await house.exchange(code, body)).status).toBe(status)
    expect((await house.exchange(code, { code_verifier: VERIFIER })).status).toBe(403)
    expect(house.gateway.memory.keys.size).toBe(2)
  })

  test('is over after ten minutes, and nothing else is a code', async () => {
    await using house = await openHouse()
    const code = (await house.make()).json.data.id
    house.clock.pass(10 * MINUTE)
    const statuses = [code, 'gw-code-v1-forged', `${code}0`, house.keys.inference].map(
      async one => (await house.exchange(one)).status,
    )
    expect(await Promise.all(statuses)).toEqual([403, 403, 403, 403])
    expect((await house.exchange('')).status).toBe(400)
  })

  test.each<[object, number]>([
    [{ callback_url: 'http://app.example/' }, 400],
    [{ callback_url: 'javascript:alert(1)' }, 400],
    [{ callback_url: 'https://user:secret@app.example/' }, 400],
    [{ callback_url: 'https://app.example/#part' }, 400],
    [{ callback_url: 'http://localhost.example/' }, 400],
    [{ callback_url: 'app://callback' }, 400],
    [{ callback_url: 'http://localhost:3000/callback' }, 200],
    [{ callback_url: 'http://127.0.0.1:9/callback' }, 200],
    [{ code_challenge_method: 'S256' }, 400],
    [{ code_challenge: 'short' }, 400],
    [{ ...S256, code_challenge_method: 'md5' }, 400],
    [{ limit: -1 }, 400],
    [{ limit: 'lots' }, 400],
    [{ usage_limit_type: 'daily' }, 400],
    [{ usage_limit_type: 'hourly', limit: 1 }, 400],
    [{ expires_at: '2020-01-01T00:00:00Z' }, 400],
    [{ key_label: 'x'.repeat(101) }, 400],
    [{ spawn_agent: 'x' }, 400],
    [{ spawn_cloud: 'x' }, 400],
    [{ workspace_id: '00000000-0000-7000-8000-0000000000ff' }, 400],
  ])('with %j answers %i', async (body, status) => {
    await using house = await openHouse()
    expect((await house.make(body)).status).toBe(status)
  })

  test('cannot be made by a key that something binds, or exchanged once it is bound', async () => {
    await using house = await openHouse()
    const { gateway, operator } = house
    const status = async (key: string) => (await house.make({}, key)).status
    const limited = await createKey(gateway, operator, { name: 'limited', limit: 1 })
    const short = await createKey(gateway, operator, {
      name: 'short',
      expires_at: '2027-01-01T00:00:00Z',
    })
    const guarded = await createKey(gateway, operator, { name: 'guarded' })
    const { data } = await createGuardrail(gateway, operator, { name: 'Rules' })
    await assignKeys(gateway, operator, data.id, { key_hashes: [guarded.data.hash] })
    const keys = [limited.key, short.key, guarded.key, house.keys.management]
    expect(await Promise.all(keys.map(status))).toEqual([403, 403, 403, 403])
    const free = await createKey(gateway, operator, { name: 'free' })
    const make = async () => (await house.make({}, free.key)).json.data.id
    const [first, second, third] = [await make(), await make(), await make()]
    await updateKey(gateway, operator, free.data.hash, { limit: 1 })
    expect((await house.exchange(first)).status).toBe(403)
    await updateKey(gateway, operator, free.data.hash, { limit: null })
    expect((await house.exchange(second)).status).toBe(200)
    await deleteKey(gateway, operator, free.data.hash)
    expect((await house.exchange(third)).status).toBe(403)
  })

  test('is not exchanged by a key that is gone or bound when the new one is made', async () => {
    await using house = await openHouse()
    const { gateway, operator } = house
    const { data } = await createGuardrail(gateway, operator, { name: 'Rules' })
    const { insert } = gateway.store.keys
    for (const bind of [
      (hash: string) => deleteKey(gateway, operator, hash),
      (hash: string) => updateKey(gateway, operator, hash, { limit: 1 }),
      (hash: string) => updateKey(gateway, operator, hash, { disabled: true }),
      (hash: string) => assignKeys(gateway, operator, data.id, { key_hashes: [hash] }),
    ]) {
      const made = await createKey(gateway, operator, { name: 'free' })
      const code = (await house.make({}, made.key)).json.data.id
      gateway.store.keys.insert = async (...asked) => {
        await bind(made.data.hash)
        return insert(...asked)
      }
      expect((await house.exchange(code)).status).toBe(403)
      gateway.store.keys.insert = insert
    }
  })

  test('waits with at most 99 others of its key, and apps get none where that is switched off', async () => {
    await using house = await openHouse()
    for (let i = 0; i < 100; i++) expect((await house.make()).status).toBe(200)
    expect((await house.make()).status).toBe(409)
    const other = await createKey(house.gateway, house.operator, { name: 'other' })
    expect((await house.make({}, other.key)).status).toBe(200)
    house.clock.pass(10 * MINUTE)
    expect((await house.make()).status).toBe(200)
    await using closed = await openHouse({ oauth: { enabled: false } })
    expect((await closed.make()).status).toBe(403)
    expect((await closed.exchange('x')).status).toBe(403)
    expect((await closed.browser.visit(toQuery({ callback_url: CALLBACK }))).status).toBe(403)
  })

  test('is sealed: one that another program adds or changes is found', async () => {
    await using house = await openHouse()
    await house.make()
    expect((await examineGateway(house.gateway)).data.filter(({ ok }) => !ok)).toEqual([])
  })
})

describe('the page of consent', () => {
  test('gives the app a code for a key of the member, with the limit they choose', async () => {
    await using house = await openHouse()
    const { browser, member } = house
    const asked = { callback_url: CALLBACK, ...S256, key_label: 'My <app>' }
    expect((await browser.visit(toQuery(asked))).text).toContain('gateway members link')
    await browser.signIn(house, member.id)
    const page = await browser.visit(toQuery(asked))
    expect(page.text).toContain('My &lt;app&gt;')
    expect(page.text).toContain('<code>https://app.example</code>')
    expect(page.headers.get('x-frame-options')).toBe('DENY')
    const policy = page.headers.get('content-security-policy')
    expect(policy).toContain("frame-ancestors 'none'")
    expect(policy).toContain("form-action 'self' https://app.example;")
    const { workspace_id } = house
    const decision = { ...page.form, key_label: 'My <app>', workspace_id, limit: '2.50' }
    const answer = await browser.send('/auth', { ...decision, decision: 'allow' })
    expect(answer.status).toBe(303)
    const to = new URL(answer.headers.get('location') ?? '')
    expect([to.origin, to.pathname, to.searchParams.get('from')]).toEqual([
      ...['https://app.example', '/callback', 'here'],
    ])
    const code = to.searchParams.get('code') ?? ''
    const { json } = await house.exchange(code, { code_verifier: VERIFIER })
    expect(json.user_id).toBe(member.id)
    const key = (await house.ask('/key', undefined, json.key)).json.data
    expect(key).toMatchObject({ limit: 2.5, creator_user_id: member.id })
    const refused = await browser.send('/auth', { ...decision, decision: 'deny' })
    expect(refused.headers.get('location')).toBe(`${CALLBACK}&error=access_denied`)
  })

  test('shows the code to apps without an address', async () => {
    await using house = await openHouse()
    await house.browser.signIn(house, house.member.id)
    expect((await house.browser.visit(toQuery({ key_label: 'x' }))).status).toBe(400)
    const page = await house.browser.visit(toQuery(S256))
    const { workspace_id } = house
    const shown = await house.browser.send('/auth', {
      ...page.form,
      workspace_id,
      decision: 'allow',
    })
    const [, code = ''] = /<pre id="code">([^<]+)</.exec(shown.text) ?? []
    expect((await house.exchange(code, { code_verifier: VERIFIER })).status).toBe(200)
  })

  test('never leads elsewhere than it was shown for, and only its own form is taken', async () => {
    await using house = await openHouse()
    const { browser, workspace_id, member } = house
    await browser.signIn(house, member.id)
    const page = await browser.visit(toQuery({ callback_url: CALLBACK, ...S256 }))
    const good = { ...page.form, workspace_id, decision: 'allow' }
    const status = async (form: Record<string, string>, headers = {}) => {
      const answer = await browser.send('/auth', form, headers)
      expect(answer.headers.get('location')).toBeNull()
      return answer.status
    }
    expect(await status({ ...good, callback_url: 'https://evil.example/' })).toBe(403)
    expect(await status({ ...good, code_challenge: VERIFIER })).toBe(403)
    expect(await status({ ...good, proof: `${Date.now()}.00` })).toBe(403)
    expect(await status({ ...good, limit: '-1' })).toBe(400)
    expect(await status({ ...good, limit: '1e9' })).toBe(400)
    expect(await status({ ...good, workspace_id: 'other' })).toBe(403)
    expect(await status(good, { origin: 'https://evil.example' })).toBe(403)
    expect(await status(good, { origin: 'null' })).toBe(403)
    expect(await status(good, { 'sec-fetch-site': 'cross-site' })).toBe(403)
    expect(await status(good, { 'content-type': 'application/json' })).toBe(400)
    const other = new TestBrowser(house.app)
    await other.signIn(house, house.gateway.memory.owner.user_id)
    expect((await other.send('/auth', good)).status).toBe(403)
    house.clock.pass(10 * MINUTE)
    expect(await status(good)).toBe(403)
    for (const bad of [
      { callback_url: 'http://evil.example/' },
      { callback_url: 'javascript:alert(1)' },
      { callback_url: CALLBACK, state: 'x' },
      { callback_url: CALLBACK, code_challenge_method: 'S256' },
    ]) {
      const answer = await browser.visit(toQuery(bad as Record<string, string>))
      expect([answer.status, answer.headers.get('location')]).toEqual([400, null])
    }
  })

  test('offers a member their own workspaces, of which it asks once', async () => {
    await using house = await openHouse()
    const { gateway, operator, browser, member } = house
    await createWorkspace(gateway, operator, { name: 'Elsewhere', slug: 'elsewhere' })
    await createWorkspace(gateway, operator, { name: 'Team', slug: 'team' })
    await addWorkspaceMembers(gateway, operator, 'team', { user_ids: [member.id] })
    await browser.signIn(house, member.id)
    const asked = toQuery({ callback_url: CALLBACK })
    gateway.store.members.findWorkspaceMember = () => Promise.reject(new Error('One was asked for'))
    const own = (await browser.visit(asked)).text
    expect(own).not.toContain('Elsewhere')
    expect(own).toContain('>Team<')
    await browser.signIn(house, gateway.memory.owner.user_id)
    expect((await browser.visit(asked)).text).toContain('Elsewhere')
  })
})

describe('a link', () => {
  test('signs in once, within ten minutes; a visit alone does not use it', async () => {
    await using house = await openHouse()
    const { gateway, operator, member, browser, clock } = house
    const link = async () =>
      new URL((await createSignInLink(gateway, operator, member.id)).data.url)
    const first = await link()
    const path = first.pathname + first.search
    const { form } = await browser.visit(path)
    expect((await browser.visit(path)).form).toEqual(form)
    const elsewhere = await browser.send('/auth/sign-in', form, { origin: 'https://evil.example' })
    expect(elsewhere.status).toBe(403)
    const both = await Promise.all([
      browser.send('/auth/sign-in', form),
      browser.send('/auth/sign-in', form),
    ])
    expect(both.map(({ status }) => status).sort()).toEqual([200, 403])
    expect(both.map(({ headers }) => headers.get('set-cookie') ?? '').join()).toContain(
      'HttpOnly; SameSite=Lax',
    )
    expect((await browser.visit(path)).status).toBe(403)
    const late = await link()
    clock.pass(10 * MINUTE)
    expect((await browser.visit(late.pathname + late.search)).status).toBe(403)
  })

  test('and a code end with their member, and do not come back with them', async () => {
    await using house = await openHouse()
    const { gateway, operator, member, browser, workspace_id } = house
    await browser.signIn(house, member.id)
    const { form } = await browser.visit(toQuery({ callback_url: CALLBACK }))
    const given = await browser.send('/auth', { ...form, workspace_id, decision: 'allow' })
    const code = new URL(given.headers.get('location') ?? '').searchParams.get('code') ?? ''
    const { url } = (await createSignInLink(gateway, operator, member.id)).data
    await deactivateMember(gateway, operator, member.id)
    await updateMember(gateway, operator, member.id, { active: true })
    expect((await house.exchange(code)).status).toBe(403)
    expect((await browser.visit(new URL(url).pathname + new URL(url).search)).status).toBe(403)
    expect((await browser.visit('/auth')).text).not.toContain('ada@acme.example')
  })

  test('is not begun by a link that is used while its member leaves', async () => {
    await using house = await openHouse()
    const { gateway, operator, member } = house
    const { url } = (await createSignInLink(gateway, operator, member.id)).data
    const token = new URL(url).searchParams.get('token') ?? ''
    const [begun] = await Promise.allSettled([
      signIn(gateway, token),
      deactivateMember(gateway, operator, member.id),
    ])
    await updateMember(gateway, operator, member.id, { active: true })
    const session = begun.status === 'fulfilled' ? begun.value : undefined
    expect(await findSessionMember(gateway, session)).toBeUndefined()
  })

  test('a session ends after twelve hours, and with its member', async () => {
    await using house = await openHouse()
    const { gateway, operator, member, browser, clock } = house
    const isSignedIn = async () => (await browser.visit('/auth')).text.includes('ada@acme.example')
    await browser.signIn(house, member.id)
    expect(await isSignedIn()).toBe(true)
    clock.pass(12 * 60 * MINUTE)
    expect(await isSignedIn()).toBe(false)
    await browser.signIn(house, member.id)
    expect(await isSignedIn()).toBe(true)
    await deactivateMember(gateway, operator, member.id)
    expect(await isSignedIn()).toBe(false)
    expect(createSignInLink(gateway, operator, member.id)).rejects.toThrow('deactivated')
  })
})
