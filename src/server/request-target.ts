import type { Gateway } from '../app/gateway.ts'
import { notFound } from '../base/errors.ts'
import type { ErrorFormat } from '../translation/dialects/dialect.ts'
import { createErrorResponse } from './errors.ts'
import { readPath, readRequestId } from './headers.ts'
import type { KeyHeader } from './operation.ts'

/** A request that Bun has matched with a pattern: its parameters, decoded. */
type MatchedRequest = Request & { params?: Record<string, string> }

type Handler = (request: Request, server: Bun.Server<undefined>) => Response | Promise<Response>

/**
 * Builds Bun's table of an app's paths: `answer` gets the requests whose request line has one of
 * them, and `refuse` those with a parameter that could be taken for several segments or is no text.
 *
 * Bun compares its table with the request line as it was sent. `request.url` has been parsed: `..`
 * and backslashes have changed its path, so `/docs/../metrics` would pass a proxy that denies
 * `/metrics`, and be answered. So every other way to write a path stands in the table too: the API
 * answers at `/v1` as well, and with a doubled slash before or after either base; ranking where
 * Cohere's client asks for it, and drawing where OpenAI's do.
 */
export function buildTargetTable(
  paths: readonly string[],
  answer: Handler,
  refuse: Handler,
  /** Writes the path of another API’s client, whose base is one of ours. Returns whether it is one. */
  enter: (request: Request) => boolean = () => false,
): Record<string, Handler> {
  const createGuarded =
    (isAcceptable: (request: MatchedRequest) => boolean): Handler =>
    (request, server) =>
      isAcceptable(request) && isDecodable(request)
        ? answer(request, server)
        : refuse(request, server)
  const answerWhole = createGuarded(hasWholeSegments)
  const answerModel = createGuarded(hasModelId)
  const patterns = [...new Set(paths.map(path => path.replace(/(?<=.)\/$/, '')))]
  return Object.fromEntries([
    ...patterns.flatMap((pattern): [pattern: string, handler: Handler][] => {
      const checked = pattern === MODEL ? answerModel : answerWhole
      const handler = pattern.includes(':') ? checked : answer
      return [[pattern, handler], ...buildAliases(pattern, handler)]
    }),
    ...buildOtherBases(patterns, answer, refuse, enter),
  ])
}

/** Where the API is. */
const BASE = '/api/v1'

// Clients add `/v1` to the host themselves, and paths to a base that ends in a slash.
const OTHER_BASES = [...['//api/v1', '/api/v1/', '//api/v1/'], ...['/v1', '//v1', '/v1/', '//v1/']]

/** Where Azure’s clients of dated versions look for what is of no deployment. */
const DATED_AZURE_BASE = '/openai'

/** Where Azure’s clients look for the API, with their key in a header of its own. */
const AZURE_BASES = ['/openai/v1', DATED_AZURE_BASE]

const OF_NO_DEPLOYMENT = /^\/(responses|models|files|batches)(\/|$)/

/** Cohere’s client adds `/v2` to the base that it is given: the host, or that of the API. */
const COHERE_BASES = ['/v2', '/api/v2', '/v1/v2', '/api/v1/v2']
const COHERE_PATHS = ['/api/v1/rerank']

/** OpenAI’s clients have a path for new pictures, and one for those after others. */
const OPENAI_NAMES: Record<string, string[]> = {
  '/api/v1/images': ['/images/generations', '/images/edits'],
}

function buildAliases(pattern: string, handler: Handler): [pattern: string, handler: Handler][] {
  const own = pattern.slice(BASE.length)
  const others = OPENAI_NAMES[pattern] ?? []
  const starts = [
    ...(COHERE_PATHS.includes(pattern) ? COHERE_BASES : []).map(base => [base, BASE, own] as const),
    ...others.flatMap(name =>
      [BASE, ...OTHER_BASES].map(base => [base + name, pattern, ''] as const),
    ),
  ]
  return starts.map(([start, moved, rest]) => [
    start + rest,
    (request, server) => handler(moveTo(request, start, moved), server),
  ])
}

/**
 * Builds the patterns of the other bases: one for each number of segments, because Bun's table takes
 * the longer for each pattern the more it has. They match any segments; which of them are a path of
 * the app is found in the request.
 */
