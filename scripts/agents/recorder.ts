import { isObject, type Json, parseObject } from '../../src/base/json.ts'

/** A request of an agent, as a test sends it again. */
export interface RecordedRequest {
  /** Below `/api/v1/`; from the root where it is another client's door, with `{model}` in it. */
  path: string
  body: Json
}

/** In characters: a longer text is prose, and its beginning is kept. */
const LONGEST = 200
const KEPT = 60

/** The home that an agent was run in. */
const HOME = /\/\S*\/gateway-agent-\w+\/home-\w+/g

const INFERENCE = /^\/api\/v1\/(messages|responses|chat\/completions)$/

/** The doors of other clients: what they send names the model in its path. */
const DOORS = [/^(\/v1(?:beta)?\/models\/).+(:\w+)$/, /^(\/model\/).+(\/[\w-]+)$/]

/** Stands before the gateway, hands everything on as it is, and notes the calls of models. */
export class Recorder {
  readonly #server: Bun.Server<undefined>
  requests: RecordedRequest[] = []
  /** What the answers say was left out. */
  ignored = new Set<string>()
  /** The statuses of answers that are errors, and where they were given. */
  failures = new Set<string>()

  constructor(target: string) {
    this.#server = Bun.serve({
      ...{ hostname: '127.0.0.1', port: 0, idleTimeout: 0 },
      fetch: request => this.#handOn(request, target),
    })
  }

  get url(): string {
    return `http://127.0.0.1:${this.#server.port}`
  }

  forget(): void {
    this.requests = []
    this.ignored = new Set()
    this.failures = new Set()
  }

  /** Returns the first request of each door with these fields, and the last, which has all results. */
  pickRequests(): RecordedRequest[] {
    const first = Map.groupBy(this.requests, ({ path, body }) => path + Object.keys(body))
    return [...first.values()].flatMap(some => [...some.slice(0, 1), ...some.slice(1).slice(-1)])
  }

  stop(): Promise<void> {
    return this.#server.stop(true)
  }

  async #handOn(request: Request, target: string): Promise<Response> {
    const { pathname, search } = new URL(request.url)
    const bytes = await request.bytes()
    const headers = new Headers(request.headers)
    headers.delete('host')
    const body = bytes.length === 0 ? {} : { body: bytes }
    const answer = await fetch(target + pathname + search, {
      ...{ method: request.method, headers, ...body, decompress: false, signal: request.signal },
    })
    this.#note(readPath(pathname, search), bytes, answer)
    return answer
  }

  #note(path: string | undefined, bytes: Uint8Array, { status, headers }: Response): void {
    if (path === undefined) return
    if (status >= 400) {
      this.failures.add(`${status} at ${path}`)
      return
    }
    for (const name of headers.get('x-gateway-ignored')?.split(', ') ?? []) this.ignored.add(name)
    const body = parseObject(new TextDecoder().decode(bytes))
    if (body) this.requests.push({ path, body: shorten(body) as Json })
  }
}

/** Undefined for what is no call of a model. */
function readPath(pathname: string, search: string): string | undefined {
  const [, before, action] = DOORS.flatMap(door => door.exec(pathname) ?? [])
  return action ? `${before}{model}${action}${search}` : INFERENCE.exec(pathname)?.[1]
}

/** Cuts the texts of a value, so that a fixture has the shape of a request and not its prose. */
function shorten(value: unknown): unknown {
  if (typeof value === 'string') return cut(value.replaceAll(HOME, '/home/user'))
  if (Array.isArray(value)) return value.map(shorten)
  if (!isObject(value)) return value
  return Object.fromEntries(Object.entries(value).map(([name, item]) => [name, shorten(item)]))
}

const cut = (text: string): string => (text.length > LONGEST ? `${text.slice(0, KEPT)}…` : text)
