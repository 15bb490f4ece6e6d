/** What the API has refused, in its own words. */
export class ApiError extends Error {
  readonly status: number

  constructor(status: number, message: string) {
    super(message)
    this.status = status
  }
}

/** Who is signed in, and what the page says of the gateway. */
export interface Who {
  service_name: string
  version: string
  has_sign_in: boolean
  default_model: string
  session: OwnSession | null
}

/** A session, as the page knows it. */
export interface OwnSession {
  role: 'manager' | 'member'
  user_id: string
  name: string
  /** Where a member may have keys. */
  workspaces: { id: string; name: string }[]
  expires_at: string
}

/** Called when a session turns out to be over: the page asks to sign in, and keeps what it shows. */
let onSignedOut: () => void = () => undefined
export const watchSignedOut = (listener: () => void): void => {
  onSignedOut = listener
}

/** Sends a request with the session of this page. Throws an `ApiError` for whatever is refused. */
async function send(
  method: string,
  url: string,
  body?: unknown,
  tag?: string | null,
): Promise<Response> {
  const response = await request(method, url, body, tag).catch(() => {
    throw new ApiError(0, 'The gateway does not answer. It may be restarting: try again.')
  })
  if (response.ok) return response
  if (response.status === 401) onSignedOut()
  const answer = await response.json().catch(() => null)
  throw new ApiError(response.status, answer?.error?.message ?? `Refused with ${response.status}`)
}

const request = (
  method: string,
  url: string,
  body: unknown,
  tag: string | null = null,
): Promise<Response> =>
  globalThis.fetch(url, {
    method,
    cache: 'no-store',
    headers: {
      'x-gateway-console': '1',
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      ...(tag === null ? {} : { 'if-match': tag }),
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  })

/** Asks the API, and returns its JSON. */
export const ask = async <Answer>(method: string, path: string, body?: unknown): Promise<Answer> =>
  (await send(method, `/api/v1${path}`, body)).json()

/** Reads one thing, with the tag of what it is now; null where it cannot be changed. */
export async function read<Answer>(path: string): Promise<{ answer: Answer; tag: string | null }> {
  const response = await send('GET', `/api/v1${path}`)
  return { answer: await response.json(), tag: response.headers.get('etag') }
}

/** Changes or deletes what has this tag still. Throws an `ApiError` of 412 where it has another. */
export const change = async (
  method: 'PATCH' | 'DELETE',
  path: string,
  tag: string | null,
  body?: unknown,
): Promise<void> => void (await send(method, `/api/v1${path}`, body, tag))

/** Asks for what only the console has: sessions. */
export const askConsole = async <Answer>(
  method: string,
  path: string,
  body?: unknown,
): Promise<Answer> => (await send(method, `/console${path}`, body)).json()

/** Calls a model as this key: a session makes no calls. Throws an `ApiError`. */
export async function call(key: string, body: object, signal: AbortSignal): Promise<Response> {
  const response = await globalThis.fetch('/api/v1/chat/completions', {
    method: 'POST',
    credentials: 'omit',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify(body),
    signal,
  })
  if (response.ok) return response
  const answer = await response.json().catch(() => null)
  throw new ApiError(response.status, answer?.error?.message ?? `Refused with ${response.status}`)
}

/** Reads the data of server-sent events, in batches as they arrive. It ends with the stream. */
export async function* readEvents(response: Response): AsyncGenerator<string[]> {
  const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader()
  let rest = ''
  for (;;) {
    const { done, value } = (await reader?.read()) ?? { done: true, value: undefined }
    if (done) return
    const lines = (rest + value).split('\n')
    rest = lines.pop() ?? ''
    const events = lines.filter(line => line.startsWith('data: ')).map(line => line.slice(6))
    if (events.length > 0) yield events
  }
}

/** Opens the feed of what happens. */
export const openFeed = (past: number): Promise<Response> =>
  send('GET', `/api/v1/activity/stream?past=${past}`)

/** A JSON Schema, as far as forms read it. */
export interface Schema {
  type?: string | string[]
  description?: string
  title?: string
  const?: unknown
  enum?: unknown[]
  anyOf?: Schema[]
  items?: Schema
  properties?: Record<string, Schema>
  required?: string[]
  minimum?: number
  maximum?: number
  maxLength?: number
  format?: string
  default?: unknown
}

/** What the description says of one operation. */
export interface Described {
  summary: string
  description?: string
  parameters?: { name: string; in: string; description: string; schema: Schema }[]
  requestBody?: { content: { 'application/json'?: { schema: Schema } } }
}

type Description = { paths: Record<string, Record<string, Described>> }

let description: Promise<Description> | undefined

/** Reads what the API says of itself, once: forms are made of it. */
export function describe(): Promise<Description> {
  description ??= send('GET', '/openapi.json').then(response => response.json())
  description.catch(() => {
    description = undefined
  })
  return description
}
