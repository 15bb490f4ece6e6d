import { isLongTurn, yieldToEventLoop } from '../base/clock.ts'
import { conflict, denied, GatewayError, invalid, notFound, requireFound } from '../base/errors.ts'
import { isObject } from '../base/json.ts'
import type { Actor } from '../resources/actor.ts'
import { defineAudit, identifyById } from '../resources/audit/entry.ts'
import { SeenIds } from '../resources/files/request-lines.ts'
import { deleteFile, requireFile, resolveScope, Upload } from '../resources/files.ts'
import type { BatchQuery, BatchScope, NewBatch } from './batches/schema.ts'
import type { Batch, BatchEnd } from './batches/store.ts'
import type { BatchWorld } from './batches/world.ts'

/** In milliseconds: how long a batch may take. */
const WINDOW = 86_400_000

/** The batches on a page when the query states none. */
const PAGE_SIZE = 20

/**
 * Makes a batch: its lines run later, as calls of this key. Requests that come in the body become a
 * file. Throws 403 for a management key and where batches are off, 400 for a body that contradicts
 * itself, 404 for a file that is not there, and 429 for too many unfinished ones.
 */
export async function createBatch(world: BatchWorld, actor: Actor, input: NewBatch) {
  const { key_hash } = actor
  if (actor.kind !== 'inference' || key_hash === null)
    throw denied('Batches are made with a key for inference, which pays for them')
  if (!world.config.batches.enabled) throw denied('Batches are off here: batches.enabled')
  checkForm(input)
  const input_file_id = input.requests
    ? await storeRequests(world, actor, input, input.requests)
    : (await requireFile(world, actor, String(input.input_file_id), {})).id
  const batch = buildBatch(world, { ...actor, key_hash }, { ...input, input_file_id })
  try {
    await world.store.batches.insert(batch, auditBatch(world, actor, null, batch))
  } catch (thrown) {
    // A refused one leaves no file, which would take quota. Where the store was away it may be there.
    const isRefused = thrown instanceof GatewayError && thrown.status < 500
    if (input.requests && isRefused)
      await deleteFile(world, actor, input_file_id).catch(() => undefined)
    throw thrown
  }
  world.events.publish('batch.changed', { id: batch.id })
  return showBatch(batch)
}

/** Throws 400 unless the body has a file or requests, and a model with requests only. */
function checkForm({ input_file_id, requests, model, provider }: NewBatch): void {
  if ((input_file_id === undefined) === (requests === undefined))
    throw invalid('input_file_id: expected it, or else requests', 'input_file_id')
  if (requests) return
  if (model !== undefined) throw invalid('model: expected none, as each line has its own', 'model')
  if (provider) throw invalid('provider: expected none, as each line has its own', 'provider')
}

function buildBatch(
  world: BatchWorld,
  { workspace_id, key_hash, user_id }: Actor & { key_hash: string },
  { endpoint, input_file_id, metadata = null, ...input }: NewBatch & { input_file_id: string },
): Batch {
  const now = world.clock.now()
  return {
    id: `batch_${world.ids.uuid().replaceAll('-', '')}`,
    ...{ workspace_id, key_hash, user_id, endpoint, input_file_id, metadata },
    output_expires_after: input.output_expires_after?.seconds ?? null,
    ...{ status: 'validating', ends_as: null, errors: [], total: 0, completed: 0, failed: 0 },
    ...{ output_file_id: null, error_file_id: null },
    created_at: now.toISOString(),
    expires_at: new Date(now.getTime() + WINDOW).toISOString(),
    ...{ in_progress_at: null, finalizing_at: null, cancelling_at: null, ended_at: null },
  }
}

/** Writes requests into a file as if a client had sent it. Others get their turn between lines. */
async function storeRequests(
  world: BatchWorld,
  actor: Actor,
  input: NewBatch,
  requests: NonNullable<NewBatch['requests']>,
): Promise<string> {
  const most = world.config.batches.max_requests
  if (requests.length > most)
    throw invalid(`requests: expected at most ${most} (batches.max_requests)`, 'requests')
  const seen = new SeenIds()
  const upload = await Upload.open(world, actor, { filename: 'batch.jsonl', takesAnything: true })
  try {
    let startedAt = world.clock.ticks()
    for (const [index, { custom_id, body }] of requests.entries()) {
      seen.add(custom_id, index + 1)
      const line = { custom_id, method: 'POST', url: input.endpoint, body: fillBody(input, body) }
      await upload.write(Buffer.from(`${JSON.stringify(line)}\n`))
      if (!isLongTurn(world.clock, startedAt)) continue
      await yieldToEventLoop()
      startedAt = world.clock.ticks()
    }
    return (await upload.finish()).id
  } finally {
    await upload.discard()
  }
}

/** Lays what the batch says for all requests over one of them. */
function fillBody({ model, provider }: NewBatch, body: Record<string, unknown>) {
  const own = body.provider
  // What is no object is refused with its line. Spread, a text would have a member for each character.
  const isFit = own == null || isObject(own)
  return {
    ...body,
    ...(model === undefined || 'model' in body ? {} : { model }),
    ...(provider && isFit ? { provider: { ...own, only: provider.only } } : {}),
  }
}

