import { expect, test } from 'bun:test'
import { parseConfig } from '../../src/config.ts'
import { getOperator } from '../../src/resources/actor.ts'
import { addMember, deactivateMember } from '../../src/resources/members.ts'
import { createApp } from '../../src/server/app.ts'
import { testGateway } from '../support/gateway.ts'
import { CONFIGURATION, JWKS } from '../support/issuer.ts'
import { askApi, Browser, openHouse, QUERY } from '../support/sign-in.ts'

const MINUTE = 60_000

test('a member signs in at the provider, is led back, and signs out', async () => {
  await using house = await openHouse()
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

test('where the console has a host of its own, all of it is there', async () => {
  const server = { site_url: 'https://gateway.example/', console_host: 'console.example' }
  await using house = await openHouse({}, { server })
  const { browser, app } = house
  const led = await browser.visit(`/auth${QUERY}`)
  const [where] = led.location.split('?')
  expect([led.status, where, browser.cookies.size]).toEqual([
    ...[303, 'https://console.example/auth', 0],
  ])
  const there = new Browser(app, 'console.example')
  const { location } = await there.visit('/auth/start')
  const asked = new URL(location).searchParams
  expect(asked.get('redirect_uri')).toBe('https://console.example/auth/callback')
  const back = await house.signIn({}, {}, there)
  expect([
    back.status,
    back.set.every(one => one.endsWith('; Secure') || one.includes('Max-Age=0')),
  ]).toEqual([303, true])
  expect((await there.visit(back.location)).text).toContain('Give App a key?')
  expect((await askApi(there, '/keys')).status).toBe(200)
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

test('a provider that fails between question and answer signs in later, with a new key', async () => {
  await using house = await openHouse()
  const { issuer, clock, browser } = house
  const { location } = await browser.visit('/auth/start')
  const state = new URL(location).searchParams.get('state') ?? ''
  const cookies = new Map(browser.cookies)
  const answer = () => {
    for (const [name, value] of cookies) browser.cookies.set(name, value)
    const query = new URLSearchParams({ code: issuer.authorize(location), state })
    return browser.visit(`/auth/callback?${query}`)
  }
  issuer.answers.set('/token', () => new Response('', { status: 500 }))
  expect((await answer()).status).toBe(403)
  issuer.answers.clear()
  // An unknown key is asked for once a minute, and what does not come is no key.
  await issuer.rotate('second')
  issuer.answers.set(JWKS, () => new Response('', { status: 500 }))
  clock.pass(MINUTE)
  expect((await answer()).status).toBe(403)
  issuer.answers.clear()
  clock.pass(MINUTE)
  expect((await answer()).status).toBe(303)
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
