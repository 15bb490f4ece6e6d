import type { GatewayParts } from '../../src/app/gateway.ts'
import { getOperator } from '../../src/resources/actor.ts'
import { addMember } from '../../src/resources/members.ts'
import { createApp } from '../../src/server/app.ts'
import { TestClock, testGateway } from './gateway.ts'
import { SECRET, TestIssuer } from './issuer.ts'

/** What an app asks for on the page of consent. */
export const QUERY = `?callback_url=${encodeURIComponent('https://app.example/back?a=1')}&key_label=App`

interface HouseParts extends Partial<GatewayParts> {
  server?: Record<string, unknown>
}

/** Opens a gateway whose members sign in at a provider, with a member and a browser. */
export async function openHouse(
  more: Record<string, unknown> = {},
  { server = { site_url: 'https://gateway.example/' }, ...parts }: HouseParts = {},
) {
  const clock = new TestClock()
  const issuer = await TestIssuer.start(clock)
  const sign_in = {
    ...{ issuer: issuer.url, client_id: 'gateway app', client_secret: SECRET },
    ...more,
  }
  const gateway = await testGateway({ clock, config: { server, oauth: { sign_in } }, ...parts })
  const member = await addMember(gateway, getOperator(gateway), { email: 'Ada@acme.example' })
  const app = createApp(gateway)
  const browser = new Browser(app)
  return {
    ...{ gateway, issuer, clock, member, browser, app },
    /** Goes to the provider, and returns with its answer. */
    async signIn(
      claims: Record<string, unknown> = {},
      change: Record<string, string> = {},
      from = browser,
    ) {
      const { location } = await from.visit(`/auth/start${QUERY}`)
      const code = issuer.authorize(location, claims)
      const state = new URL(location).searchParams.get('state') ?? ''
      return from.visit(`/auth/callback?${new URLSearchParams({ code, state, ...change })}`)
    },
    async [Symbol.asyncDispose]() {
      await issuer[Symbol.asyncDispose]()
      await gateway.close()
    },
  }
}

/** Keeps cookies as a browser does. */
export class Browser {
  readonly cookies = new Map<string, string>()
  readonly #app: ReturnType<typeof createApp>
  readonly #host: string

  constructor(app: ReturnType<typeof createApp>, host = 'gateway.example') {
    this.#app = app
    this.#host = host
  }

  async visit(path: string, init: RequestInit = {}) {
    const cookie = [...this.cookies].map(([name, value]) => `${name}=${value}`).join('; ')
    const headers = { host: this.#host, cookie, ...init.headers }
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

/** Asks the API with the session that a browser has for the console; 401 without one. */
export const askApi = (browser: Browser, path: string) =>
  browser.visit(`/api/v1${path}`, { headers: { 'x-gateway-console': '1' } })
