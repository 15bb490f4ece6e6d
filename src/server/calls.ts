import type { Gateway } from '../app/gateway.ts'
import { GatewayError, invalid } from '../base/errors.ts'
import type { Json } from '../base/json.ts'
import { infer } from '../engine/infer.ts'
import type { KeptAnswer } from '../engine/traffic/response-cache.ts'
import {
  type CacheUse,
  describeRules,
  findKeptAnswer,
  findPresetCaching,
  isCacheable,
  keepAnswer,
  type PresetCaching,
  replayAnswer,
} from '../extensions/cached.ts'
import type { Answer } from '../language/answer.ts'
import type { DialectName } from '../language/dialect.ts'
import type { Kind, Work } from '../language/work.ts'
import type { Actor } from '../resources/actor.ts'
import type {
  CallContext,
  Dialect,
  DialectBody,
  Streaming,
} from '../translation/dialects/dialect.ts'
import { RawBody } from '../translation/dialects/raw-body.ts'
import { hasForm, type ReceivedForm, receiveForm } from './body/form.ts'
import { readBody } from './body.ts'
import { createByteStream, createRawResponse } from './byte-stream.ts'
import { answerLater, openStored, type StoredCall, streamStored } from './calls/stored.ts'
import { type Connection, findConnection } from './connections.ts'
import { createErrorResponse } from './errors.ts'
import { createEventStreamResponse, type EventSource } from './event-stream.ts'
import {
  type CacheHeaders,
  readBetas,
  readCacheHeaders,
  readOrigin,
  readRequestId,
  readRoutingMetadataName,
  readSessionId,
  renderChanges,
  renderRates,
} from './headers.ts'
import { noteRefusal } from './refusals.ts'

/**
 * Refuses a call that does not fit beside those that run, before anything else of it is looked at:
 * a flood of them must not keep admitted calls waiting. Returns undefined where it may be made.
 */
export function refuseAtOnce({
  gateway,
  dialect,
  actor,
  request,
}: RouteContext): Response | undefined {
  const { admission } = gateway.traffic
  const overload = admission.findOverload(getHolder(actor))
  if (overload === null) return undefined
  const thrown = admission.refuse(overload)
  const generation = gateway.ids.generation(gateway.clock.now())
  const id = readRequestId(request, generation)
  findConnection(request)?.skipSmallBody()
  noteRefusal(gateway, request, { thrown, id, actor, model: null })
  return createErrorResponse(thrown, id, {}, createEnvelope(dialect, generation))
}

/** Returns whose share of places and memory a call takes. */
const getHolder = ({ key_hash, kind }: Actor): string => key_hash ?? kind

/** Returns the address that a request was sent from; null if it did not come over the network. */
export type FindRequestPeer = (request: Request) => string | null

/** One request to a dialect's route. */
export interface RouteContext {
  gateway: Gateway
  dialect: Dialect
  actor: Actor
  request: Request
  findPeer: FindRequestPeer
  /** The id of its generation, where that is known before. */
  generation?: string | undefined
  /** The fields of its body that its path has. */
  fields?: object
}

/**
 * Answers a request, whole or streamed. Its client waits meanwhile, however long it takes. Every
 * answer carries the ids of the request and of its generation. Every failure becomes a response in
 * the dialect's form.
 */
