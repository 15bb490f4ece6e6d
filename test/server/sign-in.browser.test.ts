import { expect, test } from 'bun:test'
import { getOperator } from '../../src/core/identity/actor.ts'
import { addMember } from '../../src/core/identity/members.ts'
import { hasBrowser, startBrowser } from '../support/browser.ts'
import { SECRET, TestIssuer } from '../support/issuer.ts'
import { startLocalServer } from '../support/server.ts'

const found = await hasBrowser()
const VERIFIER = 'dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk'
const CHALLENGE = 'E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM'

test.skipIf(!found)(
  'a member of another service signs in and gives an app a key, in a browser (needs chromium)',
  async () => {
    await using issuer = await TestIssuer.start({ now: () => new Date() })
    const sign_in = { issuer: issuer.url, client_id: 'gateway app', client_secret: SECRET }
    await using server = await startLocalServer({ oauth: { sign_in } })
    const { gateway } = server
    await addMember(gateway, getOperator(gateway), { email: 'ada@acme.example' })
    await using browser = await startBrowser()
    const returned = Promise.withResolvers<URL>()
    using app = Bun.serve({
      port: 0,
      hostname: '127.0.0.1',
      fetch(request) {
        const url = new URL(request.url)
        if (url.pathname === '/callback') returned.resolve(url)
        return new Response('Back in the app')
      },
    })
    const { page, errors, requests } = await browser.open()
    const query = new URLSearchParams({
      callback_url: `http://127.0.0.1:${app.port}/callback?state=s1`,
      code_challenge: CHALLENGE,
      code_challenge_method: 'S256',
      key_label: 'My app',
    })
    await page.goto(`${server.url}/auth?${query}`)
    await page.getByRole('link', { name: 'Sign in' }).click()
    await page.getByRole('link', { name: 'I am Ada' }).click()
    await page.getByText('ada@acme.example').waitFor()
    expect(new URL(page.url()).pathname).toBe('/auth')
    await page.getByRole('button', { name: 'Give a key' }).click()
    const back = await returned.promise
    await page.getByText('Back in the app').waitFor()
    expect([back.searchParams.get('state'), errors]).toEqual(['s1', []])
    const answer = await fetch(`${server.url}/api/v1/auth/keys`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ code: back.searchParams.get('code'), code_verifier: VERIFIER }),
    })
    const { key } = (await answer.json()) as { key: string }
    const shown = await fetch(`${server.url}/api/v1/key`, {
      headers: { authorization: `Bearer ${key}` },
    })
    expect(shown.status).toBe(200)

    // The session is the browser's: scripts of pages do not see it, and signing out ends it.
    expect(await page.evaluate('document.cookie')).toBe('')
    await page.goto(`${server.url}/auth`)
    await page.getByRole('button', { name: 'Sign out' }).click()
    await page.getByText('Sign in first').waitFor()
    // No code and no secret was told to another place than where it belongs.
    const hosts = new Set(requests.map(url => new URL(url).host))
    expect([...hosts].sort()).toEqual(
      [server.url, issuer.url, `http://127.0.0.1:${app.port}`].map(url => new URL(url).host).sort(),
    )
  },
)
