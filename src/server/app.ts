import { type AnyElysia, Elysia } from 'elysia'
import { GatewayError } from '../core/errors.ts'
import type { Gateway } from '../core/gateway.ts'
import { isGuarded } from './access.ts'
import { errorResponse } from './errors.ts'
import { requestIdOf } from './headers.ts'
import { describedRoutes } from './openapi.ts'
import { chat } from './routes/chat.ts'
import { description } from './routes/description.ts'
import { generation } from './routes/generation.ts'
import { key } from './routes/key.ts'
import { keys } from './routes/keys.ts'
import { models } from './routes/models.ts'
import { site } from './routes/site.ts'

/** The table of contents of the API. Throws when a route says neither who may use it nor that everybody may. */
export function createApp(gateway: Gateway, siteUrl = 'http://localhost') {
  const about = { title: gateway.config.service_name, url: siteUrl }
  const app: AnyElysia = new Elysia({ normalize: false })
    .onError(({ error, request }) => errorResponse(explained(app, error, request), requestIdOf(request, gateway.ids.uuid())))
    .use(site(gateway))
    .use(description(() => app, about))
    .group('/api/v1', api => api.use(chat(gateway)).use(keys(gateway)).use(key(gateway)).use(generation(gateway)).use(models(gateway)))
  for (const route of app.routes) refuseUndeclared(route)
  return app
}

function refuseUndeclared({ method, path, hooks }: AnyElysia['routes'][number]): void {
  const described = (hooks as { detail?: { 'x-operation'?: { open?: boolean } } }).detail?.['x-operation']
  if (described && (described.open === true) !== isGuarded(hooks)) return
  throw new Error(`${method} ${path} does not declare who may use it`)
}

// A path that exists under another method is not missing: its method is wrong (RFC 9110, 15.5.6).
function explained(app: AnyElysia, error: unknown, request: Request): unknown {
  if (!(typeof error === 'object' && error !== null && 'code' in error && error.code === 'NOT_FOUND')) return error
  const path = pathOf(request)
  const allowed = describedRoutes(app)
    .filter(route => matches(route.path, path))
    .map(route => route.method.toUpperCase())
  if (allowed.length === 0 || allowed.includes(request.method)) return error
  return new GatewayError('invalid_request', `Method not allowed: expected ${allowed.join(' or ')}`, {
    status: 405,
    metadata: { allow: allowed },
  })
}

const pathOf = (request: Request) => (URL.canParse(request.url) ? new URL(request.url).pathname.replace(/(?<=.)\/$/, '') : '')

function matches(pattern: string, path: string): boolean {
  const wanted = pattern.split('/')
  const given = path.split('/')
  return wanted.length === given.length && wanted.every((part, i) => part.startsWith(':') || part === given[i])
}
