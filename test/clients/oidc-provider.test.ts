import { expect, test } from 'bun:test'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import Provider, { type ClientMetadata } from 'oidc-provider'
import { getOperator } from '../../src/resources/actor.ts'
import { addMember } from '../../src/resources/members.ts'
import { startLocalServer } from '../support/server.ts'

const MEMBERS = 50
const CLIENT = { client_id: 'gateway', client_secret: 'a secret of the client' }

/** Starts a provider of sign-in at which everybody is who they say. */
async function startProvider() {
  const opened = Promise.withResolvers<Provider>()
  const groups = new Map<string, string[]>()
  const http = createServer((request, response) => {
    void opened.promise.then(provider => provider.callback()(request, response))
  })
  await new Promise<void>(resolve => http.listen(0, '127.0.0.1', resolve))
  const url = `http://127.0.0.1:${(http.address() as AddressInfo).port}`
  return {
    url,
    /** The groups of those who have some, by name. */
    groups,
    /** Begins to answer, and to lead back here. */
    open(gateway: string) {
      const client = {
        ...{ ...CLIENT, redirect_uris: [`${gateway}/auth/callback`], application_type: 'native' },
        backchannel_logout_uri: `${gateway}/auth/backchannel-logout`,
        backchannel_logout_session_required: true,
      }
      const provider = new Provider(url, {
        clients: [client as ClientMetadata],
        features: { backchannelLogout: { enabled: true } },
        claims: { openid: ['sub'], email: ['email', 'email_verified'], groups: ['groups'] },
        conformIdTokenClaims: false,
        cookies: { keys: ['of the cookies'] },
        findAccount: (_, accountId) => ({
          accountId,
          claims: () => ({
            ...{ sub: accountId, email: `${accountId}@acme.example`, email_verified: true },
            groups: groups.get(accountId) ?? [],
          }),
        }),
      })
      opened.resolve(provider)
    },
    [Symbol.asyncDispose]: async () => {
      http.closeAllConnections()
      await new Promise(resolve => http.close(resolve))
    },
  }
}

/** Keeps cookies, and follows what it is led to, as a browser does. */
class Browser {
  readonly #cookies = new Map<string, string>()

  async visit(url: string, init: RequestInit = {}): Promise<{ url: string; response: Response }> {
    const cookie = [...this.#cookies].map(([name, value]) => `${name}=${value}`).join('; ')
    const headers = { ...init.headers, cookie }
    const response = await fetch(url, { ...init, headers, redirect: 'manual' })
    for (const one of response.headers.getSetCookie()) {
      const [, name = '', value = ''] = /^([^=]+)=([^;]*)/.exec(one) ?? []
      if (value === '') this.#cookies.delete(name)
      else this.#cookies.set(name, value)
    }
    const location = response.headers.get('location')
    return location === null ? { url, response } : this.visit(new URL(location, url).href)
  }

  /** Answers the provider's own pages until they lead away. */
  async signIn(start: string, login: string): Promise<{ url: string; response: Response }> {
    let seen = await this.visit(start)
    for (const prompt of ['login', 'consent']) {
      const [, action = ''] = /<form[^>]* action="([^"]+)"/.exec(await seen.response.text()) ?? []
      if (action === '') return seen
      seen = await this.visit(new URL(action, seen.url).href, {
        method: 'POST',
        body: new URLSearchParams({ prompt, login, password: 'any' }),
      })
    }
    return seen
  }

  /** Signs out at the provider, which tells everybody at whom it has signed its user in. */
  async signOut(provider: string): Promise<number> {
    const { response } = await this.visit(`${provider}/session/end`)
    const page = await response.text()
    const [, xsrf = ''] = /name="xsrf" value="([^"]+)"/.exec(page) ?? []
    const confirmed = await this.visit(`${provider}/session/end/confirm`, {
      method: 'POST',
      body: new URLSearchParams({ xsrf, logout: 'yes' }),
    })
    return confirmed.response.status
  }
}

test(`${MEMBERS} members sign in at a provider, make a key each, and see their own`, async () => {
  await using provider = await startProvider()
  const sign_in = { issuer: provider.url, ...CLIENT }
  await using server = await startLocalServer({ oauth: { sign_in } })
  provider.open(server.url)
  const operator = getOperator(server.gateway)
  const names = Array.from({ length: MEMBERS }, (_, i) => `member-${i}`)
  const ids = new Map<string, string>()
  for (const name of names) {
    const member = await addMember(server.gateway, operator, { email: `${name}@acme.example` })
    ids.set(name, member.id)
  }
  const sign = async (name: string) => {
    const browser = new Browser()
    const { url, response } = await browser.signIn(`${server.url}/auth/start`, name)
    expect([name, response.status, new URL(url).pathname]).toEqual([name, 200, '/console'])
    const ask = async (path: string, body?: object) => {
      const asked = await browser.visit(`${server.url}${path}`, {
        headers: { 'x-gateway-console': '1', 'content-type': 'application/json' },
        ...(body ? { method: 'POST', body: JSON.stringify(body) } : {}),
      })
      return asked.response.json() as Promise<{ data: never }>
    }
    const made = await ask('/api/v1/keys', { name, limit: 2 })
    return { ask, made }
  }
  const signed = await Promise.all(names.map(sign))
  for (const [i, { ask }] of signed.entries()) {
    const { data } = await ask('/api/v1/keys')
    const id = ids.get(names[i] ?? '')
    expect(data).toMatchObject([{ name: names[i], limit: 2, creator_user_id: id }])
  }
})

test('who signs out at the provider, or loses a group there, is no manager here any more', async () => {
  await using provider = await startProvider()
  const roles = { groups: { operators: 'org:admin' } }
  const sign_in = { issuer: provider.url, ...CLIENT, scopes: ['groups'], roles }
  await using server = await startLocalServer({ oauth: { sign_in } })
  provider.open(server.url)
  for (const name of ['ada', 'bob'])
    await addMember(server.gateway, getOperator(server.gateway), { email: `${name}@acme.example` })
  const manage = async (browser: Browser) => {
    const headers = { 'x-gateway-console': '1' }
    return (await browser.visit(`${server.url}/api/v1/guardrails`, { headers })).response.status
  }
  const enter = async (name: string) => {
    const browser = new Browser()
    await browser.signIn(`${server.url}/auth/start`, name)
    return browser
  }
  provider.groups.set('ada', ['staff', 'operators'])
  const [ada, elsewhere, bob] = [await enter('ada'), await enter('ada'), await enter('bob')]
  expect(await Promise.all([ada, elsewhere, bob].map(manage))).toEqual([200, 200, 403])

  expect(await ada.signOut(provider.url)).toBe(200)
  expect(await Promise.all([ada, elsewhere, bob].map(manage))).toEqual([401, 200, 403])

  provider.groups.set('ada', ['staff'])
  const again = await enter('ada')
  expect(await Promise.all([again, elsewhere, bob].map(manage))).toEqual([403, 401, 403])
})
