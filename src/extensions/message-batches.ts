import { type Static, Type } from '@sinclair/typebox'
import { isLongTurn, yieldToEventLoop } from '../base/clock.ts'
import { conflict, notFound } from '../base/errors.ts'
import { isObject, type Json, parseObject, readObject, readString } from '../base/json.ts'
import { closed, list, open } from '../base/schema-builders.ts'
import type { Actor } from '../resources/actor.ts'
import { LINE_FIELDS } from '../resources/files/request-lines.ts'
import { readFile, requireFile, resolveScope } from '../resources/files.ts'
import { RequestReader } from './batches/requests.ts'
import type { Batch } from './batches/store.ts'
import type { BatchWorld } from './batches/world.ts'
import { cancelBatch, createBatch, deleteBatch } from './batches.ts'

/**
 * Batches as Anthropic’s clients know them, over those that there are: a batch of the endpoint
 * `/v1/messages`, whose requests come in its body, and whose results are one stream of lines.
 */

const ENDPOINT = '/v1/messages'

/** The body of `POST /messages/batches`. */
export const NewMessageBatch = Type.Object(
  {
    requests: list(
      Type.Object({ custom_id: LINE_FIELDS.custom_id, params: Type.Object({}, open) }, closed),
      { minItems: 1, maxItems: 100_000 },
    ),
  },
  closed,
)
export type NewMessageBatch = Static<typeof NewMessageBatch>

const BatchId = Type.String({ pattern: '^batch_[0-9a-f]{32}$', maxLength: 40 })

/** The query of `GET /messages/batches`. */
export const MessageBatchQuery = Type.Object(
  {
    limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 1_000 })),
    after_id: Type.Optional(BatchId),
    before_id: Type.Optional(BatchId),
  },
  closed,
)
export type MessageBatchQuery = Static<typeof MessageBatchQuery>

/** The batches on a page when the query states none. */
const PAGE_SIZE = 20

/**
 * Makes a batch of messages. Throws what `createBatch` throws, and 400 for a request that is no
 * message: a batch that fails has no results to say so.
 */
export async function createMessageBatch(
  world: BatchWorld,
  actor: Actor,
  { requests }: NewMessageBatch,
) {
  const reader = new RequestReader(ENDPOINT)
  let startedAt = world.clock.ticks()
  for (const [i, { params }] of requests.entries()) {
    reader.check(params, `requests.${i}.params`)
    if (!isLongTurn(world.clock, startedAt)) continue
    await yieldToEventLoop()
    startedAt = world.clock.ticks()
  }
  const made = await createBatch(world, actor, {
    endpoint: ENDPOINT,
    requests: requests.map(({ custom_id, params }) => ({ custom_id, body: params })),
  })
  return showMessageBatch(world, await requireBatch(world, actor, made.id))
}

/** Returns a batch of messages. Throws 404 for any other. */
export const getMessageBatch = async (world: BatchWorld, actor: Actor, id: string) =>
  showMessageBatch(world, await requireBatch(world, actor, id))

/** Lists one page of a workspace’s batches of messages, newest first. */
export async function listMessageBatches(
  world: BatchWorld,
  actor: Actor,
  { limit = PAGE_SIZE, after_id, before_id }: MessageBatchQuery,
) {
  const found = await world.store.batches.list({
    workspace_id: resolveScope(world, actor, {}),
    endpoint: ENDPOINT,
    limit: limit + 1,
    after: after_id,
    before: before_id,
  })
  // Those before one are the nearest to it.
  const page = before_id === undefined ? found.slice(0, limit) : found.slice(-limit)
  return {
    data: page.map(batch => showMessageBatch(world, batch)),
    has_more: found.length > limit,
    first_id: page[0]?.id ?? null,
    last_id: page.at(-1)?.id ?? null,
  }
}

/** Cancels a batch of messages. Throws what `cancelBatch` throws. */
export async function cancelMessageBatch(world: BatchWorld, actor: Actor, id: string) {
  await requireBatch(world, actor, id)
  await cancelBatch(world, actor, id)
  return getMessageBatch(world, actor, id)
}

/** Deletes a batch of messages that has ended. Throws what `deleteBatch` throws. */
export async function deleteMessageBatch(world: BatchWorld, actor: Actor, id: string) {
  await requireBatch(world, actor, id)
  await deleteBatch(world, actor, id)
  return { id, type: 'message_batch_deleted' as const }
}