export async function respond(routeContext: RouteContext): Promise<Response> {
  const { gateway, dialect, actor, request } = routeContext
  const { streaming } = dialect
  const id = routeContext.generation ?? gateway.ids.generation(gateway.clock.now())
  const requestId = readRequestId(request, id)
  const headers: Record<string, string> = { 'x-generation-id': id, 'x-request-id': requestId }
  if (dialect.idHeader) headers[dialect.idHeader] = id
  const connection = findConnection(request)
  let model: string | null = null
  let form: ReceivedForm | null = null
  connection?.startWork()
  try {
    const turn = connection?.admitCall(getHolder(actor))
    if (turn) await turn
    const head = readContext(routeContext, id, requestId)
    form =
      dialect.form && hasForm(request)
        ? await receiveForm(gateway, actor, request, dialect.form)
        : null
    const received = form ? addFiles(head, form) : head
    const whole = (form?.body ?? (await readBody(request, dialect.body))) as DialectBody
    const read = routeContext.fields ? { ...whole, ...routeContext.fields } : whole
    const { model: named } = read as { model?: unknown }
    model = typeof named === 'string' ? named : null
    const stored =
      dialect.storing && gateway.config.responses.store
        ? await openStored(routeContext, read, dialect.storing)
        : null
    const body = stored?.body ?? read
    const context = stored ? { ...received, isStateful: true } : received
    if (body.debug?.dry_run) return await explainCall(routeContext, body, context)
    const call = dialect.toCall(gateway, actor, body, context)
    stored?.decide(call)
    if (stored?.isBackground) {
      const later = await answerLater(routeContext, {
        call,
        stored,
        heading: createHeading(gateway, call),
      })
      if (call.stream) return await streamStored(gateway, routeContext, { id }, headers)
      return createJsonResponse(later, { headers, status: 200 }, connection)
    }
    const cacheHeaders = readCacheHeaders(request, gateway)
    const found =
      cacheHeaders || call.preset_id !== null
        ? findCaching(routeContext, { call, body, context }, cacheHeaders)
        : null
    const caching = found instanceof Promise ? await found : found
    if (caching) Object.assign(headers, renderCacheHeaders(gateway, caching))
    const answer = caching
      ? startCached(routeContext, call, caching)
      : startAnswer(routeContext, call)
    connection?.startCall()
    const isWhole = streaming?.leavesWholeAnswers && (await answer).isWhole
    if (call.stream && streaming && !isWhole) {
      const noteFailure = createFailureNote(routeContext, requestId, model)
      const pending = { call, body, answer, connection, noteFailure, request, stored, actor }
      return await streamAnswer(gateway, streaming, pending, headers)
    }
    const opened = await answer
    if (opened.isRated) Object.assign(headers, renderRates(gateway, actor))
    if (opened.ignored || opened.maxTokens)
      Object.assign(headers, renderChanges(gateway, request, opened))
    const collected = await dialect.collectResponse(opened, call, body)
    if (collected instanceof RawBody) return createRawResponse(collected, headers, connection)
    if (stored) await stored.keep(collected as Json)
    return createJsonResponse(collected, { headers, status: dialect.status ?? 200 }, connection)
  } catch (thrown) {
    noteRefusal(gateway, request, { thrown, id: requestId, actor, model })
    Object.assign(headers, renderRates(gateway, actor))
    return createErrorResponse(thrown, requestId, headers, createEnvelope(dialect, id))
  } finally {
    connection?.finishWork()
    await form?.discard()
  }
}

const addFiles = (head: CallContext, { files }: ReceivedForm): CallContext =>
  files[0] ? { ...head, file: files[0], files } : head

/** Answers with the answer that was kept, or keeps the one that comes. */
function startCached(
  routeContext: RouteContext,
  call: Work[Kind]['call'],
  { kept, use }: Caching,
): Promise<Answer<Kind>> {
  const { gateway, dialect, actor } = routeContext
  if (kept) return replayAnswer(gateway, actor, call, kept)
  return startAnswer(routeContext, { ...call, isGathered: true }).then(answer =>
    keepAnswer(gateway, dialect.kind, answer, use),
  )
}

/** Returns what renders errors in the dialect's form, if it has one. */
const createEnvelope = ({ errorFormat }: Dialect, id: string) =>
  errorFormat && {
    ...errorFormat,
    renderError: (error: GatewayError) => errorFormat.renderError(error, id),
  }

/** Returns what notes a failure after the response has begun. */
const createFailureNote =
  ({ gateway, actor, request }: RouteContext, id: string, model: string | null) =>
  (thrown: unknown): void =>
    noteRefusal(gateway, request, { thrown, id, actor, model })

const startAnswer = (
  { gateway, dialect, actor, request }: RouteContext,
  call: Work[Kind]['call'],
): Promise<Answer<Kind>> => infer(gateway, actor, dialect.kind, call, request.signal)

export function readContext(
  routeContext: Omit<RouteContext, 'actor'>,
  id: string,
  requestId: string,
): CallContext {
  const { gateway, dialect, request, findPeer } = routeContext
  const origin = readOrigin(request, requestId, gateway, () => findPeer(request))
  const context = { id, origin, session_id: readSessionId(request), betas: readBetas(request) }
  const routingMetadataField = dialect.showsRouting
    ? readRoutingMetadataName(request, gateway)
    : undefined
  return routingMetadataField === undefined ? context : { ...context, routingMetadataField }
}

