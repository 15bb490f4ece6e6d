import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { getOperator } from '../../src/resources/actor.ts'
import { addMember } from '../../src/resources/members.ts'
import { type Browser, hasBrowser, startBrowser } from '../support/browser.ts'
import { runCommand } from '../support/commands.ts'
import { SECRET, TestIssuer } from '../support/issuer.ts'
import { startLocalServer } from '../support/server.ts'

const found = await hasBrowser()
const VERIFIER = 'dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk'
const CHALLENGE = 'E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM'

/** An app on loopback that a browser is led back to. */
function startBackend() {
  const returned = Promise.withResolvers<URL>()
  const server = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    fetch(request) {
      const url = new URL(request.url)
      if (url.pathname === '/callback') returned.resolve(url)
      return new Response('Back in the app')
    },
  })
  const query = new URLSearchParams({
    callback_url: `http://127.0.0.1:${server.port}/callback?state=s1`,
    code_challenge: CHALLENGE,
    code_challenge_method: 'S256',
    key_label: 'My app',
  })
  return {
    ...{ url: `http://127.0.0.1:${server.port}`, query, returned: returned.promise },
    [Symbol.dispose]: () => void server.stop(true),
  }
}

/** Exchanges the code that an app was given, and returns what its key may do. */
async function readKey(gateway: string, back: URL) {
  const answer = await fetch(`${gateway}/api/v1/auth/keys`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ code: back.searchParams.get('code'), code_verifier: VERIFIER }),
  })
  const { key } = (await answer.json()) as { key: string }
  const shown = await fetch(`${gateway}/api/v1/key`, {
    headers: { authorization: `Bearer ${key}` },
  })
  return (await shown.json()) as { data: { limit: number | null } }
}

describe.skipIf(!found)('in a browser (needs chromium)', () => {
  let browser: Browser
  beforeAll(async () => {
    browser = await startBrowser()
  })
  afterAll(() => browser[Symbol.asyncDispose]())

  const check = (name: string, work: () => Promise<void>) =>
    test(name, () => browser.withstand(work), 300_000)

  check('a member with a link gives an app a key', async () => {
    await using server = await startLocalServer({})
    using app = startBackend()
    const { page, errors } = await browser.open()
    const command = ['members', 'link', 'owner@localhost', '--json', '--data', server.data]
    const link = new URL(JSON.parse((await runCommand(command)).stdout).data.url)
    await page.goto(server.url + link.pathname + link.search)
    await page.getByRole('button', { name: 'Sign in' }).click()
    await page.getByText('You are signed in').waitFor()
    await page.goto(`${server.url}/auth?${app.query}`)
    await page.getByLabel('Limit in USD, or none').fill('2.50')
    await page.getByRole('button', { name: 'Give a key' }).click()
    const back = await app.returned
    await page.getByText('Back in the app').waitFor()
    expect([back.searchParams.get('state'), errors]).toEqual(['s1', []])
    expect(await readKey(server.url, back)).toMatchObject({ data: { limit: 2.5 } })
  })

  check('a member whom another service signs in gives an app a key, and signs out', async () => {
    await using issuer = await TestIssuer.start({ now: () => new Date() })
    const sign_in = { issuer: issuer.url, client_id: 'gateway app', client_secret: SECRET }
    await using server = await startLocalServer({ oauth: { sign_in } })
    const { gateway } = server
    await addMember(gateway, getOperator(gateway), { email: 'ada@acme.example' })
    using app = startBackend()
    const { page, errors, requests } = await browser.open()
    await page.goto(`${server.url}/auth?${app.query}`)
    await page.getByRole('link', { name: 'Sign in' }).click()
    await page.getByRole('link', { name: 'I am Ada' }).click()
    await page.getByText('ada@acme.example').waitFor()
    expect(new URL(page.url()).pathname).toBe('/auth')
    await page.getByRole('button', { name: 'Give a key' }).click()
    const back = await app.returned
    await page.getByText('Back in the app').waitFor()
    expect([back.searchParams.get('state'), errors]).toEqual(['s1', []])
    expect(await readKey(server.url, back)).toMatchObject({ data: { limit: null } })

    // The session is the browser's: scripts of pages do not see it, and signing out ends it.
    await page.goto(`${server.url}/auth`)
    expect(await page.evaluate('document.cookie')).toBe('')
    await page.getByRole('button', { name: 'Sign out' }).click()
    await page.getByText('Sign in first').waitFor()
    // No code and no secret was told to another place than where it belongs.
    const hosts = new Set(requests.map(url => new URL(url).origin))
    expect([...hosts].sort()).toEqual([server.url, issuer.url, app.url].sort())
  })
})
