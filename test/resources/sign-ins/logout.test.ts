import { describe, expect, test } from 'bun:test'
import { SignJWT, UnsecuredJWT } from 'jose'
import { getOperator } from '../../../src/resources/actor.ts'
import { createSignInLink, signIn } from '../../../src/resources/sign-ins.ts'
import { JWKS } from '../../support/issuer.ts'
import { askApi, Browser, openHouse } from '../../support/sign-in.ts'

const EVENTS = { 'http://schemas.openid.net/event/backchannel-logout': {} }
const ADA = { sub: 'ada', sid: 'one' }
const MINUTE = 60_000

type Claims = Record<string, unknown>

/** Opens a gateway at which Ada has signed in, and what tells it that she has signed out. */
async function openSignedIn() {
  const house = await openHouse()
  const { issuer, app, clock } = house
  let tokens = 0
  const sign = (claims: Claims = {}, header: Claims = {}) => {
    const usual = { aud: 'gateway app', sub: undefined, events: EVENTS, jti: `jti-${++tokens}` }
    const exp = Math.floor(clock.now().getTime() / 1000) + 120
    return issuer.sign({ ...usual, exp, ...claims }, { typ: 'logout+jwt', ...header })
  }
  const post = async (body: string, headers: Record<string, string> = {}) => {
    const response = await app.handle(
      new Request('http://localhost/auth/backchannel-logout', {
        method: 'POST',
        headers: { 'content-type': 'application/x-www-form-urlencoded', ...headers },
        body,
      }),
    )
    const text = await response.text()
    return { status: response.status, headers: response.headers, text }
  }
  const send = (logout_token: string) => post(new URLSearchParams({ logout_token }).toString())
  /** Signs in, in another browser. */
  const enter = async (claims: Claims = ADA) => {
    const browser = new Browser(app)
    expect((await house.signIn(claims, {}, browser)).status).toBe(303)
    return browser
  }
  const isIn = async (browser: Browser) => (await askApi(browser, '/keys')).status === 200
  return { house, sign, post, send, enter, isIn }
}

describe('a provider that signs a user out', () => {
  test('ends the session that it names, or all of the user', async () => {
    const { house, sign, send, enter, isIn } = await openSignedIn()
    await using _house = house
    const [one, two, unnamed] = [
      await enter(),
      await enter({ sub: 'ada', sid: 'two' }),
      await enter({ sub: 'ada' }),
    ]
    const { gateway, member } = house
    const { url } = (await createSignInLink(gateway, getOperator(gateway), member.id)).data
    const linked = new Browser(house.app)
    const secret = await signIn(gateway, new URL(url).searchParams.get('token') ?? '')
    linked.cookies.set('__Host-gateway_console', secret)
    const all = () => Promise.all([one, two, unnamed, linked].map(isIn))
    expect(await all()).toEqual([true, true, true, true])

    for (const other of [{ sub: 'bob' }, { sub: 'bob', sid: 'one' }, { sid: 'three' }])
      expect((await send(await sign(other))).status).toBe(200)
    expect(await all()).toEqual([true, true, true, true])

    const named = await send(await sign({ sid: 'one' }))
    expect([named.status, named.headers.get('cache-control'), named.text]).toEqual([
      ...[200, 'no-store', ''],
    ])
    expect(await all()).toEqual([false, true, true, true])
    // The page of consent has the same session.
    expect((await one.visit('/auth')).text).toContain('Sign in first')
    // Of a session without a sid only the user is known.
    expect((await send(await sign({ sub: 'ada', sid: 'four' }))).status).toBe(200)
    expect(await all()).toEqual([false, true, false, true])
    expect((await send(await sign({ sub: 'ada' }))).status).toBe(200)
    expect(await all()).toEqual([false, false, false, true])
    // Who is signed out already is signed out.
    expect((await send(await sign({ sub: 'ada' }))).status).toBe(200)
  })

  test.each([{ sub: 'ada' }, { sid: 'one' }, { sub: 'ada', sid: 'one' }])(
    'in the middle of a sign-in ends that: %j',
    async over => {
      const { house, sign, send } = await openSignedIn()
      await using _ = house
      const { members } = house.gateway.store
      const { findActive } = members
      const enterWhile = async (claims: Claims, logout: Claims) => {
        members.findActive = async email => {
          house.clock.pass(1_000)
          expect((await send(await sign(logout))).status).toBe(200)
          return findActive(email)
        }
        house.clock.pass(1_000)
        const { status, set } = await house.signIn(claims)
        return [status, set.some(one => one.startsWith('gateway_session'))]
      }
      expect(await enterWhile(ADA, over)).toEqual([403, false])
      expect(
        await house.gateway.store.signIns.listSessions({
          user_id: house.member.id,
          key_hash: null,
        }),
      ).toEqual([])
      for (const other of [{ sub: 'bob' }, { sid: 'two' }, { sub: 'ada', sid: 'two' }])
        expect(await enterWhile(ADA, other)).toEqual([303, true])
      members.findActive = findActive
      house.clock.pass(1_000)
      expect((await house.signIn(ADA)).status).toBe(303)
    },
  )

  test('ends nothing that has begun since', async () => {
    const { house, sign, send, enter, isIn } = await openSignedIn()
    await using _ = house
    const exp = Math.floor(house.clock.now().getTime() / 1000) + 3_600
    const kept = await sign({ sub: 'ada', exp })
    const before = await enter()
    house.clock.pass(2 * MINUTE)
    const after = await enter()
    expect((await send(kept)).status).toBe(200)
    expect([await isIn(before), await isIn(after)]).toEqual([false, true])
  })
})

