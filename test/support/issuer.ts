import { type CryptoKey, exportJWK, generateKeyPair, type JWK, SignJWT } from 'jose'

/** What tells an issuer the time. */
interface WallClock {
  now(): Date
}

/** What a code stands for. */
interface Granted {
  asked: Record<string, string>
  claims: Record<string, unknown>
}

/** An issuer of tokens on loopback: a CI system, or a provider of sign-in. */
export class TestIssuer {
  /** What it answers, by path, instead of its own answers. */
  readonly answers = new Map<string, () => Response | Promise<Response>>()
  /** The paths that were asked, in order. */
  readonly asked: string[] = []
  readonly #codes = new Map<string, Granted | undefined>()
  readonly #clock: WallClock
  readonly #server: ReturnType<typeof Bun.serve>
  readonly #keys: { kid: string; secret: CryptoKey; shown: JWK }[] = []

  private constructor(clock: WallClock) {
    this.#clock = clock
    this.#server = Bun.serve({
      port: 0,
      hostname: '127.0.0.1',
      fetch: request => this.#answer(new URL(request.url).pathname, request),
    })
  }

  static async start(clock: WallClock): Promise<TestIssuer> {
    const issuer = new TestIssuer(clock)
    await issuer.rotate('first')
    return issuer
  }

  get url(): string {
    return `http://127.0.0.1:${this.#server.port}`
  }

  /** The public half of the newest key. */
  get shown(): JWK {
    return this.#keys[0]?.shown as JWK
  }

  /** Signs with a new key from now on, and shows only that. */
  async rotate(kid: string): Promise<void> {
    const { privateKey, publicKey } = await generateKeyPair('ES256', { extractable: true })
    const shown = { ...(await exportJWK(publicKey)), kid, alg: 'ES256', use: 'sig' }
    this.#keys.splice(0, 1, { kid, secret: privateKey, shown })
  }

  /** Signs a token: for the tests' audience, from now on, for ten minutes. */
  sign(claims: Record<string, unknown> = {}, header: Record<string, unknown> = {}) {
    const now = Math.floor(this.#clock.now().getTime() / 1000)
    const [key] = this.#keys
    if (!key) throw new Error('no key')
    const usual = { iss: this.url, aud: AUDIENCE, sub: 'repo:acme/app', iat: now, exp: now + 600 }
    return new SignJWT({ ...usual, repository: 'acme/app', ref: 'refs/heads/main', ...claims })
      .setProtectedHeader({ alg: 'ES256', kid: key.kid, ...header })
      .sign(key.secret)
  }

  /** A policy that takes its tokens. */
  buildPolicy(more: Record<string, unknown> = {}) {
    const claims = { repository: ['acme/app'], ref: ['refs/heads/*'] }
    return { issuer: this.url, audiences: [AUDIENCE], claims, ...more }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#server.stop(true)
  }

  /** Lets a user sign in: returns the code that it answers with, for what was asked. */
  authorize(location: string, claims: Record<string, unknown> = {}): string {
    const asked = Object.fromEntries(new URL(location).searchParams)
    const code = `code-${this.#codes.size}`
    this.#codes.set(code, { asked, claims })
    return code
  }

  /** Exchanges a code, once, as RFC 6749 and RFC 7636 say. */
  async #exchange(request: Request): Promise<Response> {
    const form = Object.fromEntries(new URLSearchParams(await request.text()))
    const granted = this.#codes.get(form.code ?? '')
    this.#codes.set(form.code ?? '', undefined)
    const challenge = Bun.CryptoHasher.hash('sha256', form.code_verifier ?? '', 'base64url')
    const isRight =
      request.headers.get('authorization') === `Basic ${btoa(`gateway%20app:${SECRET}`)}` &&
      form.grant_type === 'authorization_code' &&
      challenge === granted?.asked.code_challenge &&
      form.redirect_uri === granted.asked.redirect_uri
    if (!granted || !isRight) return Response.json({ error: 'invalid_grant' }, { status: 400 })
    const { client_id, nonce } = granted.asked
    const usual = { email: 'ada@acme.example', email_verified: true }
    const id_token = await this.sign({ aud: client_id, nonce, ...usual, ...granted.claims })
    return Response.json({ id_token, access_token: 'none', token_type: 'Bearer' })
  }

  /** Shows a page with a link that leads back with a code, as if a user had signed in. */
  #showSignIn({ url }: Request): Response {
    const { redirect_uri = '', state = '' } = Object.fromEntries(new URL(url).searchParams)
    const answer = new URLSearchParams({ code: this.authorize(url), state, iss: this.url })
    const href = Bun.escapeHTML(`${redirect_uri}?${answer}`)
    return new Response(
      `<!doctype html><link rel="icon" href="data:,"><a href="${href}">I am Ada</a>`,
      {
        headers: { 'content-type': 'text/html' },
      },
    )
  }

  #answer(path: string, request: Request): Response | Promise<Response> {
    this.asked.push(path)
    const own = this.answers.get(path)
    if (own) return own()
    if (path === CONFIGURATION)
      return Response.json({
        issuer: this.url,
        jwks_uri: `${this.url}${JWKS}`,
        authorization_endpoint: `${this.url}/authorize?tenant=1`,
        token_endpoint: `${this.url}/token`,
      })
    if (path === '/token') return this.#exchange(request)
    if (path === '/authorize') return this.#showSignIn(request)
    if (path === JWKS) return Response.json({ keys: this.#keys.map(({ shown }) => shown) })
    return new Response('', { status: 404 })
  }
}

export const SECRET = 'shared-with-the-gateway'
export const AUDIENCE = 'https://gateway.example'
export const CONFIGURATION = '/.well-known/openid-configuration'
export const JWKS = '/jwks'
