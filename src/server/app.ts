import { type AnyElysia, Elysia } from 'elysia'
import { GatewayError } from '../core/errors.ts'
import type { Gateway } from '../core/gateway.ts'
import { guardOf } from './access.ts'
import { errorResponse } from './errors.ts'
import { requestIdOf } from './headers.ts'
import { type DescribedRoute, describedRoutes } from './openapi.ts'
import { audit } from './routes/audit.ts'
import { budgets } from './routes/budgets.ts'
import { byok } from './routes/byok.ts'
import { credits } from './routes/credits.ts'
import { description } from './routes/description.ts'
import { generation } from './routes/generation.ts'
import { guardrails } from './routes/guardrails.ts'
import { inference } from './routes/inference.ts'
import { key } from './routes/key.ts'
import { keys } from './routes/keys.ts'
import { members } from './routes/members.ts'
import { models } from './routes/models.ts'
import { presets } from './routes/presets.ts'
import { providers } from './routes/providers.ts'
import { provisioning } from './routes/scim/provisioning.ts'
import { scim } from './routes/scim.ts'
import { site } from './routes/site.ts'
import { workspaces } from './routes/workspaces.ts'

/**
 * Creates the app: the table of contents of the API. Throws when a route declares neither a
 * required credential nor that it needs none.
 */
export function createApp(gateway: Gateway, siteUrl = 'http://localhost') {
  const about = {
    get title() {
      return gateway.config.service_name
    },
    url: siteUrl,
  }
  const app: AnyElysia = new Elysia({ normalize: false })
    .onError(({ error, request }) => refused(app, error, request, gateway.ids.uuid()))
    .use(site(gateway))
    .use(description(() => app, about))
    .group('/api/v1', api =>
      api
        .use(inference(gateway))
        .use(keys(gateway))
        .use(key(gateway))
        .use(presets(gateway))
        .use(byok(gateway))
        .use(scim(gateway))
        .use(provisioning(gateway, siteUrl))
        .use(workspaces(gateway))
        .use(members(gateway))
        .use(budgets(gateway))
        .use(audit(gateway))
        .use(credits(gateway))
        .use(guardrails(gateway))
        .use(generation(gateway))
        .use(models(gateway, siteUrl))
        .use(providers(gateway)),
    )
  for (const route of app.routes) refuseUndeclared(route)
  return app
}

function refuseUndeclared({ method, path, hooks }: AnyElysia['routes'][number]): void {
  const described = (hooks as { detail?: { 'x-operation'?: { open?: boolean } } }).detail?.[
    'x-operation'
  ]
  if (described && (described.open === true) === (guardOf(hooks) === undefined)) return
  throw new Error(`${method} ${path} does not declare who may use it`)
}

// A route may have its own form of refusals. It also applies to failures before the route runs,
// such as an invalid key.
function refused(app: AnyElysia, error: unknown, request: Request, id: string): Response {
  const routes = routesAt(app, pathOf(request))
  const refusal = routes.find(route => route.method === methodOf(request))?.operation.refusal
  const envelope = refusal && ((failure: GatewayError) => refusal.envelope(failure, null))
  const headers = refusal?.contentType ? { 'content-type': refusal.contentType } : {}
  return errorResponse(
    explained(routes, error, request),
    requestIdOf(request, id),
    headers,
    envelope,
  )
}

// A HEAD is answered as the GET would be, without the body (RFC 9110, 9.3.2).
const methodOf = ({ method }: Request) => (method === 'HEAD' ? 'GET' : method)

const routesAt = (app: AnyElysia, path: string) =>
  describedRoutes(app)
    .filter(route => matches(route.path, path))
    .map(route => ({ ...route, method: route.method.toUpperCase() }))

// A path that exists under another method is not missing: the method is wrong (RFC 9110, 15.5.6).
function explained(routes: DescribedRoute[], error: unknown, request: Request): unknown {
  if (
    !(typeof error === 'object' && error !== null && 'code' in error && error.code === 'NOT_FOUND')
  )
    return error
  const allowed = routes.map(route => route.method)
  if (allowed.length === 0 || allowed.includes(request.method)) return error
  return new GatewayError(
    'invalid_request',
    `Method not allowed: expected ${allowed.join(' or ')}`,
    {
      status: 405,
      metadata: { allow: allowed },
    },
  )
}

const pathOf = (request: Request) =>
  URL.canParse(request.url) ? new URL(request.url).pathname.replace(/(?<=.)\/$/, '') : ''

function matches(pattern: string, path: string): boolean {
  const wanted = pattern.split('/')
  const given = path.split('/')
  return (
    wanted.length === given.length &&
    wanted.every((part, i) => part.startsWith(':') || part === given[i])
  )
}
