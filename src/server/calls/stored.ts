import type { Gateway } from '../../app/gateway.ts'
import { repeatWrite } from '../../base/clock.ts'
import { GatewayError, invalid } from '../../base/errors.ts'
import type { Json } from '../../base/json.ts'
import { infer } from '../../engine/infer.ts'
import type { Answer } from '../../language/answer.ts'
import type { Kind, Work } from '../../language/work.ts'
import { getPolicy } from '../../limits/effective.ts'
import { mayRetainNothing } from '../../limits/zdr.ts'
import type { Actor } from '../../resources/actor.ts'
import type { EventLog } from '../../resources/responses/event-log.ts'
import {
  type Continued,
  checkResponseQuota,
  endQueued,
  findEvents,
  keepQueued,
  keepResponse,
  listInput,
  openConversation,
} from '../../resources/responses.ts'
import type {
  AnswerHeader,
  BegunStream,
  Dialect,
  DialectBody,
} from '../../translation/dialects/dialect.ts'
import { renderResponseStatus } from '../../translation/dialects/responses.ts'
import { findConnection } from '../connections.ts'
import { createEventStreamResponse } from '../event-stream.ts'

/** The fields by which clients go on from answers, and leave some. */
interface StatefulBody extends DialectBody, Continued {
  store?: boolean | null
  background?: boolean | null
  stream?: boolean | null
}

/** A call in a conversation that is stored here. */
export interface StoredCall {
  /** Its body, with all of the conversation as its input. */
  body: DialectBody
  /** Whether it is made without its client. */
  isBackground: boolean
  /**
   * Decides whether its answer is kept, now that its models are known. Throws 400 where it must be,
   * and rules or the body want nothing retained.
   */
  decide(call: Work[Kind]['call']): void
  /** What is asked for its answer beside what was said before. */
  input: Json[]
  /** Keeps the answer, unless the client wants none kept. */
  keep(response: Json): Promise<void>
  /** Keeps a streamed answer before its client learns that it is whole. */
  follow(events: AsyncIterator<string>, begun: BegunStream): AsyncIterator<string>
}

/**
 * Finds the conversation of a body, and whether its answer is to be stored, which it is by default.
 * Throws 400 for what contradicts itself or names what is not stored for this key, 403 where the
 * quota is used up, 413 for a conversation that is too long, and 503 where it finds no memory. With
 * `read` nothing is stored.
 */
export async function openStored(
  { gateway, actor, request }: Pick<BackgroundRoute, 'gateway' | 'actor' | 'request'>,
  given: DialectBody,
  storing: 'read' | 'keep',
): Promise<StoredCall> {
  const asked = given as StatefulBody
  const isDryRun = given.debug?.dry_run === true
  const isKept = storing === 'keep' && asked.store !== false && actor.key_hash !== null
  const isBackground = asked.background === true
  if (isBackground && !isKept)
    throw invalid(
      'background: expected store: true, as the answer is asked for later',
      'background',
    )
  if (isKept && !isDryRun) await checkResponseQuota(gateway, actor)
  const connection = findConnection(request)
  const claim = (bytes: number) => connection?.growBody(bytes)
  const input = await openConversation(gateway, actor, asked, claim)
  const body: StatefulBody & { input: Json[] } = { ...asked, input, store: isKept }
  const before = input.length - listInput(asked.input).length
  const own = input.slice(before)
  const decide = (call: Work[Kind]['call']) => {
    const { zdr } = getPolicy(gateway, actor)
    if (!body.store || !mayRetainNothing(gateway, zdr, call)) return
    if (asked.store || isBackground)
      throw invalid('store: expected false, as this call is to leave no data behind', 'store')
    body.store = false
  }
  const keep = async (response: Json) => {
    if (body.store) await keepResponse(gateway, actor, { input: own, response })
  }
  return {
    decide,
    body,
    isBackground,
    input: own,
    keep,
    follow: (events, begun) => follow(events, begun, keep),
  }
}

