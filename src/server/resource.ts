import type { Static, TSchema } from '@sinclair/typebox'
import { type AnyElysia, type Context, Elysia } from 'elysia'
import type { Gateway } from '../core/gateway.ts'
import type { Actor } from '../core/identity/actor.ts'
import { anyKey, managementKey, nobody } from './access.ts'
import { readBody, readQuery } from './body.ts'
import { operation } from './operation.ts'

/** Who may use a noun's routes: the guard that asks, and the statuses with which it refuses. */
const ACCESS = {
  management: { guard: managementKey, refusals: [401, 403] },
  key: { guard: anyKey, refusals: [401] },
  open: { guard: nobody, refusals: [] },
}
type Access = keyof typeof ACCESS
type ActorBehind<Door extends Access> = Door extends 'open' ? null : Actor

/** What the routes of a noun have in common. */
interface Noun<Door extends Access> {
  /** The heading in the description under which they stand. */
  tag: string
  access: Door
  /** What the names in their paths mean. Every name in a path has to be here. */
  params?: Record<string, string>
}

type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'

/** A text for every name in a path: `/workspaces/:id/budgets/:interval` has two. */
type ParamsIn<Path> = Path extends `${string}:${string}/${infer Rest}`
  ? [string, ...ParamsIn<Rest>]
  : Path extends `${string}:${string}`
    ? [string]
    : []

type InputFor<Schema> = Schema extends TSchema ? [Static<Schema>] : []

/** What a route takes and answers with, besides what its path and its noun's access say of it. */
interface Terms<Body, Query, Answer> {
  body?: Body
  query?: Query
  /** The status of its answers, where it is not 200. */
  status?: number
  /** The statuses of its refusals that do not follow from its access, path and input. */
  refusals?: number[]
  /** The path of what was begun, for the header `Location`. Needs a status of its own. */
  location?: (answer: Answer) => string
  /** Another heading than its noun's. */
  tag?: string
}

/** One line of a noun's table. `Caller` is the actor that its function takes. */
interface Route<Caller> {
  method: Method
  path: string
  id: string
  summary: string
  terms: Terms<TSchema | undefined, TSchema | undefined, never>
  run: (gateway: Gateway, actor: Caller, ...input: unknown[]) => unknown
}

/**
 * Describes one route: its method and path, the operation's id in clients, its summary, the core
 * function that it calls, and what it takes. The function gets the gateway, the actor, the texts
 * in the path in their order, then the body, then the query. What it returns is the answer.
 */
export function route<
  Caller,
  Answer,
  Path extends string,
  Body extends TSchema | undefined = undefined,
  Query extends TSchema | undefined = undefined,
>(
  at: `${Method} ${Path}`,
  id: string,
  summary: string,
  run: (
    gateway: Gateway,
    actor: Caller,
    ...input: [...ParamsIn<Path>, ...InputFor<Body>, ...InputFor<Query>]
  ) => Answer | Promise<Answer>,
  terms: Terms<Body, Query, Answer> = {},
): Route<Caller> {
  const [method, path] = at.split(' ') as [Method, string]
  return { method, path, id, summary, terms, run: run as Route<Caller>['run'] }
}

/**
 * Makes the routes of a noun, in the order of its table. Each has the guard of the noun's access.
 * Throws when a path has a name that `params` does not explain.
 */
export const defineResource =
  <Door extends Access>(noun: Noun<Door>, routes: Route<ActorBehind<Door>>[]) =>
  (gateway: Gateway): AnyElysia => {
    const app: AnyElysia = new Elysia().use(ACCESS[noun.access].guard(gateway))
    for (const row of routes) {
      const handler = makeHandler(gateway, row) as (context: object) => unknown
      app.route(row.method, row.path, handler, describeRoute(noun, row))
    }
    return app
  }

interface GuardedContext extends Pick<Context, 'params' | 'request' | 'set'> {
  actor: never
}

// Elysia reads the text of a handler for what it uses, and one that uses `set` is answered with
// another Content-Type. Hence two of them.
function makeHandler(gateway: Gateway, row: Route<never>): (context: never) => unknown {
  const { status = 200, location } = row.terms
  if (status === 200) {
    return ({ actor, params, request }: GuardedContext) =>
      runRoute(row, gateway, actor, params, request)
  }
  return async ({ actor, params, request, set }: GuardedContext) => {
    const answer = await runRoute(row, gateway, actor, params, request)
    set.status = status
    if (location) set.headers.location = location(answer as never)
    return answer
  }
}

async function runRoute(
  { path, terms: { body, query }, run }: Route<never>,
  gateway: Gateway,
  actor: never,
  params: Record<string, string>,
  request: Request,
): Promise<unknown> {
  const input: unknown[] = findNames(path).map(name => params[name])
  if (body) input.push(await readBody(request, body))
  if (query) input.push(readQuery(request.url, query))
  return run(gateway, actor, ...input)
}

const findNames = (path: string): string[] => path.match(/(?<=:)\w+/g) ?? []

function describeRoute({ tag, access, params = {} }: Noun<Access>, row: Route<never>) {
  const { body, query, status = 200, refusals = [] } = row.terms
  const named = findNames(row.path).map(name => [name, explain(name, params)])
  const follow = [body || query ? 400 : [], ACCESS[access].refusals, named.length > 0 ? 404 : []]
  return operation({
    id: row.id,
    tag: row.terms.tag ?? tag,
    summary: row.summary,
    ...(access === 'open' ? { open: true } : {}),
    ...(body ? { body } : {}),
    ...(query ? { query } : {}),
    ...(named.length > 0 ? { params: Object.fromEntries(named) } : {}),
    statuses: [status, ...new Set([...follow.flat(), ...refusals, 500])],
  })
}

function explain(name: string, params: Record<string, string>): string {
  const meaning = params[name]
  if (meaning === undefined) throw new Error(`Nothing says what :${name} means`)
  return meaning
}
