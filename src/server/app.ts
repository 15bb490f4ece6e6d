import { type AnyElysia, Elysia } from 'elysia'
import type { Gateway } from '../app/gateway.ts'
import { GatewayError } from '../base/errors.ts'
import { budgets } from '../limits/budgets/operations.ts'
import { credits } from '../limits/credits.ts'
import { guardrails } from '../limits/guardrails/operations.ts'
import { alerts } from '../observability/alerts/operations.ts'
import { destinations } from '../observability/destinations/operations.ts'
import type { ToldMetrics } from '../observability/metrics.ts'
import { audit } from '../resources/audit.ts'
import { byok } from '../resources/byok/operations.ts'
import { keys } from '../resources/keys/operations.ts'
import { members } from '../resources/members/operations.ts'
import type { Access, Noun, Operation } from '../resources/operation.ts'
import { presets } from '../resources/presets/operations.ts'
import { groups, mappings, syncJobs } from '../resources/scim/operations.ts'
import { workspaces } from '../resources/workspaces/operations.ts'
import type { FindRequestPeer } from './calls.ts'
import { isBehindDoor } from './doors.ts'
import { createErrorResponse, isBug, isStorageFailure } from './errors.ts'
import { readPath, readRequestId } from './headers.ts'
import { type DescribedRoute, listDescribedRoutes } from './openapi.ts'
import { openOwnMetrics } from './paths.ts'
import { noteRefusal } from './refusals.ts'
import { defineRoutes } from './resource.ts'
import { createActivityRoutes } from './routes/activity.ts'
import { createAnalyticsRoutes, createQueryRoutes } from './routes/analytics.ts'
import { createAuthCodeRoutes, createAuthKeyRoutes, createConsentRoutes } from './routes/auth.ts'
import { createAzureRoutes } from './routes/azure.ts'
import { createBatchRoutes } from './routes/batches.ts'
import { createBedrockRoutes } from './routes/bedrock.ts'
import { createConsoleRoutes } from './routes/console.ts'
import { createContainerRoutes } from './routes/containers.ts'
import { createCoinbaseRoutes } from './routes/credits.ts'
import { createDatasetRoutes } from './routes/datasets.ts'
import { createDescriptionRoutes } from './routes/description.ts'
import { createFileRoutes } from './routes/files.ts'
import { createGeminiRoutes } from './routes/gemini.ts'
import { createFeedbackRoutes, createGenerationRoutes } from './routes/generation.ts'
import { createInferenceRoutes } from './routes/inference.ts'
import { createCurrentKeyRoutes } from './routes/key.ts'
import { createMcpRoutes } from './routes/mcp.ts'
import { createMessageBatchRoutes } from './routes/message-batches.ts'
import { createModelRoutes, createProviderRoutes } from './routes/models.ts'
import { createModerationRoutes } from './routes/moderations.ts'
import { createJwksRoutes, createTokenRoutes } from './routes/oauth.ts'
import { createPresetRoutes } from './routes/presets.ts'
import { createResponseRoutes } from './routes/responses.ts'
import { createProvisioningRoutes } from './routes/scim.ts'
import { createMetricsRoutes, createSiteRoutes } from './routes/site.ts'
import { createVideoRoutes } from './routes/videos.ts'
import { addRoutes } from './routes.ts'

/** The nouns, whose tables say their routes. */
const NOUNS: Noun<Access, Record<string, Operation>>[] = [
  alerts,
  audit,
  budgets,
  byok,
  credits,
  destinations,
  groups,
  guardrails,
  keys,
  mappings,
  members,
  presets,
  syncJobs,
  workspaces,
]

const NOUN_ROUTES = NOUNS.map(defineRoutes)

declare module '../base/events.ts' {
  interface EventMap {
    /** A request was answered with 500: by a bug of the gateway. */
    'request.failed': { id: string; path: string; error: unknown }
  }
}

// By default, Elysia takes the first slash after eleven characters of the URL for the start of the
// path: at a Host of three letters or fewer, that is a later one.
const OPTIONS = { normalize: false, handler: { standardHostname: false } } as const

/**
 * Creates the app: the table of contents of the API. Throws when a route declares neither a
 * required credential nor that it needs none.
 */
