import type { Json } from '../../src/base/json.ts'

/** An authorization server, and a door to an MCP server that takes only its tokens. */
export interface TestAuthorization {
  /** The address of the MCP server behind the door. */
  url: string
  issuer: string
  host: string
  /** What was asked of it: `token code`, `token refresh_token`, `revoke`, `register`. */
  asked: string[]
  /** Changes what it says of itself and of its resource. */
  lies: {
    metadata?: Json
    resource?: Json
    answer?: (url: URL) => Response | undefined | Promise<Response | undefined>
  }
  /** In seconds: the life of the next tokens. */
  life: number | undefined
  /** Has every access token refused from now on. */
  refuseTokens(): void
  /** Has every refresh token refused from now on. */
  refuseRefreshes(): void
  /** Says yes as a person in a browser, and returns where that is sent. */
  consent(url: string): URL
  stop(): Promise<unknown>
}

interface Grant {
  client_id: string
  challenge: string
  redirect_uri: string
}

/** Starts both. `upstream` is the address of the MCP server. */
export function startAuthorizationServer(upstream: string): TestAuthorization {
  const [clients, codes] = [new Map<string, Json>(), new Map<string, Grant>()]
  const [access, refreshes] = [new Set<string>(), new Set<string>()]
  let count = 0
  const give = () => {
    count += 1
    access.add(`access-${count}`)
    refreshes.add(`refresh-${count}`)
    return Response.json({
      ...{ access_token: `access-${count}`, refresh_token: `refresh-${count}` },
      ...{ token_type: 'Bearer', scope: 'read' },
      ...(server.life === undefined ? {} : { expires_in: server.life }),
    })
  }
  const refuse = (error: string) =>
    Response.json({ error, error_description: 'secret words' }, { status: 400 })

  async function exchange(form: URLSearchParams): Promise<Response> {
    server.asked.push(`token ${form.get('grant_type')}`)
    if (form.get('resource') !== server.url) return refuse('invalid_target')
    if (form.get('grant_type') === 'refresh_token')
      return refreshes.delete(form.get('refresh_token') ?? '') ? give() : refuse('invalid_grant')
    const code = form.get('code') ?? ''
    const grant = codes.get(code)
    codes.delete(code)
    const verifier = form.get('code_verifier') ?? ''
    const challenge = new Bun.CryptoHasher('sha256').update(verifier).digest('base64url')
    const isGood =
      grant?.challenge === challenge &&
      grant.redirect_uri === form.get('redirect_uri') &&
      grant.client_id === form.get('client_id')
    return isGood ? give() : refuse('invalid_grant')
  }

  async function answer(request: Request, url: URL): Promise<Response> {
    const { origin } = url
    switch (url.pathname) {
      case '/.well-known/oauth-authorization-server':
        return Response.json({
          issuer: origin,
          authorization_endpoint: `${origin}/authorize`,
          token_endpoint: `${origin}/token`,
          registration_endpoint: `${origin}/register`,
          revocation_endpoint: `${origin}/revoke`,
          response_types_supported: ['code'],
          code_challenge_methods_supported: ['S256'],
          token_endpoint_auth_methods_supported: ['none'],
          ...server.lies.metadata,
        })
      case '/register': {
        server.asked.push('register')
        const client_id = `client-${clients.size + 1}`
        const client = { ...((await request.json()) as Json), client_id }
        clients.set(client_id, client)
        return Response.json(client, { status: 201 })
      }
      case '/token':
        return exchange(new URLSearchParams(await request.text()))
      case '/revoke': {
        const token = new URLSearchParams(await request.text()).get('token') ?? ''
        server.asked.push(`revoke ${token}`)
        return new Response(null, { status: 200 })
      }
      default:
        return new Response(null, { status: 404 })
    }
  }

  const options = { port: 0, hostname: '127.0.0.1' }
  const own = Bun.serve({
    ...options,
    async fetch(request) {
      const url = new URL(request.url)
      return (await server.lies.answer?.(url)) ?? answer(request, url)
    },
  })
  const issuer = `http://127.0.0.1:${own.port}`
  const door = Bun.serve({
    ...options,
    async fetch(request) {
      const { pathname, origin } = new URL(request.url)
      if (pathname === '/metadata')
        return Response.json({
          ...{ resource: `${origin}/mcp`, authorization_servers: [issuer] },
          ...{ scopes_supported: ['read'], ...server.lies.resource },
        })
      if (access.has((request.headers.get('authorization') ?? '').replace('Bearer ', '')))
        return fetch(new Request(upstream, request))
      const header = `Bearer resource_metadata="${origin}/metadata"`
      return new Response(null, { status: 401, headers: { 'www-authenticate': header } })
    },
  })
  const server: TestAuthorization = {
    ...{ url: `http://127.0.0.1:${door.port}/mcp`, issuer, host: `127.0.0.1:${own.port}` },
    ...{ asked: [], lies: {}, life: 600 },
    refuseTokens: () => access.clear(),
    refuseRefreshes: () => refreshes.clear(),
    consent(address) {
      const { searchParams } = new URL(address)
      const code = `code-${codes.size + 1}`
      const redirect_uri = searchParams.get('redirect_uri') ?? ''
      codes.set(code, {
        client_id: searchParams.get('client_id') ?? '',
        challenge: searchParams.get('code_challenge') ?? '',
        redirect_uri,
      })
      const back = new URL(redirect_uri)
      back.searchParams.set('code', code)
      back.searchParams.set('state', searchParams.get('state') ?? '')
      return back
    },
    stop: () => Promise.all([own.stop(true), door.stop(true)]),
  }
  return server
}
