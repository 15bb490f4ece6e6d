import { expect, test } from 'bun:test'
import { parseConfig } from '../../src/config.ts'
import { getOperator } from '../../src/resources/actor.ts'
import { addMember, deactivateMember } from '../../src/resources/members.ts'
import { createApp } from '../../src/server/app.ts'
import { TestClock, testGateway } from '../support/gateway.ts'
import { CONFIGURATION, SECRET, TestIssuer } from '../support/issuer.ts'
import { openMemoryStore } from '../support/memory-store.ts'

const MINUTE = 60_000
const QUERY = `?callback_url=${encodeURIComponent('https://app.example/back?a=1')}&key_label=App`

/** Opens a gateway whose members sign in at a provider, with a member and a browser. */
async function openHouse(more: Record<string, unknown> = {}, parts: object = {}) {
  const clock = new TestClock()
  const issuer = await TestIssuer.start(clock)
  const sign_in = {
    ...{ issuer: issuer.url, client_id: 'gateway app', client_secret: SECRET },
    ...more,
  }
  const server = { site_url: 'https://gateway.example/' }
  const gateway = await testGateway({ clock, config: { server, oauth: { sign_in } }, ...parts })
  const member = await addMember(gateway, getOperator(gateway), { email: 'Ada@acme.example' })
  const browser = new Browser(createApp(gateway))
  return {
    ...{ gateway, issuer, clock, member, browser },
    /** Goes to the provider, and returns with its answer. */
    async signIn(claims: Record<string, unknown> = {}, change: Record<string, string> = {}) {
      const { location } = await browser.visit(`/auth/start${QUERY}`)
      const code = issuer.authorize(location, claims)
      const state = new URL(location).searchParams.get('state') ?? ''
      return browser.visit(`/auth/callback?${new URLSearchParams({ code, state, ...change })}`)
    },
    async [Symbol.asyncDispose]() {
      await issuer[Symbol.asyncDispose]()
      await gateway.close()
    },
  }
}

/** Keeps cookies as a browser does. */
class Browser {
  readonly cookies = new Map<string, string>()
  readonly #app: ReturnType<typeof createApp>

  constructor(app: ReturnType<typeof createApp>) {
    this.#app = app
  }

  async visit(path: string, init: RequestInit = {}) {
    const cookie = [...this.cookies].map(([name, value]) => `${name}=${value}`).join('; ')
    const headers = { host: 'gateway.example', cookie, ...init.headers }
    const request = new Request(`http://localhost${path}`, { ...init, headers })
    const response = await this.#app.handle(request)
    const set = response.headers.getSetCookie()
    for (const one of set) {
      const [, name = '', value = ''] = /^([^=]+)=([^;]*)/.exec(one) ?? []
      if (one.includes('Max-Age=0')) this.cookies.delete(name)
      else this.cookies.set(name, value)
    }
    const location = response.headers.get('location') ?? ''
    return { status: response.status, location, set, text: await response.text() }
  }
}

test.each([
  ['SQLite', () => ({})],
  ['a store in memory', () => ({ store: openMemoryStore() })],
])('a member signs in at the provider, is led back, and signs out, with %s', async (_, open) => {
  await using house = await openHouse({}, open())
  const { browser, issuer } = house
  const first = await browser.visit(`/auth${QUERY}`)
  expect(first.text).toContain('href="/auth/start?callback_url=https%3A%2F%2Fapp.example')
  const start = await browser.visit(`/auth/start${QUERY}`)
  expect([start.status, start.location.startsWith(`${issuer.url}/authorize?`)]).toEqual([303, true])
  const asked = Object.fromEntries(new URL(start.location).searchParams)
  expect(asked).toMatchObject({
    ...{ tenant: '1', response_type: 'code', client_id: 'gateway app', scope: 'openid email' },
    redirect_uri: 'https://gateway.example/auth/callback',
    code_challenge_method: 'S256',
  })
  expect(start.set).toEqual([
    expect.stringMatching(
      /^gateway_sign_in=\S+; Path=\/auth; Max-Age=600; HttpOnly; SameSite=Lax; Secure$/,
    ),
  ])
  const back = await house.signIn({}, { session_state: 'x', iss: issuer.url })
  expect([back.status, back.location.startsWith('/auth?callback_url=')]).toEqual([303, true])
  expect(back.set[0]).toMatch(/^gateway_session=\S+; .*HttpOnly; SameSite=Lax; Secure$/)
  expect([...browser.cookies.keys()]).toEqual(['gateway_session', '__Host-gateway_console'])
  expect((await browser.visit(back.location)).text).toContain('Give App a key?')
  const stolen = new Map(browser.cookies)
  const headers = { origin: 'https://gateway.example', 'sec-fetch-site': 'same-origin' }
  const foreign = { ...headers, origin: 'https://evil.example' }
  const refused = await browser.visit('/auth/sign-out', { method: 'POST', headers: foreign })
  expect(refused.status).toBe(403)
  const out = await browser.visit('/auth/sign-out', { method: 'POST', headers })
  expect([out.status, browser.cookies.size]).toEqual([200, 0])
  for (const [name, value] of stolen) browser.cookies.set(name, value)
  expect((await browser.visit(`/auth${QUERY}`)).text).toContain('Sign in first')
})