/**
 * Reads the results of a batch that has ended, a line each, in the order of its two files. Throws
 * 404 as `getMessageBatch` does, and 409 before its end.
 */
export async function readMessageResults(
  world: BatchWorld,
  actor: Actor,
  id: string,
): Promise<AsyncGenerator<Uint8Array>> {
  const batch = await requireBatch(world, actor, id)
  if (batch.ended_at === null)
    throw conflict(`The batch is ${batch.status}: its results are there once it has ended`)
  const files = [batch.output_file_id, batch.error_file_id].filter(file => file !== null)
  for (const file of files) await requireFile(world, actor, file, {})
  return joinResults(world, actor, files)
}

// Each file is opened when its turn comes: a client that leaves before leaves none open.
async function* joinResults(
  world: BatchWorld,
  actor: Actor,
  files: string[],
): AsyncGenerator<Uint8Array> {
  const encoder = new TextEncoder()
  for (const file of files) {
    const { bytes } = await readFile(world, actor, file)
    for await (const line of readLines(bytes)) yield encoder.encode(`${renderResult(line)}\n`)
  }
}

async function* readLines(bytes: ReadableStream<Uint8Array>): AsyncGenerator<string> {
  const decoder = new TextDecoder()
  // An answer with pictures is a line of very many pieces, which are joined once.
  let begun: string[] = []
  for await (const piece of bytes) {
    const [first = '', ...others] = decoder.decode(piece, { stream: true }).split('\n')
    begun.push(first)
    for (const next of others) {
      yield begun.join('')
      begun = [next]
    }
  }
  const rest = begun.join('')
  if (rest !== '') yield rest
}

/** Renders what came of a request: OpenAI’s clients have its answer in `response`. */
function renderResult(line: string): string {
  const { custom_id, response, error } = parseObject(line) ?? {}
  return JSON.stringify({ custom_id, result: toResult(response, error) })
}

function toResult(response: unknown, error: unknown): Json {
  if (!isObject(response)) {
    const code = isObject(error) ? readString(error.code) : null
    if (code === 'batch_expired') return { type: 'expired' }
    if (code === 'batch_cancelled') return { type: 'canceled' }
    return { type: 'errored', error: renderError(isObject(error) ? error : {}) }
  }
  const body = readObject(response, 'body')
  if (response.status_code === 200) return { type: 'succeeded', message: body }
  // In the form of the endpoint.
  return { type: 'errored', error: body }
}

const renderError = ({ message }: Json): Json => ({
  type: 'error',
  error: { type: 'api_error', message: readString(message) ?? 'The request failed' },
})

async function requireBatch(world: BatchWorld, actor: Actor, id: string): Promise<Batch> {
  const batch = await world.store.batches.find(id)
  const isOwn = batch?.workspace_id === resolveScope(world, actor, {})
  if (!batch || !isOwn || batch.endpoint !== ENDPOINT) throw notFound('Batch not found')
  return batch
}

/** What has become of the requests that no line is told of. */
const LEFT: Partial<Record<Batch['status'], 'expired' | 'canceled'>> = {
  expired: 'expired',
  cancelled: 'canceled',
}

/** Shows a batch as Anthropic’s clients know it. */
function showMessageBatch({ instance }: BatchWorld, batch: Batch) {
  const { id, total, completed, failed, status } = batch
  const isOver = batch.ended_at !== null
  const left = isOver ? (LEFT[status] ?? null) : null
  const rest = Math.max(0, total - completed - failed)
  return {
    id,
    type: 'message_batch' as const,
    processing_status: isOver ? 'ended' : status === 'cancelling' ? 'canceling' : 'in_progress',
    request_counts: {
      processing: isOver ? 0 : rest,
      succeeded: completed,
      errored: failed,
      canceled: left === 'canceled' ? rest : 0,
      expired: left === 'expired' ? rest : 0,
    },
    ended_at: batch.ended_at,
    created_at: batch.created_at,
    expires_at: batch.expires_at,
    archived_at: null,
    cancel_initiated_at: batch.cancelling_at,
    results_url: isOver ? `${instance.siteUrl}/api/v1/messages/batches/${id}/results` : null,
  }
}
