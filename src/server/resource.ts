import type { Static, TSchema } from '@sinclair/typebox'
import { type AnyElysia, type Context, Elysia } from 'elysia'
import type { Gateway } from '../app/gateway.ts'
import { isObject } from '../base/json.ts'
import { lowerUuid } from '../base/schema.ts'
import { closeSchema } from '../base/schema-builders.ts'
import type { Actor } from '../resources/actor.ts'
import { allowAnyone, requireKey, requireManagementKey } from './access.ts'
import { readBody, readQuery } from './body.ts'
import { describeOperation } from './operation.ts'

/** Who may use a resource's routes: the guard, and the statuses of its refusals. */
const ACCESS = {
  management: { guard: requireManagementKey, refusals: [401, 403, 429] },
  key: { guard: requireKey, refusals: [401] },
  open: { guard: allowAnyone, refusals: [] },
}
type Access = keyof typeof ACCESS
type ActorFor<Level extends Access> = Level extends 'open' ? null : Actor

/** What the routes of a resource have in common. */
interface Resource<Level extends Access> {
  /** Their heading in the description. */
  tag: string
  access: Level
  /** The descriptions of the names in their paths. Every name in a path needs one. */
  params?: Record<string, string>
}

type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'

/** A string for every name in a path: `/workspaces/:id/budgets/:interval` has two. */
type PathParams<Path> = Path extends `${string}:${string}/${infer Rest}`
  ? [string, ...PathParams<Rest>]
  : Path extends `${string}:${string}`
    ? [string]
    : []

type InputOf<Schema> = Schema extends TSchema ? [Static<Schema>] : []

/** What a route takes and answers with, as far as its path and its resource do not define it. */
interface RouteOptions<Body, Query, Answer> {
  body?: Body
  query?: Query
  /** The status of its answers, if it is not 200. */
  status?: number
  /** The statuses of its refusals that do not follow from its access, path and input. */
  refusals?: number[]
  /** Returns the path of what was started, for the header `Location`. Needs its own status. */
  location?: (answer: Answer) => string
  /** Its heading, if it is not its resource's. */
  tag?: string
}

/** One row of a resource's table. `Caller` is the actor that its function takes. */
interface Route<Caller> {
  method: Method
  path: string
  id: string
  summary: string
  options: RouteOptions<TSchema | undefined, TSchema | undefined, never>
  run: (gateway: Gateway, actor: Caller, ...input: unknown[]) => unknown
}

/**
 * Defines one route: its method and path, the operation's id in clients, its summary, the core
 * function that it calls, and its options. The function gets the gateway, the actor, the path's
 * parameters in their order, then the body, then the query. Its result is the answer.
 */
export function defineRoute<
  Caller,
  Answer,
  Path extends string,
  Body extends TSchema | undefined = undefined,
  Query extends TSchema | undefined = undefined,
>(
  methodAndPath: `${Method} ${Path}`,
  id: string,
  summary: string,
  run: (
    gateway: Gateway,
    actor: Caller,
    ...input: [...PathParams<Path>, ...InputOf<Body>, ...InputOf<Query>]
  ) => Answer | Promise<Answer>,
  options: RouteOptions<Body, Query, Answer> = {},
): Route<Caller> {
  const [method, path] = methodAndPath.split(' ') as [Method, string]
  return { method, path, id, summary, options, run: run as Route<Caller>['run'] }
}

/**
 * Defines the routes of a resource, in the order of its table. Each has the guard of the resource's
 * access. Throws when a path has a name that `params` does not describe.
 */
export const defineResource =
  <Level extends Access>(resource: Resource<Level>, routes: Route<ActorFor<Level>>[]) =>
  (gateway: Gateway): AnyElysia => {
    const app: AnyElysia = new Elysia().use(ACCESS[resource.access].guard(gateway))
    for (const row of routes) {
      const handler = createHandler(gateway, row) as (context: object) => unknown
      app.route(row.method, row.path, handler, describeRoute(resource, row))
    }
    return app
  }

interface GuardedContext extends Pick<Context, 'params' | 'request' | 'set'> {
  actor: never
}

// Elysia inspects the source of a handler for what it uses, and a handler that uses `set` answers
// with another Content-Type. Hence there are two.
function createHandler(gateway: Gateway, row: Route<never>): (context: never) => unknown {
  const { status = 200, location } = row.options
  const input = closeInput(row.options)
  if (status === 200) {
    return ({ actor, params, request }: GuardedContext) =>
      runRoute(row, input, gateway, { actor, params, request })
  }
  return async ({ actor, params, request, set }: GuardedContext) => {
    const answer = await runRoute(row, input, gateway, { actor, params, request })
    set.status = status
    if (location) set.headers.location = location(answer as never)
    return answer
  }
}

async function runRoute(
  { path, run }: Route<never>,
  { body, query }: Input,
  gateway: Gateway,
  { actor, params, request }: Pick<GuardedContext, 'actor' | 'params' | 'request'>,
): Promise<unknown> {
  const input: unknown[] = findNames(path).map(name => lowerUuid(params[name] ?? ''))
  if (body) input.push(lowerUuids(body, await readBody(request, body)))
  if (query) input.push(readQuery(request, query))
  return run(gateway, actor, ...input)
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

const findNames = (path: string): string[] => path.match(/(?<=:)\w+/g) ?? []

function describeRoute({ tag, access, params = {} }: Resource<Access>, row: Route<never>) {
  const { status = 200, refusals = [] } = row.options
  const { body, query } = closeInput(row.options)
  const described = findNames(row.path).map(name => [name, describeParam(name, params)])
  const implied = [
    body || query ? 400 : [],
    ACCESS[access].refusals,
    described.length > 0 ? 404 : [],
  ]
  return describeOperation({
    id: row.id,
    tag: row.options.tag ?? tag,
    summary: row.summary,
    ...(access === 'open' ? { open: true } : {}),
    ...(body ? { body } : {}),
    ...(query ? { query } : {}),
    ...(described.length > 0 ? { params: Object.fromEntries(described) } : {}),
    statuses: [status, ...[...new Set([...implied.flat(), ...refusals, 500])].toSorted(byNumber)],
  })
}

const byNumber = (one: number, other: number): number => one - other

function describeParam(name: string, params: Record<string, string>): string {
  const meaning = params[name]
  if (meaning === undefined) throw new Error(`The path parameter :${name} has no description`)
  return meaning
}