/** Lists one page of a workspace's batches, newest first. Throws 403 as the files do. */
export async function listBatches(world: BatchWorld, actor: Actor, query: BatchQuery) {
  const { limit = PAGE_SIZE, after, status, created_after, created_before } = query
  const found = await world.store.batches.list({
    workspace_id: resolveScope(world, actor, query),
    limit: limit + 1,
    after,
    statuses: status === undefined ? undefined : [status].flat(),
    created_after: created_after && new Date(created_after).toISOString(),
    created_before: created_before && new Date(created_before).toISOString(),
  })
  return showBatchList(found.slice(0, limit), found.length > limit)
}

/** Returns a batch. Throws 404 for one that is not in the workspace, 403 as the files do. */
export const getBatch = async (
  world: BatchWorld,
  actor: Actor,
  id: string,
  scope: BatchScope = {},
) => showBatch(await requireBatch(world, actor, id, scope))

/**
 * Cancels a batch: no line begins any more, and what is done is written. Throws 404 as `getBatch`
 * does, and 409 for one that has ended or is about to.
 */
export async function cancelBatch(
  world: BatchWorld,
  actor: Actor,
  id: string,
  scope: BatchScope = {},
) {
  const batch = await requireBatch(world, actor, id, scope)
  if (batch.status === 'cancelling') return showBatch(batch)
  const change = { status: 'cancelling', cancelling_at: world.clock.now().toISOString() } as const
  const cancelled: Batch = { ...batch, ...change }
  const entry = auditBatch(world, actor, batch, cancelled)
  const { batches } = world.store
  if (!(await batches.change(id, ['validating', 'in_progress'], change, entry)))
    throw conflict(`The batch is ${batch.status}: expected one that goes on`)
  world.events.publish('batch.changed', { id })
  return showBatch(cancelled)
}

/** Deletes a batch that has ended; its files stay. Throws 404 as `getBatch` does, else 409. */
export async function deleteBatch(
  world: BatchWorld,
  actor: Actor,
  id: string,
  scope: BatchScope = {},
) {
  const batch = await requireBatch(world, actor, id, scope)
  if (batch.ended_at === null)
    throw conflict(`The batch is ${batch.status}: expected one that has ended`)
  await world.store.batches.remove(id, auditBatch(world, actor, batch, null))
  return { id, object: 'batch' as const, deleted: true as const }
}

async function requireBatch(
  world: BatchWorld,
  actor: Actor,
  id: string,
  scope: BatchScope,
): Promise<Batch> {
  const isAnywhere = actor.kind === 'operator' && scope.workspace_id === undefined
  const workspace_id = isAnywhere ? null : resolveScope(world, actor, scope)
  const batch = requireFound(await world.store.batches.find(id), 'Batch')
  if (workspace_id !== null && batch.workspace_id !== workspace_id)
    throw notFound('Batch not found')
  return batch
}

/** Shows a batch as OpenAI's clients know it. Its files are there once it has ended. */
function showBatch(batch: Batch) {
  const isOver = batch.ended_at !== null
  return {
    id: batch.id,
    object: 'batch' as const,
    endpoint: batch.endpoint,
    errors: batch.errors.length === 0 ? null : { object: 'list' as const, data: batch.errors },
    input_file_id: batch.input_file_id,
    completion_window: '24h' as const,
    status: batch.status,
    output_file_id: isOver ? batch.output_file_id : null,
    error_file_id: isOver ? batch.error_file_id : null,
    created_at: toSeconds(batch.created_at) ?? 0,
    in_progress_at: toSeconds(batch.in_progress_at),
    expires_at: toSeconds(batch.expires_at),
    finalizing_at: toSeconds(batch.finalizing_at),
    ...showEnds(batch),
    cancelling_at: toSeconds(batch.cancelling_at),
    request_counts: { total: batch.total, completed: batch.completed, failed: batch.failed },
    metadata: batch.metadata,
  }
}

/** Shows when a batch ended, under the name of how it did. */
function showEnds({ status, ended_at }: Batch) {
  const showEnd = (end: BatchEnd) => (status === end ? toSeconds(ended_at) : null)
  return {
    completed_at: showEnd('completed'),
    failed_at: showEnd('failed'),
    expired_at: showEnd('expired'),
    cancelled_at: showEnd('cancelled'),
  }
}

const toSeconds = (time: string | null): number | null =>
  time === null ? null : Math.floor(Date.parse(time) / 1000)

/** Shows one page of batches. */
const showBatchList = (batches: Batch[], has_more: boolean) => ({
  object: 'list' as const,
  data: batches.map(showBatch),
  first_id: batches[0]?.id ?? null,
  last_id: batches.at(-1)?.id ?? null,
  has_more,
})

/** Makes the audit entry of a change of a batch. */
const auditBatch = defineAudit<Batch>('batches', {
  identify: identifyById,
  verbs: { update: 'cancel' },
})
