import { readPath } from './headers.ts'
import type { KeyHeader } from './operation.ts'
import { isDecodable, isModelId, moveTo, takeKey } from './request-target.ts'

/**
 * The doors of clients that cannot change their wire, beside the base URL: a path of theirs names a
 * model, which may hold slashes, and their key is in a header of its own. What comes through a door
 * is written as the app knows it: the model as one segment of the path, the key as a bearer token.
 */
interface Door {
  /** What its paths begin with. */
  start: string
  /** Bun’s patterns of what follows: a segment of theirs may be anything. */
  patterns: string[]
  /** The header that has the key, unless `authorization` has it. */
  keyHeader?: KeyHeader
  /** Writes what follows the start as the app has it; undefined for what is no path of the door. */
  find(rest: string): string | undefined
}

/** What Azure’s clients ask of a deployment. */
const ACTIONS = [
  ...['chat/completions', 'completions', 'embeddings', 'images/generations', 'images/edits'],
  ...['audio/speech', 'audio/transcriptions'],
]

/** What Bedrock’s clients ask of a model. */
const INVOCATIONS = ['converse', 'converse-stream', 'invoke', 'invoke-with-response-stream']

const DOORS: Door[] = [
  {
    start: '/v1beta/',
    patterns: ['models', ':a/:b', ':a/:b/:c'],
    keyHeader: 'x-goog-api-key',
    find: findGeminiPath,
  },
  {
    start: '/openai/deployments/',
    patterns: ACTIONS.flatMap(action => [`:a/${action}`, `:a/:b/${action}`]),
    keyHeader: 'api-key',
    find: findDeployment,
  },
  {
    start: '/model/',
    patterns: INVOCATIONS.flatMap(action => [`:a/${action}`, `:a/:b/${action}`]),
    find: findInvocation,
  },
]

const GEMINI_CALL =
  /^(.+):(generateContent|streamGenerateContent|countTokens|embedContent|batchEmbedContents)$/

/**
 * The list of models, one of them, or what is asked of one: `models/small:generateContent`. Clients
 * write a model with a slash as a collection of its own: `acme/small:generateContent`.
 */
function findGeminiPath(rest: string): string | undefined {
  if (rest === 'models') return '/v1beta/models'
  const [, called, action] = GEMINI_CALL.exec(rest) ?? []
  const model = writeModel((called ?? rest).replace(/^models\//, ''))
  return model && `/v1beta/models/${model}${action ? `/${action}` : ''}`
}

const DEPLOYMENT = new RegExp(`^(.+?)(/(?:${ACTIONS.join('|')}))$`)

function findDeployment(rest: string): string | undefined {
  const [, deployment = '', action = ''] = DEPLOYMENT.exec(rest) ?? []
  const model = writeModel(deployment)
  return model && `/openai/deployments/${model}${action}`
}

const INVOCATION = new RegExp(`^(.+)(/(?:${INVOCATIONS.join('|')}))$`)

function findInvocation(rest: string): string | undefined {
  const [, written = '', action = ''] = INVOCATION.exec(rest) ?? []
  const model = writeModel(written)
  return model && `/model/${model}${action}`
}

/** Writes a model’s id as one segment. Undefined for what is none, or would be another path. */
function writeModel(written: string): string | undefined {
  try {
    const id = decodeURIComponent(written)
    return isModelId(id) ? encodeURIComponent(id) : undefined
  } catch {
    return undefined
  }
}

/** Whether a path of the app is reached through a door. */
export const isBehindDoor = (path: string): boolean =>
  DOORS.some(({ start }) => path.startsWith(start))

type Handler = (request: Request, server: Bun.Server<undefined>) => Response | Promise<Response>

/** Whether keys may come in the query at a door. */
type DoorWorld = { config: { doors: { gemini: { query_key: boolean } } } }

/** Builds the table of the doors’ paths: `refuse` gets those that are none. */
export function buildDoorTable(
  world: DoorWorld,
  answer: Handler,
  refuse: Handler,
): Record<string, Handler> {
  const entries = DOORS.flatMap(({ start, patterns, keyHeader, find }) => {
    const handle: Handler = (request, server) => {
      const path = readPath(request)
      const moved =
        isDecodable(request) && isAsSent(request, start)
          ? find(path.slice(start.length))
          : undefined
      if (moved === undefined) return refuse(request, server)
      enter(world, request, keyHeader, moved)
      return answer(request, server)
    }
    return patterns.map(pattern => [start + pattern, handle] as const)
  })
  return Object.fromEntries(entries)
}

/**
 * Whether the path of a request is what stands in the request line, of which Bun has the parameters:
 * a proxy has judged that, and `..` would have changed it since.
 */
function isAsSent(request: Request & { params?: Record<string, string> }, start: string): boolean {
  const path = readPath(request)
  const sent = Object.values(request.params ?? {})
  const written = path.slice(start.length).split('/')
  return (
    path.startsWith(start) &&
    sent.every((part, i) => isModelId(part) && decodeURIComponent(written[i] ?? '') === part)
  )
}

function enter(
  world: DoorWorld,
  request: Request,
  keyHeader: KeyHeader | undefined,
  moved: string,
): void {
  if (keyHeader) takeKey(request, keyHeader)
  takeQueryKey(moveTo(request, readPath(request), moved), world)
}

/**
 * Lets a client of Google’s in that calls its API by its other version, `/v1`, where the API of the
 * gateway answers too: by an action behind a colon, or by the header of its key. Returns whether it
 * is one.
 */
export function enterByVersion(world: DoorWorld, request: Request): boolean {
  const path = readPath(request)
  if (!path.startsWith('/v1/models') || !isDecodable(request)) return false
  if (!isAsSent(request, '/v1/')) return false
  if (!GEMINI_CALL.test(path) && !request.headers.has('x-goog-api-key')) return false
  const moved = findGeminiPath(path.slice('/v1/'.length))
  if (moved === undefined) return false
  enter(world, request, 'x-goog-api-key', moved)
  return true
}

/** Takes a key out of the query, where nothing may see it, and uses it if that is allowed. */
function takeQueryKey(request: Request, { config }: DoorWorld): void {
  const [path = '', query] = request.url.split('?')
  if (query === undefined || !/(^|&)key=/.test(query)) return
  const parameters = new URLSearchParams(query)
  const key = parameters.get('key')
  parameters.delete('key')
  Object.defineProperty(request, 'url', { value: `${path}?${parameters}` })
  if (key && config.doors.gemini.query_key && !request.headers.has('authorization'))
    request.headers.set('authorization', `Bearer ${key}`)
}