/** Answers a dry run. The answer has the request's id, and no generation's, as there is none. */
async function explainCall(routeContext: RouteContext, body: DialectBody, context: CallContext) {
  const { gateway, dialect, actor } = routeContext
  const understand = (as: Actor) => dialect.toCall(gateway, as, body, context)
  const key = body.debug?.key ?? undefined
  const { explain } = await import('../extensions/explain.ts')
  const explanation = await explain(gateway, actor, { key }, dialect.kind, understand)
  return Response.json(explanation, { headers: { 'x-request-id': context.origin.request_id } })
}

/** A running call, with the body that requested it. */
interface PendingCall {
  call: Work[Kind]['call']
  body: DialectBody
  answer: Promise<Answer<Kind>>
  connection: Connection | undefined
  /** Notes why the call failed after its response had begun. */
  noteFailure(thrown: unknown): void
  request: Request
  /** What its answer is stored with; null for most. */
  stored: StoredCall | null
  actor: Actor
}

/**
 * Waits for the answer to begin, so that a call which fails at once has a plain error and its
 * status. After one keep-alive interval the response starts with keep-alives, and a later failure
 * becomes an event.
 */
async function streamAnswer(
  gateway: Gateway,
  streaming: Streaming,
  { call, body, answer, connection, noteFailure, request, stored, actor }: PendingCall,
  headers: Record<string, string>,
): Promise<Response> {
  const { service_name, timeouts } = gateway.config
  const interval = timeouts.keep_alive_seconds * 1000
  let ready: Answer<Kind> | undefined
  try {
    ready = await waitAtMost(answer, interval)
  } catch (thrown) {
    if (!streaming.tellsFailure?.(GatewayError.from(thrown))) throw thrown
  }
  const heading = ready ?? createHeading(gateway, call)
  const begun = streaming.begin?.(heading, call, body)
  const render = () =>
    begun ? begun.renderKeepAlive() : (streaming.renderKeepAlive?.(service_name) ?? '')
  const respond = (events: EventSource) =>
    createEventStreamResponse(events, { render, interval }, headers, connection, streaming)
  const stream = (opened: Answer<Kind>) => {
    if (!begun) return streaming.streamEvents(opened, call, body)
    const written = begun.streamEvents(opened)
    return stored ? stored.follow(written, begun) : written
  }
  if (!ready || ready.isRated) Object.assign(headers, renderRates(gateway, actor))
  if (ready?.ignored || ready?.maxTokens)
    Object.assign(headers, renderChanges(gateway, request, ready))
  if (ready) return respond(stream(ready))
  const lateEvents = answer.then(stream, thrown => {
    noteFailure(thrown)
    const error = GatewayError.from(thrown)
    return yieldOnce(
      begun ? begun.renderFailure(error) : streaming.renderFailure(heading, error, call, body),
    )
  })
  return respond(lateEvents)
}

/** Waits for a promise. Returns undefined if it is still pending after so many milliseconds. */
// Not a race: that makes more promises.
function waitAtMost<T>(promise: Promise<T>, milliseconds: number): Promise<T | undefined> {
  const { promise: settled, resolve, reject } = Promise.withResolvers<T | undefined>()
  const timer = setTimeout(resolve, milliseconds)
  promise.then(
    value => {
      clearTimeout(timer)
      resolve(value)
    },
    thrown => {
      clearTimeout(timer)
      reject(thrown)
    },
  )
  return settled
}

const createHeading = ({ clock }: Gateway, { id, models }: Work[Kind]['call']) => ({
  id,
  created: Math.floor(clock.now().getTime() / 1000),
  model: models[0] ?? '',
  provider: '',
})

async function* yieldOnce(text: string): AsyncGenerator<string> {
  yield text
}

/** A longer answer goes out in pieces, as its client reads. */
const LONG_ANSWER = 256 * 1024
const PIECE = 64 * 1024

/**
 * Creates the response of a value as JSON. A long one is written as its client reads, in pieces: it
 * is held once, until it has been taken.
 */
function createJsonResponse(
  value: unknown,
  { headers, status }: { headers: Record<string, string>; status: number },
  connection?: Connection,
): Response {
  const text = JSON.stringify(value)
  const isLong = text.length > LONG_ANSWER && connection !== undefined
  if (isLong) connection.holdAnswer(text.length)
  const body = isLong ? createByteStream(encodePieces(text), connection, { isHeld: true }) : text
  return new Response(body, {
    status,
    headers: { ...headers, 'content-type': 'application/json;charset=utf-8' },
  })
}

const encoder = new TextEncoder()

async function* encodePieces(text: string): AsyncGenerator<Uint8Array> {
  for (let start = 0; start < text.length; ) {
    const end = findPieceEnd(text, start + PIECE)
    yield encoder.encode(text.slice(start, end))
    start = end
  }
}