function buildOtherBases(
  patterns: string[],
  answer: Handler,
  refuse: Handler,
  enter: (request: Request) => boolean,
): [pattern: string, handler: Handler][] {
  const below = patterns.flatMap(path =>
    path.startsWith(`${BASE}/`) ? path.slice(BASE.length) : [],
  )
  const byDepth = Map.groupBy(below, path => path.split('/').length - 1)
  return [...byDepth].flatMap(([depth, paths]) => {
    const isKnown = createPathCheck(paths)
    const isDated = createPathCheck(paths.filter(path => OF_NO_DEPLOYMENT.test(path)))
    const segments = Array.from({ length: depth }, (_, i) => `/:part${i}`).join('')
    return [...OTHER_BASES, ...AZURE_BASES].map((base): [pattern: string, handler: Handler] => {
      const isFound = base === DATED_AZURE_BASE ? isDated : isKnown
      return [
        base + segments,
        (request, server) => {
          if (base === '/v1' && enter(request)) return answer(request, server)
          if (!isFound(request, base) || !isDecodable(request)) return refuse(request, server)
          if (AZURE_BASES.includes(base)) takeKey(request, 'api-key')
          return answer(moveTo(request, base, BASE), server)
        },
      ]
    })
  })
}

/**
 * Creates the check whether what follows a base is one of these paths, of as many segments as were
 * matched: in the request line, whose segments Bun has decoded, and in the URL, where they are not.
 */
function createPathCheck(paths: string[]): (request: MatchedRequest, base: string) => boolean {
  const plain = new Set(paths.filter(path => !path.includes(':')))
  const patterns = paths.filter(path => path.includes(':')).map(path => path.slice(1).split('/'))
  return (request, base) => {
    const path = readPath(request)
    if (!path.startsWith(`${base}/`)) return false
    const rest = path.slice(base.length)
    const decoded = Object.values(request.params ?? {})
    if (plain.has(rest)) return rest === `/${decoded.join('/')}`
    const written = rest.slice(1).split('/')
    if (written.length !== decoded.length) return false
    const isWritten = (part: string, i: number) =>
      part.startsWith(':') || (part === written[i] && part === decoded[i])
    return patterns.some(
      pattern =>
        pattern.every(isWritten) && hasOwnSegments(`${BASE}/${pattern.join('/')}`, decoded),
    )
  }
}

const hasOwnSegments = (pattern: string, decoded: string[]): boolean =>
  pattern === MODEL ? isModelId(decoded.at(-1) ?? '') : decoded.every(isWholeSegment)

/** Takes a key in a header of a client’s own for the bearer token that the app knows. */
export function takeKey({ headers }: Request, name: KeyHeader): void {
  const key = headers.get(name)
  if (key && !headers.has('authorization')) headers.set('authorization', `Bearer ${key}`)
}

/** The app knows one path. A copy of the request would lose what Bun and the gateway know of it. */
export function moveTo(request: Request, start: string, moved: string): Request {
  const [origin] = ORIGIN.exec(request.url) ?? ['']
  const url = origin + moved + request.url.slice(origin.length + start.length)
  return Object.defineProperty(request, 'url', { value: url, configurable: true })
}

const ORIGIN = /^[a-z]+:\/\/[^/?#]*/

/** Its parameter is a whole model id: OpenAI's clients encode the slash. */
const MODEL = '/api/v1/models/:author'

// Decoded, it is the path of the same model with a plain slash.
const hasModelId = ({ params: { author = '' } = {} }: MatchedRequest) => isModelId(author)

/** Whether it is a model’s id, with a slash or without, and would be no other path. */
export function isModelId(author: string): boolean {
  const parts = author.split('/')
  return parts.length <= 2 && parts.every(part => part !== '' && isWholeSegment(part))
}

const hasWholeSegments = ({ params = {} }: MatchedRequest) =>
  Object.values(params).every(isWholeSegment)

// A proxy may decode the path before it applies its rules, resolve it, and drop a fragment, which
// no request line should have.
const isWholeSegment = (segment: string) =>
  segment !== '.' && segment !== '..' && !/[/\\#]/.test(segment)

/** Whether the path is UTF-8 where it is percent-encoded: nothing has a name that is not. */
export function isDecodable(request: Request): boolean {
  const path = readPath(request)
  if (!path.includes('%')) return true
  try {
    decodeURIComponent(path)
    return true
  } catch {
    return false
  }
}

/** Answers a request whose path is none of the table's. */
export const refuseTarget = (
  gateway: Gateway,
  request: Request,
  id = readRequestId(request, gateway.ids.uuid()),
  error = notFound(),
  format?: ErrorFormat,
): Response => createErrorResponse(error, id, {}, format)