test('an answer is taken from the browser that asked, in time, once', async () => {
  await using house = await openHouse()
  const { browser, issuer } = house
  const refusedAs = async (change: Record<string, string>, claims = {}) => {
    const { status, set } = await house.signIn(claims, change)
    return status === 403 && !set.some(one => one.startsWith('gateway_session'))
  }
  expect(await refusedAs({ state: 'another' })).toBe(true)
  expect(await refusedAs({ state: '' })).toBe(true)
  expect(await refusedAs({ iss: 'https://other.example' })).toBe(true)
  expect(await refusedAs({ error: 'access_denied' })).toBe(true)
  expect(await refusedAs({ code: 'guessed' })).toBe(true)
  expect(await refusedAs({}, { nonce: 'another' })).toBe(true)
  expect(await refusedAs({}, { nonce: undefined })).toBe(true)

  const { location } = await browser.visit('/auth/start')
  const state = new URL(location).searchParams.get('state') ?? ''
  const path = `/auth/callback?${new URLSearchParams({ code: issuer.authorize(location), state })}`
  const cookies = new Map(browser.cookies)
  browser.cookies.clear()
  expect((await browser.visit(path)).status).toBe(403)
  browser.cookies.set('gateway_sign_in', `${cookies.get('gateway_sign_in')}0`)
  expect((await browser.visit(path)).status).toBe(403)
  browser.cookies.set('gateway_sign_in', cookies.get('gateway_sign_in') ?? '')
  const good = await browser.visit(path)
  expect([good.status, good.location]).toEqual([303, '/console'])
  // The same answer again, in a browser that has kept its cookie: the provider has used the code.
  browser.cookies.set('gateway_sign_in', cookies.get('gateway_sign_in') ?? '')
  expect((await browser.visit(path)).status).toBe(403)

  const late = await browser.visit('/auth/start')
  const asked = new URL(late.location).searchParams.get('state') ?? ''
  house.clock.pass(10 * MINUTE)
  const query = new URLSearchParams({ code: issuer.authorize(late.location), state: asked })
  expect((await browser.visit(`/auth/callback?${query}`)).status).toBe(403)
})

test('only a verified address of an active member signs in', async () => {
  await using house = await openHouse({ domains: ['acme.example'], claims: { hd: ['acme'] } })
  await addMember(house.gateway, getOperator(house.gateway), { email: 'eve@other.example' })
  const now = Math.floor(house.clock.now().getTime() / 1000)
  const statusOf = async (claims: Record<string, unknown>) =>
    (await house.signIn({ hd: 'acme', ...claims })).status
  expect(await statusOf({})).toBe(303)
  const wrong = [
    { email_verified: false },
    { email_verified: undefined },
    { email_verified: 'true' },
    { email: undefined },
    { email: 'stranger@acme.example' },
    { email: 'eve@other.example' },
    { hd: 'other' },
    { aud: 'another app' },
    { aud: ['gateway app', 'another app'] },
    { aud: ['gateway app', 'another app'], azp: 'another app' },
    { azp: 'another app' },
    { iss: 'https://other.example' },
    { iat: now - 700, exp: now - 61 },
    { exp: undefined },
  ]
  for (const claims of wrong) expect([claims, await statusOf(claims)]).toEqual([claims, 403])
  expect(await statusOf({ aud: ['gateway app', 'x'], azp: 'gateway app' })).toBe(303)
  await deactivateMember(house.gateway, getOperator(house.gateway), house.member.id)
  expect(await statusOf({})).toBe(403)
})