// Both halves of a character stay together.
const findPieceEnd = (text: string, end: number): number =>
  (text.charCodeAt(end - 1) & 0xfc00) === 0xd800 && end < text.length ? end + 1 : end
/** The dialects whose answers can be kept (wire reference K.7). */
const CACHED: DialectName[] = [
  ...(['chat', 'responses', 'messages', 'embeddings', 'converse', 'invoke'] as const),
]

/** In seconds: how long an answer is kept by default. */
const USUAL_TTL = 300

/** What the cache of answers does for a call. */
interface Caching {
  use: CacheUse
  /** The answer that was given before; null without one. */
  kept: KeptAnswer | null
  /** What the names of the answer's headers begin with. */
  prefix: string
}

/** One request to a dialect's route. */
interface CachingRoute {
  gateway: Gateway
  dialect: Dialect
  actor: Actor
  request: Request
}

/** What was asked. */
interface Asked {
  call: Work[Kind]['call']
  body: unknown
  context: CallContext
}

/**
 * Finds what the cache does for a call; null for one that does not use it. A preset that switches it
 * off precedes the header, and the header precedes one that switches it on. A promise where other
 * servers may have its answer. Throws 400 for headers without effect.
 */
function findCaching(
  route: CachingRoute,
  asked: Asked,
  headers: CacheHeaders | null,
): Caching | null | Promise<Caching> {
  const { gateway, actor } = route
  const preset = findPresetCaching(gateway, asked.call)
  if (headers) checkHeaders(route, headers, preset)
  const enabled = preset?.enabled === false ? false : (headers?.enabled ?? preset?.enabled)
  if (!enabled || !canCache(route) || !isCacheable(gateway, actor, asked.call)) return null
  const ttl = headers?.ttl ?? preset?.ttl ?? USUAL_TTL
  const use = { name: nameCall(route, asked, preset), ttl }
  if (headers?.clears) gateway.traffic.responseCache.forget(use.name)
  const found = findKeptAnswer(gateway, use)
  const prefix = headers?.prefix ?? 'x-openrouter-cache'
  if (!(found instanceof Promise)) return { use, kept: found, prefix }
  return found.then(kept => ({ use, kept, prefix }))
}

const canCache = ({ gateway, dialect }: CachingRoute): boolean =>
  CACHED.includes(dialect.name) && gateway.config.response_cache.max_mib > 0

function checkHeaders(route: CachingRoute, headers: CacheHeaders, preset: PresetCaching | null) {
  const { enabled, ttl, clears, prefix } = headers
  if (enabled === true && !canCache(route))
    throw invalid(`${prefix}: expected nothing, as these answers are not kept here`, prefix)
  const isOn = enabled ?? preset?.enabled ?? false
  if (isOn || enabled === false || preset?.enabled === false) return
  const idle = ttl !== null ? `${prefix}-ttl` : clears ? `${prefix}-clear` : null
  if (idle !== null) throw invalid(`${idle}: expected ${prefix}: true beside it`, idle)
}

/**
 * Names what an answer depends on: the key, the endpoint, the body in the order of its fields, the
 * version of its preset, and what headers change about an answer.
 */
function nameCall(
  { gateway, dialect, actor }: CachingRoute,
  asked: Asked,
  preset: PresetCaching | null,
) {
  const { call, body, context } = asked
  const { betas, routingMetadataField = null, origin, session_id } = context
  const parts = [
    ...[actor.key_hash, actor.workspace_id, dialect.name, call.stream, body],
    ...[preset?.version ?? null, betas, routingMetadataField, origin.region, session_id],
    describeRules(gateway, actor),
  ]
  return Bun.CryptoHasher.hash('sha256', JSON.stringify(parts), 'hex')
}

/** Renders the headers that tell what the cache did. */
function renderCacheHeaders(
  { clock }: Gateway,
  { use, kept, prefix }: Caching,
): Record<string, string> {
  if (!kept) return { [`${prefix}-status`]: 'MISS', [`${prefix}-ttl`]: String(use.ttl) }
  const now = clock.now().getTime()
  return {
    [`${prefix}-status`]: 'HIT',
    [`${prefix}-age`]: String(Math.floor((now - kept.kept_at) / 1000)),
    [`${prefix}-ttl`]: String(Math.max(0, Math.ceil((kept.expires_at - now) / 1000))),
    [`${prefix}-source-id`]: kept.source_id,
  }
}
