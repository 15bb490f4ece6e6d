import type { TSchema } from '@sinclair/typebox'
import type { Context } from 'elysia'
import type { Gateway } from '../app/gateway.ts'
import { yieldToEventLoop } from '../base/clock.ts'
import { readPrecondition, renderTag } from '../base/entity-tag.ts'
import { isObject } from '../base/json.ts'
import { lowerUuid } from '../base/schema.ts'
import { closeSchema } from '../base/schema-builders.ts'
import type { Actor } from '../resources/actor.ts'
import {
  type Access,
  findNames,
  type Method,
  type Noun,
  type Operation,
  type Resource,
  type Route,
  type Run,
} from '../resources/operation.ts'
import {
  allowAnyone,
  type Guard,
  recheckActor,
  requireKeyOrSession,
  requireManagementKey,
} from './access.ts'
import { readBody, readQuery } from './body.ts'
import { describeOperation } from './operation.ts'
import { Routes } from './routes.ts'

/** Who may use a resource's routes: the guard, and the statuses of its refusals. */
const ACCESS = {
  management: { guard: requireManagementKey, refusals: [401, 403, 429] },
  key: { guard: requireKeyOrSession, refusals: [401] },
  open: { guard: allowAnyone, refusals: [] },
} satisfies Record<Access, object>

type ActorFor<Level extends Access> = Level extends 'open' ? null : Actor

/** An operation that runs in the gateway. */
type GatewayOperation<Level extends Access> = Operation<Run<Gateway, ActorFor<Level>>>

/** A route, what it runs, and what Elysia is told of it. */
interface Row extends Route, Input {
  run: Run<Gateway>
  names: string[]
  version: VersionRole
  hooks: ReturnType<typeof describeOperation>
}

/**
 * Defines the routes of a noun: of those of its operations that have one, in the order of its table.
 * Each has the guard of the noun's access. What does not depend on a gateway is made once. Throws
 * when a path has a name that `params` does not describe.
 */
export function defineRoutes({
  operations,
  ...resource
}: Noun<Access, Record<string, Operation>>): (gateway: Gateway) => Routes {
  const rows = buildRows(
    resource,
    Object.values(operations).flatMap(({ route, run }) =>
      route ? [{ ...route, run: run as Run<Gateway> }] : [],
    ),
  )
  const createGuard = ACCESS[resource.access].guard as (...of: GuardOptions) => Guard<object>
  return gateway => {
    const routes = new Routes(createGuard(gateway, resource.members))
    for (const row of rows) routes.add(row.method, row.path, createHandler(gateway, row), row.hooks)
    return routes
  }
}

type GuardOptions = Parameters<typeof requireManagementKey>

/** Defines routes that belong to no noun with commands, as `defineRoutes` does. */
export const defineResource = <Level extends Access>(
  resource: Resource<Level>,
  operations: GatewayOperation<Level>[],
): ((gateway: Gateway) => Routes) =>
  defineRoutes({ ...resource, operations: Object.fromEntries(operations.entries()) })

/** A route, and what it runs. */
type RunningRoute = Route & Pick<Row, 'run'>

const buildRows = (resource: Resource, routes: RunningRoute[]): Row[] =>
  routes.map(route => {
    const input = closeInput(route.options)
    const names = findNames(route.path)
    const version = findVersionRole(routes, route)
    const hooks = describeRoute(resource, route, names, input, version)
    return { ...route, ...input, names, version, hooks }
  })

/**
 * What a route has to do with versions: it reads what `PATCH` changes, and answers with its tag, or
 * is that `PATCH` or the `DELETE` beside it, which may require one.
 */
type VersionRole = { reads: true } | { changes: RunningRoute } | undefined

function findVersionRole(routes: RunningRoute[], { method, path }: Route): VersionRole {
  const find = (wanted: Method) => routes.find(one => one.method === wanted && one.path === path)
  const reader = find('GET')
  if (!reader || !find('PATCH')) return undefined
  return method === 'GET' ? { reads: true } : { changes: reader }
}

interface GuardedContext extends Pick<Context, 'params' | 'request' | 'set'> {
  actor: never
}

// Elysia inspects the source of a handler for what it uses, and a handler that uses `set` answers
// with another Content-Type. Hence there are two.
function createHandler(gateway: Gateway, row: Row): (context: never) => unknown {
  const { status = 200, location } = row.options
  const { version } = row
  if (version && 'reads' in version) {
    return async ({ set, ...context }: GuardedContext) => {
      const { answer, etag } = await readTagged(gateway, () => runRoute(row, gateway, context))
      set.headers.etag = etag
      return answer
    }
  }
  if (version) {
    const reader = { run: version.changes.run, names: row.names }
    return async ({ actor, params, request }: GuardedContext) => {
      const read = () => runRoute(reader, gateway, { actor, params, request })
      const bind = () => bindVersion(gateway, request, actor, read)
      return runRoute(row, gateway, { actor, params, request }, bind)
    }
  }
  if (status === 200) {
    return ({ actor, params, request }: GuardedContext) =>
      runRoute(row, gateway, { actor, params, request })
  }
  return async ({ actor, params, request, set }: GuardedContext) => {
    const answer = await runRoute(row, gateway, { actor, params, request })
    set.status = status
    if (location) set.headers.location = location(answer as never)
    return answer
  }
}