/** The iterator of events that keeps the answer when the last of them have been rendered. */
function follow(
  events: AsyncIterator<string>,
  begun: BegunStream,
  keep: (response: Json) => Promise<void>,
): AsyncIterator<string> {
  let isKept = false
  return {
    ...(events.return
      ? { return: () => events.return?.() as Promise<IteratorResult<string>> }
      : {}),
    async next() {
      const step = await events.next()
      if (begun.isWhole && !isKept) {
        isKept = true
        await keep(begun.render?.() ?? {})
      }
      return step
    },
  }
}

/** One request to a dialect's route. */
interface BackgroundRoute {
  gateway: Gateway
  dialect: Dialect
  actor: Actor
  request: Request
}

/** A call that is made without its client. */
interface BackgroundCall {
  call: Work[Kind]['call']
  stored: StoredCall
  heading: AnswerHeader
}

/**
 * Begins a response in the background, and returns it as it is now: queued. It takes its place among
 * the calls in flight until it has ended. What fails from now on is told by the response.
 */
export async function answerLater(
  { gateway, dialect, actor, request }: BackgroundRoute,
  { call, stored: { body, input }, heading }: BackgroundCall,
): Promise<Json> {
  const begin = () => dialect.streaming?.begin?.(heading, call, body)
  const queued = { ...begin()?.render?.(), status: 'queued' }
  const { background, eventLogs, makers } = gateway.traffic
  await makers?.note(call.id)
  await keepQueued(gateway, actor, { input, response: queued })
  const ending = new AbortController()
  background.set(call.id, ending)
  const leavePlace = findConnection(request)?.keepPlace()
  const open = () => infer(gateway, actor, dialect.kind, call, ending.signal)
  const end = (response: Json) => repeatWrite(() => endQueued(gateway, actor, { input, response }))
  const make = async () => {
    const response = await open()
      .then(answer => dialect.collectResponse(answer, call, body))
      .catch(thrown => {
        const failed = begin()
        failed?.renderFailure(GatewayError.from(thrown))
        return failed?.render?.() ?? queued
      })
    return end(response as Json)
  }
  const begun = call.stream ? begin() : undefined
  const log = begun && eventLogs.open(call.id, renderResponseStatus)
  const making = log ? writeEvents(log, begun, open, end) : make()
  void making
    .catch(error => gateway.events.publish('store.failing', { error }))
    .finally(() => {
      background.delete(call.id)
      log?.end()
      leavePlace?.()
    })
  return queued
}

/**
 * Writes the events of a response in the background, whose last ones come when it has been stored.
 * One that was cancelled or deleted meanwhile gets none of them.
 */
async function writeEvents(
  log: EventLog,
  begun: BegunStream,
  open: () => Promise<Answer<Kind>>,
  end: (response: Json) => Promise<boolean>,
): Promise<void> {
  log.append(begun.renderKeepAlive())
  const events = await open().then(
    answer => begun.streamEvents(answer),
    thrown => [begun.renderFailure(GatewayError.from(thrown))].values(),
  )
  let hasEnded = false
  for (;;) {
    const step = await events.next()
    if (begun.isWhole && !hasEnded) {
      hasEnded = await end(begun.render?.() ?? {})
      if (!hasEnded) return
    }
    if (step.done) return
    log.append(step.value)
  }
}

/**
 * Streams the events of a response in the background after the one of a number. Its client may leave
 * and come back. Throws as `findEvents` does, and 400 for events that are no longer kept.
 */
export async function streamStored(
  gateway: Gateway,
  { actor, request }: { actor: Actor; request: Request },
  { id, after = -1 }: { id: string; after?: number | undefined },
  headers: Record<string, string> = {},
): Promise<Response> {
  const { response, log } = await findEvents(gateway, actor, id)
  const events = log.read(after)
  const waiting = { ...response, status: 'in_progress' }
  const render = () => renderResponseStatus(waiting, events.last)
  const interval = gateway.config.timeouts.keep_alive_seconds * 1000
  const connection = findConnection(request)
  return createEventStreamResponse(events, { render, interval }, headers, connection)
}
