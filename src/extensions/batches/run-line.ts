import { GatewayError } from '../../base/errors.ts'
import { infer } from '../../engine/infer.ts'
import type { Answer } from '../../language/answer.ts'
import type { Kind } from '../../language/work.ts'
import type { Actor } from '../../resources/actor.ts'
import type { Dialect } from '../../translation/dialects/dialect.ts'
import type { BatchRequest } from './requests.ts'
import type { LineOutcome } from './results.ts'
import { sealOutcome } from './results.ts'
import type { Batch } from './store.ts'
import type { BatchWorld } from './world.ts'

/** A line that can be tried again: nothing was paid for it. */
interface PutOff {
  /** In milliseconds: after which it makes sense. */
  after: number
}

/** One line of a batch that is about to run. */
interface RunningLine {
  batch: Batch
  dialect: Dialect
  actor: Actor
  request: BatchRequest
}

/** In milliseconds: when a line is tried again after a refusal that says no time, and the longest. */
const RETRY_AFTER = 5_000
const LONGEST_WAIT = 60_000

/** The id of a line's request: that of its batch, and its number. */
const buildRequestId = (batch_id: string, line: number): string => `${batch_id}-${line}`

/**
 * Runs a line as an ordinary call and returns what came of it, or that it was put off: a rate limit
 * is reached, or the gateway takes no calls now. Never throws.
 */
export async function runLine(
  world: BatchWorld,
  running: RunningLine,
): Promise<LineOutcome | PutOff> {
  const id = world.ids.generation(world.clock.now())
  try {
    return await callOnce(world, running, id)
  } catch (thrown) {
    const error = GatewayError.from(thrown)
    const isLater = error.status === 429 || error.type === 'unavailable'
    if (isLater && !(await isPaid(world, running.batch.id, running.request.line)))
      return { after: Math.min(LONGEST_WAIT, (error.retryAfter ?? 0) * 1_000 || RETRY_AFTER) }
    return buildRefused(id, running, error)
  }
}

/** Makes the call. Its answer is written in the transaction of its record: who pays for it has it. */
async function callOnce(
  world: BatchWorld,
  { batch, dialect, actor, request }: RunningLine,
  id: string,
): Promise<LineOutcome> {
  const request_id = buildRequestId(batch.id, request.line)
  const origin = { request_id, http_referer: null, title: null, user_agent: null }
  const context = {
    id,
    origin: { ...origin, region: 'global' as const, traceContext: null, batch_id: batch.id },
    session_id: null,
    betas: [],
  }
  const call = dialect.toCall(world, actor, request.body, context)
  const collect = async (answer: Answer<Kind>) =>
    buildAnswered(id, request, await dialect.collectResponse(answer, call, request.body))
  let kept = null as LineOutcome | null
  const { signal } = new AbortController()
  const answer = await infer(world, actor, dialect.kind, call, signal, async whole => {
    try {
      kept = await collect(whole)
      return sealOutcome(world, batch.id, request.line, kept)
    } catch {
      return null
    }
  })
  return kept ? { ...kept, isOnRecord: await endsWell(answer) } : collect(answer)
}

/** Whether an answer that is whole was recorded: otherwise its last parts say why not. */
async function endsWell({ parts }: Answer<Kind>): Promise<boolean> {
  const end = (await parts.collect()).at(-1) ?? []
  return end.every(({ type }) => type !== 'error')
}

/**
 * Whether a line was paid: a call of it is on record that cost something. Such a line is never made
 * again.
 */
export async function isPaid(world: BatchWorld, batch_id: string, line: number): Promise<boolean> {
  const id = buildRequestId(batch_id, line)
  const calls = await world.store.generations.list({ id }, MOST_TRIES)
  return calls.some(call => (call.upstream_inference_cost ?? call.total_cost ?? 0n) > 0n)
}

/** How many calls of one line are looked at. */
const MOST_TRIES = 1_000

const buildAnswered = (id: string, { custom_id }: BatchRequest, body: unknown): LineOutcome => ({
  isError: false,
  text: renderLine(id, custom_id, { status_code: 200, request_id: id, body }, null),
})

function buildRefused(
  id: string,
  { dialect, request: { custom_id } }: RunningLine,
  error: GatewayError,
): LineOutcome {
  const { status, message, type, metadata } = error
  const body = dialect.errorFormat?.renderError(error, id) ?? {
    error: { code: status, message, metadata: { error_type: type, request_id: id, ...metadata } },
  }
  const response = { status_code: status, request_id: id, body }
  return { isError: true, text: renderLine(id, custom_id, response, null) }
}

/** Builds the line of a request that has no response, and why. */
export const buildUnanswered = (
  id: string,
  custom_id: string | null,
  code: string,
  message: string,
): LineOutcome => ({ isError: true, text: renderLine(id, custom_id, null, { code, message }) })

const renderLine = (
  id: string,
  custom_id: string | null,
  response: object | null,
  error: object | null,
): string => `${JSON.stringify({ id: `batch_req_${id}`, custom_id, response, error })}\n`
