import type { AnyElysia, Context } from 'elysia'
import { findRequiredCredential, type Guard } from './access.ts'
import type { describeOperation } from './operation.ts'

type Hooks = ReturnType<typeof describeOperation>

/** What a handler gets: the request, what its path names, and what its guard has found. */
type RouteContext<Path extends string, Found> = Found &
  Pick<Context, 'request' | 'set'> & { params: Record<NameIn<Path>, string> }

type NameIn<Path extends string> = Path extends `${string}:${infer Name}/${infer Rest}`
  ? Name | NameIn<`/${Rest}`>
  : Path extends `${string}:${infer Name}`
    ? Name
    : never

type Step = (context: { request: Request }) => unknown

interface GuardedRoute {
  method: string
  path: string
  handle: unknown
  hooks: Hooks
}

/**
 * Routes behind one guard, which runs before a body is read. An app gets each of them once: in apps
 * within apps, every level would add it again.
 */
export class Routes<Found extends object = object> {
  readonly list: GuardedRoute[] = []
  readonly steps: Step[]
  readonly #prefix: string

  constructor(guard: Guard<Found>, prefix = '') {
    this.steps = [guard]
    this.#prefix = prefix
  }

  /** Has this look at every request first. It may throw. */
  before(look: Step): this {
    this.steps.unshift(look)
    return this
  }

  add(method: string, path: string, handle: unknown, hooks: Hooks): this {
    this.list.push({ method, path: this.#prefix + path, handle, hooks })
    return this
  }

  readonly get = this.#define('GET')
  readonly post = this.#define('POST')
  readonly put = this.#define('PUT')
  readonly patch = this.#define('PATCH')
  readonly delete = this.#define('DELETE')

  #define(method: string) {
    return <Path extends string>(path: Path, handle: Handler<Path, Found>, hooks: Hooks): this =>
      this.add(method, path, handle, hooks)
  }
}

type Handler<Path extends string, Found> = (context: RouteContext<Path, Found>) => unknown

/**
 * Adds routes to an app, below a prefix. Throws when one declares neither the credential that its
 * guard requires nor that it needs none.
 */
export function addRoutes(app: AnyElysia, groups: Routes[], prefix = ''): void {
  for (const { list, steps } of groups) {
    const transform = steps.map(fn => ({ fn, subType: 'derive' }))
    const isOpen = findRequiredCredential({ transform }) === undefined
    for (const { method, path, handle, hooks } of list) {
      if ((hooks.detail['x-operation'].open === true) !== isOpen)
        throw new Error(`${method} ${prefix}${path} does not declare who may use it`)
      app.route(method, prefix + path, handle as never, { ...hooks, transform } as never)
    }
  }
}
