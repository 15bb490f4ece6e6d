import type { Static, TSchema } from '@sinclair/typebox'

/** Who may ask for an operation over HTTP: a management key, any key, or anyone. */
export type Access = 'management' | 'key' | 'open'

/** What the operations of a noun have in common. */
export interface Resource<Level extends Access = Access> {
  /** Their heading in the description. */
  tag: string
  access: Level
  /** Whether members may do it too, about what is their own, in a session of the console. */
  members?: true
  /** The descriptions of the names in their paths. Every name in a path needs one. */
  params?: Record<string, string>
}

export type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'

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

/** How an operation is asked for over HTTP. */
export interface Route {
  method: Method
  path: string
  /** Its name in clients. */
  id: string
  summary: string
  options: RouteOptions<TSchema | undefined, TSchema | undefined, never>
}

/** A function of an operation, whatever it takes. */
export type Run<World = never, Caller = never> = (
  world: World,
  actor: Caller,
  ...input: never[]
) => unknown

/** What can be done with a noun: a core function, and what each door needs to know of it. */
export interface Operation<Does = Run> {
  /** Gets the world, the actor, the path's parameters in their order, then the input. */
  run: Does
  /** What its input matches at the terminal; undefined without input. */
  schema: TSchema | undefined
  /** Undefined for what only the terminal of the server's host does. */
  route?: Route
}

/** What can be done with a noun, by the words of its commands. */
export interface Noun<Level extends Access, Operations> extends Resource<Level> {
  operations: Operations
}

/** Defines what can be done with a noun, over HTTP and at the terminal. */
export const defineNoun = <Level extends Access, Operations extends Record<string, Operation>>(
  resource: Resource<Level>,
  operations: Operations,
): Noun<Level, Operations> => ({ ...resource, operations })

/** Returns the names in a path, in their order. */
export const findNames = (path: string): string[] => path.match(/(?<=:)\w+/g) ?? []

/**
 * Defines one operation that has a route: its method and path, its id in clients, its summary, the
 * core function that it calls, and its options. The function gets the world, the actor, the path's
 * parameters in their order, then the body, then the query. Its result is the answer. `terminal` is
 * what it takes there, where that is more.
 */
export function defineOperation<
  World,
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
    world: World,
    actor: Caller,
    ...input: [...PathParams<Path>, ...InputOf<Body>, ...InputOf<Query>]
  ) => Answer | Promise<Answer>,
  { terminal, ...options }: RouteOptions<Body, Query, Answer> & { terminal?: TSchema } = {},
): Operation<typeof run> {
  const [method, path] = methodAndPath.split(' ') as [Method, string]
  const schema = terminal ?? options.body ?? options.query
  return { run, schema, route: { method, path, id, summary, options } }
}

/** Defines one operation that only the terminal of the server's host does. */
export const defineTerminalOperation = <Does>(run: Does, schema?: TSchema): Operation<Does> => ({
  run,
  schema,
})
