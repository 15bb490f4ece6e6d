import type { TSchema } from '@sinclair/typebox'
import { type AnyElysia, type Context, Elysia } from 'elysia'
import type { Gateway } from '../app/gateway.ts'
import { isObject } from '../base/json.ts'
import { lowerUuid } from '../base/schema.ts'
import { closeSchema } from '../base/schema-builders.ts'
import type { Actor } from '../resources/actor.ts'
import {
  type Access,
  findNames,
  type Noun,
  type Operation,
  type Resource,
  type Route,
  type Run,
} from '../resources/operation.ts'
import { allowAnyone, requireKeyOrSession, requireManagementKey } from './access.ts'
import { readBody, readQuery } from './body.ts'
import { describeOperation } from './operation.ts'

/** Who may use a resource's routes: the guard, and the statuses of its refusals. */
const ACCESS = {
  management: { guard: requireManagementKey, refusals: [401, 403, 429] },
  key: { guard: requireKeyOrSession, refusals: [401] },
  open: { guard: allowAnyone, refusals: [] },
} satisfies Record<Access, object>

type ActorFor<Level extends Access> = Level extends 'open' ? null : Actor

/** An operation that runs in the gateway. */
type GatewayOperation<Level extends Access> = Operation<Run<Gateway, ActorFor<Level>>>

/** A route and what it runs. */
interface Row extends Route {
  run: Run<Gateway>
}

/**
 * Creates the routes of a noun: of those of its operations that have one, in the order of its table.
 * Each has the guard of the noun's access. Throws when a path has a name that `params` does not
 * describe.
 */
export function createRoutes(
  gateway: Gateway,
  { operations, ...resource }: Noun<Access, Record<string, Operation>>,
): AnyElysia {
  const app: AnyElysia = new Elysia().use(ACCESS[resource.access].guard(gateway, resource.members))
  for (const { route, run } of Object.values(operations)) {
    if (!route) continue
    const row: Row = { ...route, run: run as Run<Gateway> }
    const input = closeInput(row.options)
    const handler = createHandler(gateway, row, input) as (context: object) => unknown
    app.route(row.method, row.path, handler, describeRoute(resource, row, input))
  }
  return app
}

/** Defines routes that belong to no noun with commands, as `createRoutes` creates them. */
export const defineResource =
  <Level extends Access>(resource: Resource<Level>, operations: GatewayOperation<Level>[]) =>
  (gateway: Gateway): AnyElysia =>
    createRoutes(gateway, { ...resource, operations: Object.fromEntries(operations.entries()) })

interface GuardedContext extends Pick<Context, 'params' | 'request' | 'set'> {
  actor: never
}

// Elysia inspects the source of a handler for what it uses, and a handler that uses `set` answers
// with another Content-Type. Hence there are two.
function createHandler(gateway: Gateway, row: Row, closed: Input): (context: never) => unknown {
  const { status = 200, location } = row.options
  const input = { ...closed, names: findNames(row.path) }
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
  { run }: Row,
  { names, body, query }: Input & { names: string[] },
  gateway: Gateway,
  { actor, params, request }: Pick<GuardedContext, 'actor' | 'params' | 'request'>,
): Promise<unknown> {
  const input: unknown[] = names.map(name => lowerUuid(params[name] ?? ''))
  if (body) input.push(lowerUuids(body, await readBody(request, body)))
  if (query) input.push(readQuery(request, query))
  return run(gateway, actor, ...(input as never[]))
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
  row: Row,
  { body, query }: Input,
) {
  const { status = 200, refusals = [] } = row.options
  const described = findNames(row.path).map(name => [name, describeParam(name, params)])
  const implied = [
    body || query ? 400 : [],
    ACCESS[access].refusals,
    access === 'key' && !members ? 403 : [],
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
