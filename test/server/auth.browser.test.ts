import { expect, test } from 'bun:test'
import { hasBrowser, startBrowser } from '../support/browser.ts'
import { runCommand } from '../support/commands.ts'
import { startLocalServer } from '../support/server.ts'

const found = await hasBrowser()
const VERIFIER = 'dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk'
const CHALLENGE = 'E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM'

test.skipIf(!found)('a member gives an app a key in a browser (needs chromium)', async () => {
  await using server = await startLocalServer({})
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
  const { page, errors } = await browser.open()
  const command = ['members', 'link', 'owner@localhost', '--json', '--data', server.data]
  const link = new URL(JSON.parse((await runCommand(command)).stdout).data.url)
  await page.goto(server.url + link.pathname + link.search)
  await page.getByRole('button', { name: 'Sign in' }).click()
  await page.getByText('You are signed in').waitFor()
  const query = new URLSearchParams({
    callback_url: `http://127.0.0.1:${app.port}/callback?state=s1`,
    code_challenge: CHALLENGE,
    code_challenge_method: 'S256',
    key_label: 'My app',
  })
  await page.goto(`${server.url}/auth?${query}`)
  await page.getByLabel('Limit in USD, or none').fill('2.50')
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
  expect(await shown.json()).toMatchObject({ data: { limit: 2.5 } })
})