export function createApp(
  gateway: Gateway,
  findPeer: FindRequestPeer = () => null,
  metrics: ToldMetrics | null = openOwnMetrics(gateway),
) {
  const about = {
    get title() {
      return gateway.config.service_name
    },
    // Without a site's URL, the description's clients use the address that they found it at.
    url: gateway.config.server.site_url ?? '/',
  }
  const findRoutes = createRouteFinder(() => app)
  const app: AnyElysia = new Elysia(OPTIONS).onError(({ error, request }) => {
    const id = readRequestId(request, gateway.ids.uuid())
    noteRefusal(gateway, request, { thrown: error, id, actor: null, model: null })
    if ('code' in error && isStorageFailure(error.code))
      gateway.events.publish('store.failing', { error })
    if (isBug(error))
      gateway.events.publish('request.failed', { id, path: readPath(request), error })
    return renderRefusal(findRoutes, error, request, id)
  })
  addRoutes(app, [
    createSiteRoutes(gateway),
    ...(metrics === null ? [] : [createMetricsRoutes(gateway, metrics)]),
    createConsentRoutes(gateway, findPeer),
    createConsoleRoutes(gateway, findPeer),
    createDescriptionRoutes(() => app, about),
    ...createAzureRoutes(gateway, findPeer),
    ...createMcpRoutes(gateway, findPeer),
    ...createGeminiRoutes(gateway, findPeer),
    ...createBedrockRoutes(gateway, findPeer),
  ])
  const api = [
    ...createInferenceRoutes(gateway, findPeer),
    ...NOUN_ROUTES.map(createRoutes => createRoutes(gateway)),
    createCurrentKeyRoutes(gateway),
    createPresetRoutes(gateway),
    ...createProvisioningRoutes(gateway),
    createActivityRoutes(gateway),
    createCoinbaseRoutes(),
    createFileRoutes(gateway, findPeer),
    createBatchRoutes(gateway, findPeer),
    createMessageBatchRoutes(gateway, findPeer),
    createContainerRoutes(gateway, findPeer),
    createResponseRoutes(gateway, findPeer),
    createAuthCodeRoutes(gateway),
    createAuthKeyRoutes(gateway, findPeer),
    createTokenRoutes(gateway, findPeer),
    createJwksRoutes(gateway),
    createGenerationRoutes(gateway),
    createAnalyticsRoutes(gateway),
    createQueryRoutes(gateway),
    ...createDatasetRoutes(gateway),
    createFeedbackRoutes(gateway),
    ...createVideoRoutes(gateway),
    createModerationRoutes(gateway),
    ...createModelRoutes(gateway),
    createProviderRoutes(gateway),
  ]
  addRoutes(app, api, '/api/v1')
  return app
}

/** Creates the app of the metrics' own address. */
export function createMetricsApp(gateway: Gateway, metrics: ToldMetrics): AnyElysia {
  const findRoutes = createRouteFinder(() => app)
  const app: AnyElysia = new Elysia(OPTIONS).onError(({ error, request }) =>
    renderRefusal(findRoutes, error, request, gateway.ids.uuid()),
  )
  addRoutes(app, [createMetricsRoutes(gateway, metrics)])
  return app
}

// A route may have its own form of refusals. It also applies to failures before the route runs,
// such as an invalid key.
function renderRefusal(
  findRoutes: FindRoutes,
  error: unknown,
  request: Request,
  id: string,
): Response {
  const path = trimPath(readPath(request))
  const routes = findRoutes(path)
  const asked = routes.find(({ method }) => method === getMethod(request))
  // The clients of a door read no other form, whatever they ask.
  const refusal = (asked ?? (isBehindDoor(path) ? routes[0] : undefined))?.operation.refusal
  const envelope = refusal && {
    ...refusal,
    renderError: (failure: GatewayError) => refusal.renderError(failure, null),
  }
  const headers = refusal?.contentType ? { 'content-type': refusal.contentType } : {}
  return createErrorResponse(
    explainNotFound(routes, error, request),
    readRequestId(request, id),
    headers,
    envelope,
  )
}

// A HEAD is answered as the GET would be, without the body (RFC 9110, 9.3.2).
const getMethod = ({ method }: Request) => (method === 'HEAD' ? 'GET' : method)

/** Finds the described routes of a path, whatever their methods. */
type FindRoutes = (path: string) => DescribedRoute[]

// Anyone may be refused, so the routes of an app are listed and split once.
function createRouteFinder(getApp: () => AnyElysia): FindRoutes {
  let table: { route: DescribedRoute; parts: string[] }[] | undefined
  return path => {
    table ??= listDescribedRoutes(getApp()).map(route => ({
      route: { ...route, method: route.method.toUpperCase() },
      parts: route.path.split('/'),
    }))
    const actual = path.split('/')
    return table.filter(({ parts }) => matchesParts(parts, actual)).map(({ route }) => route)
  }
}

// A path that exists under another method is not missing: the method is wrong (RFC 9110, 15.5.6).
function explainNotFound(routes: DescribedRoute[], error: unknown, request: Request): unknown {
  if (
    !(typeof error === 'object' && error !== null && 'code' in error && error.code === 'NOT_FOUND')
  )
    return error
  const allowed = [...new Set(routes.filter(isMethodNamed).map(route => route.method))]
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

// A call with its model in the path has no path (specification, Errors 7).
const isMethodNamed = ({ operation }: DescribedRoute) => !operation.id.startsWith('retrieveModel')

const trimPath = (path: string) => path.replace(/(?<=.)\/$/, '')

function matchesParts(expected: string[], actual: string[]): boolean {
  return (
    expected.length === actual.length &&
    expected.every((part, i) => part.startsWith(':') || part === actual[i])
  )
}