const readId = (answer: unknown): string => {
  const { data } = answer as { data: { id?: string; hash?: string } }
  return data.id ?? data.hash ?? ''
}

/**
 * Reads a thing with its tag. The tag is read before: with one that is older than what it is for, a
 * change is refused that could be made; with one that is newer, another's change would be lost.
 */
async function readTagged(gateway: Gateway, read: () => Promise<unknown>) {
  const version = await gateway.store.audit.readVersion(readId(await read()))
  // What this process has written is in memory by then, and what others have.
  await yieldToEventLoop()
  await gateway.catchUp()
  return { answer: await read(), etag: renderTag({ version }) }
}

/**
 * Adds to an actor the version that a request requires, of the thing that has its name once all else
 * is there: a body may take long. Throws 400, and what reading throws.
 */
async function bindVersion(
  gateway: Gateway,
  request: Request,
  actor: Actor,
  read: () => Promise<unknown>,
): Promise<Actor> {
  const { ifMatch } = readPrecondition(request)
  if (ifMatch === null) return actor
  // The version is that of the store: what it is of has to be here, too.
  await gateway.catchUp()
  return { ...actor, requires: { id: readId(await read()), ifMatch } }
}

/** Runs a route. `bind` is what makes its actor once all that it takes is there. */
async function runRoute(
  { run, names, body, query }: Pick<Row, 'run' | 'names'> & Input,
  gateway: Gateway,
  { actor, params, request }: Pick<GuardedContext, 'actor' | 'params' | 'request'>,
  bind?: () => Promise<Actor>,
): Promise<unknown> {
  const input: unknown[] = names.map(name => lowerUuid(params[name] ?? ''))
  if (body) {
    input.push(lowerUuids(body, await readBody(request, body)))
    if (actor) await recheckActor(gateway, request, actor)
  }
  if (query) input.push(readQuery(request, query))
  const bound = bind ? await bind() : actor
  return run(gateway, bound as never, ...(input as never[]))
}

/** Writes the ids of other nouns as they are stored. */
function lowerUuids(schema: TSchema, body: unknown): unknown {
  const properties: Record<string, TSchema> = schema.properties ?? {}
  const ids = Object.keys(properties).filter(name => properties[name]?.format === 'uuid')
  if (!isObject(body) || ids.every(name => typeof body[name] !== 'string')) return body
  const lowered = ids.flatMap(name => {
    const id = body[name]
    return typeof id === 'string' ? [[name, lowerUuid(id)]] : []
  })
  return { ...body, ...Object.fromEntries(lowered) }
}

/** The schemas of what a route takes. */
interface Input {
  body?: TSchema | undefined
  query?: TSchema | undefined
}

/** What these operations take restricts, protects or configures: what it does not know is refused. */
const closeInput = ({ body, query }: Input): Input => ({
  ...(body ? { body: closeSchema(body) } : {}),
  ...(query ? { query: closeSchema(query) } : {}),
})

function describeRoute(
  { tag, access, members, params = {} }: Resource,
  { id, summary, options }: Route,
  names: string[],
  { body, query }: Input,
  version: VersionRole,
) {
  const isConditional = version !== undefined && 'changes' in version
  const { status = 200, refusals = [] } = options
  const described = names.map(name => [name, describeParam(name, params)])
  const implied = [
    body || query || isConditional ? 400 : [],
    ACCESS[access].refusals,
    access === 'key' && !members ? 403 : [],
    described.length > 0 ? 404 : [],
    isConditional ? 412 : [],
  ]
  return describeOperation({
    id,
    tag: options.tag ?? tag,
    summary,
    ...(access === 'open' ? { open: true } : {}),
    ...(body ? { body } : {}),
    ...(query ? { query } : {}),
    ...(described.length > 0 ? { params: Object.fromEntries(described) } : {}),
    ...(isConditional ? { headers: { 'If-Match': [] } } : {}),
    ...(version && !isConditional ? { hasTag: true as const } : {}),
    statuses: [status, ...[...new Set([...implied.flat(), ...refusals, 500])].toSorted(byNumber)],
  })
}

const byNumber = (one: number, other: number): number => one - other

function describeParam(name: string, params: Record<string, string>): string {
  const meaning = params[name]
  if (meaning === undefined) throw new Error(`The path parameter :${name} has no description`)
  return meaning
}