test('no address leads away from the gateway', async () => {
  await using house = await openHouse()
  const { browser, issuer } = house
  for (const query of ['?//evil.example', '?next=https://evil.example', '?@evil.example']) {
    const { location } = await browser.visit(`/auth/start${query}`)
    const state = new URL(location).searchParams.get('state') ?? ''
    const answer = new URLSearchParams({ code: issuer.authorize(location), state })
    const back = await browser.visit(`/auth/callback?${answer}`)
    const led = new URL(back.location, 'https://gateway.example')
    expect([back.status, led.origin, led.pathname]).toEqual([
      ...[303, 'https://gateway.example', '/auth'],
    ])
  }
  const long = await browser.visit(
    `/auth/start?callback_url=https://a.example/${'x'.repeat(3_000)}`,
  )
  expect(long.status).toBe(400)
})

test('a provider that is down or lies signs nobody in', async () => {
  await using house = await openHouse()
  const { issuer, browser, clock } = house
  const document = {
    issuer: issuer.url,
    jwks_uri: `${issuer.url}/jwks`,
    token_endpoint: `${issuer.url}/token`,
  }
  const answers = [
    () => new Response('', { status: 500 }),
    () => Response.json({ ...document, issuer: 'https://other.example' }),
    () => Response.json(document),
    () => Response.json({ ...document, authorization_endpoint: 'javascript:alert(1)' }),
    () => Response.json({ ...document, authorization_endpoint: 'http://evil.example/' }),
  ]
  for (const answer of answers) {
    issuer.answers.set(CONFIGURATION, answer)
    clock.pass(61 * MINUTE)
    expect((await browser.visit('/auth/start')).status).toBe(503)
  }
  // The code and the secret go to no address in the private network.
  const authorization_endpoint = `${issuer.url}/authorize`
  const token_endpoint = 'https://10.0.0.1/token'
  issuer.answers.set(CONFIGURATION, () =>
    Response.json({ ...document, authorization_endpoint, token_endpoint }),
  )
  clock.pass(61 * MINUTE)
  expect((await house.signIn()).status).toBe(403)
  issuer.answers.clear()
  issuer.answers.set('/token', () => Response.redirect(`${issuer.url}/elsewhere`))
  clock.pass(61 * MINUTE)
  expect((await house.signIn()).status).toBe(403)
  expect(issuer.asked).not.toContain('/elsewhere')
  issuer.answers.clear()
  expect((await house.signIn()).status).toBe(303)
})

test('without a provider, only links sign members in', async () => {
  await using gateway = Object.assign(await testGateway(), {
    async [Symbol.asyncDispose]() {
      await gateway.close()
    },
  })
  const browser = new Browser(createApp(gateway))
  expect((await browser.visit(`/auth${QUERY}`)).text).not.toContain('/auth/start')
  expect((await browser.visit('/auth/start')).status).toBe(403)
  expect((await browser.visit('/auth/callback?code=x&state=y')).status).toBe(403)
})

test.each([
  ['an issuer without TLS', { issuer: 'http://id.example' }, 'issuer'],
  ['a secret with a line break', { client_secret: 'a\nb' }, 'client_secret'],
  ['no domains', { domains: [] }, 'domains'],
  ['an unknown field', { password: 'x' }, 'sign_in'],
])('the config refuses %s', (_, change, named) => {
  const right = { issuer: 'https://id.example', client_id: 'gateway', client_secret: 'secret' }
  const parse = (sign_in: object) => () => parseConfig(JSON.stringify({ oauth: { sign_in } }), {})
  expect(parse(right)).not.toThrow()
  expect(parse({ ...right, ...change })).toThrow(named)
})