describe('a token that is no logout ends no session, and gets 400:', () => {
  const now = 1_772_600_767
  const wrong: [string, Claims, Claims?][] = [
    ['another audience', { aud: 'another app' }],
    ['several audiences', { aud: ['gateway app', 'another app'] }],
    ['another party', { azp: 'another app' }],
    ['another issuer', { iss: 'https://other.example' }],
    ['one that is over', { iat: now - 700, exp: now - 61 }],
    ['one without an end', { exp: undefined }],
    ['one of the future', { iat: now + 61, exp: now + 200 }],
    ['one for ever', { exp: now + 86_401 }],
    ['one without a time', { iat: undefined }],
    ['a nonce', { nonce: 'any' }],
    ['a nonce that is null', { nonce: null }],
    ['no events', { events: undefined }],
    ['another event', { events: { 'http://schemas.openid.net/event/other': {} } }],
    ['an event that is none', { events: { [Object.keys(EVENTS)[0] ?? '']: true } }],
    ['a list of events', { events: Object.keys(EVENTS) }],
    ['no user and no session', { sub: undefined }],
    ['a user that is no text', { sub: 5 }],
    ['an empty user', { sub: '', sid: '' }],
    ['no id', { jti: undefined }],
    ['an empty id', { jti: '' }],
    ['another type', {}, { typ: 'at+jwt' }],
    ['a key that the provider has not', {}, { kid: 'other' }],
  ]

  test.each(wrong.map(([what, claims, header = {}]) => [what, claims, header] as const))(
    '%s',
    async (_, claims, header) => {
      const { house, sign, send, enter, isIn } = await openSignedIn()
      await using _house = house
      expect(Math.floor(house.clock.now().getTime() / 1000)).toBe(now)
      const browser = await enter()
      const { status, headers, text } = await send(await sign({ sub: 'ada', ...claims }, header))
      expect([status, headers.get('cache-control')]).toEqual([400, 'no-store'])
      expect(JSON.parse(text)).toEqual({
        error: 'invalid_request',
        error_description: expect.any(String),
      })
      expect(await isIn(browser)).toBe(true)
    },
  )

  test('what is not signed by the provider, in any form', async () => {
    const { house, sign, send, post, enter, isIn } = await openSignedIn()
    await using _ = house
    const browser = await enter()
    const iat = Math.floor(house.clock.now().getTime() / 1000)
    const claims = {
      ...{ iss: house.issuer.url, aud: 'gateway app', sub: 'ada', events: EVENTS },
      ...{ jti: 'x', iat, exp: iat + 120 },
    }
    const shared = new TextEncoder().encode('shared-with-the-gateway')
    const good = await sign({ sub: 'ada' })
    const [header, payload, signature] = good.split('.')
    const other = Buffer.from(JSON.stringify({ ...claims, sub: 'bob' })).toString('base64url')
    for (const token of [
      new UnsecuredJWT(claims).encode(),
      await new SignJWT(claims).setProtectedHeader({ alg: 'HS256' }).sign(shared),
      `${header}.${other}.${signature}`,
      `${header}.${payload}.`,
      'no token',
      `${good}${'A'.repeat(16_384)}`,
    ])
      expect((await send(token)).status).toBe(400)
    for (const [body, headers] of [
      ['', {}],
      ['logout_token=', {}],
      [`logout_token=${good}&logout_token=${good}`, {}],
      [JSON.stringify({ logout_token: good }), { 'content-type': 'application/json' }],
    ] as const) {
      const refused = await post(body, headers)
      expect([refused.status, refused.headers.get('cache-control')]).toEqual([400, 'no-store'])
    }
    const huge = await post(`logout_token=${'A'.repeat(1024 * 1024)}`)
    expect([huge.status, huge.headers.get('cache-control')]).toEqual([413, 'no-store'])
    expect(await isIn(browser)).toBe(true)
    // What else a provider sends beside the token is nothing to us (2.5).
    expect((await post(`more=1&logout_token=${good}`)).status).toBe(200)
    expect(await isIn(browser)).toBe(false)
  })

  test('one that was used, unless its use has failed', async () => {
    const { house, sign, send, enter, isIn } = await openSignedIn()
    await using _ = house
    const token = await sign({ sub: 'ada' })
    const { signIns } = house.gateway.store
    const { endSessions } = signIns
    signIns.endSessions = () => Promise.reject(Object.assign(new Error(), { code: 'SQLITE_FULL' }))
    const failed = await send(token)
    expect([failed.status, JSON.parse(failed.text).error]).toEqual([400, 'server_error'])
    signIns.endSessions = endSessions
    expect((await send(token)).status).toBe(200)
    house.clock.pass(1_000)
    const browser = await enter()
    const again = await send(token)
    expect([again.status, JSON.parse(again.text).error_description]).toEqual([
      ...[400, 'logout_token: it was used already'],
    ])
    expect(await isIn(browser)).toBe(true)
  })

  test('an ID token, and one of a provider that is down or not there', async () => {
    const { house, sign, send, enter, isIn } = await openSignedIn()
    await using _ = house
    const browser = await enter()
    const usual = { aud: 'gateway app', sub: 'ada', nonce: 'n', email: 'ada@acme.example' }
    expect((await send(await house.issuer.sign(usual))).status).toBe(400)
    house.issuer.answers.set(JWKS, () => new Response('', { status: 500 }))
    await house.issuer.rotate('second')
    house.clock.pass(25 * 60 * MINUTE)
    const down = await send(await sign({ sub: 'ada' }))
    expect([down.status, JSON.parse(down.text).error]).toEqual([400, 'temporarily_unavailable'])
    const { config } = house.gateway
    house.gateway.config = { ...config, oauth: { ...config.oauth, enabled: false } }
    expect((await send(await sign({ sub: 'ada' }))).status).toBe(400)
    house.gateway.config = config
    house.clock.pass(-25 * 60 * MINUTE)
    expect(await isIn(browser)).toBe(true)
  })
})
