import { yieldToEventLoop } from '../base/clock.ts'
import { denied, invalid, notFound, tooLarge } from '../base/errors.ts'
import type { Ids } from '../base/ids.ts'
import { countJsonBytes, type Json, readObjects, readString } from '../base/json.ts'
import { LARGEST_BODY } from '../base/schema-builders.ts'
import type { Seal } from '../base/seal.ts'
import type { Config } from '../config.ts'
import type { Actor } from './actor.ts'
import { defineAudit, identifyById } from './audit/entry.ts'
import type { AuditEntry } from './audit/store.ts'
import { countBlocks } from './files/quota.ts'
import type { EventLog, EventLogs } from './responses/event-log.ts'
import type { InputItemsQuery } from './responses/schema.ts'
import type { ResponseStatus, ResponseStore, StoredResponse } from './responses/store.ts'
import type { IdentityWorld } from './world.ts'

/**
 * Responses that clients go on from by their ids (`responses.store`): each with what was asked for
 * it, sealed. Only the key that made one goes on from it; management keys of its workspace read and
 * delete it too.
 */

/** What is kept of a response: the items that it answers, without those of the one before. */
export interface ResponseContent {
  input: Json[]
  response: Json
}

/** The parts of the gateway that keep responses. */
export interface ResponseWorld extends IdentityWorld {
  store: IdentityWorld['store'] & {
    responses: ResponseStore
    generations: { byId(id: string): Promise<object | undefined> }
  }
  secrets: IdentityWorld['secrets'] & {
    contentSeal: () => Seal
    previous(): { contentSeal: () => Seal } | null
  }
  traffic: IdentityWorld['traffic'] & {
    /** The responses that this process makes in the background, by their ids. */
    background: Map<string, AbortController>
    eventLogs: EventLogs
    /** There where other servers of the store make some, too. */
    makers?: Makers
  }
}

/** Which server makes a response in the background. */
export interface Makers {
  /** Notes that this process makes one. Throws 503 where the store is away. */
  note(id: string): Promise<void>
  /** Whether the process that makes it was not heard of for long. */
  isGone(id: string): Promise<boolean>
}

/** How a key's call is bound to those before it. */
export interface Continued {
  previous_response_id?: string | null | undefined
  input?: string | object[] | null | undefined
}

/** The most responses that one goes on from, one after the other. */
const LONGEST_CHAIN = 1_000

const MIB = 1024 * 1024
const DAY = 86_400_000

/** Returns the time from which on responses are kept, in ISO 8601. */
export const findResponseStart = ({ responses }: Pick<Config, 'responses'>, now: Date): string =>
  new Date(now.getTime() - responses.retention_days * DAY).toISOString()

/** Returns the input of a body as items. */
export const listInput = (input: Continued['input']): Json[] =>
  typeof input === 'string'
    ? [{ type: 'message', role: 'user', content: input }]
    : ((input ?? []) as Json[])

/**
 * Returns the whole conversation that a body goes on with: what was said before, and its own input,
 * with the items in place of references to them. `claim` takes memory for so many bytes of it before
 * they are read. Throws what that throws, 400 naming the field for a response or an item that this key
 * has none of, and 413 for a conversation that is too long.
 */
export async function openConversation(
  world: ResponseWorld,
  actor: Actor,
  { previous_response_id, input }: Continued,
  claim: (bytes: number) => void,
): Promise<Json[]> {
  const { items: own, bytes } = await resolveReferences(world, actor, listInput(input))
  const turns: ResponseContent[] = []
  let size = bytes
  claim(size)
  let field = previous_response_id ?? null
  while (field !== null) {
    const stored = await findOwn(world, actor, field)
    if (!stored)
      throw invalid(
        `previous_response_id: there is no response ${field.slice(0, 64)} of this key`,
        'previous_response_id',
      )
    if (stored.status === 'queued')
      throw invalid(
        'previous_response_id: expected a response that has ended, found one that is made',
        'previous_response_id',
      )
    size += stored.size_bytes
    if (size > LARGEST_BODY || turns.length >= LONGEST_CHAIN)
      throw tooLarge('previous_response_id: the conversation before it is too long')
    claim(size)
    const content = openContent(world, stored)
    turns.push(content)
    field = readString(content.response.previous_response_id)
    // A long conversation takes turns of its own.
    await yieldToEventLoop()
  }
  return [...turns.reverse().flatMap(listItems), ...own]
}

const listItems = ({ input, response }: ResponseContent): Json[] => [
  ...input,
  ...readObjects(response.output),
]

/** The items of an input, and the bytes of those that stand in place of references. */
interface Resolved {
  items: Json[]
  bytes: number
}

/** An item that is named, and its bytes as JSON. */
interface NamedItem {
  item: Json
  bytes: number
}

async function resolveReferences(
  world: ResponseWorld,
  actor: Actor,
  items: Json[],
): Promise<Resolved> {
  const wanted = new Set(items.filter(isReference).map(({ id }) => id))
  if (wanted.size === 0) return { items, bytes: 0 }
  const known = new Map<unknown, NamedItem>()
  const resolved: Resolved = { items: [], bytes: 0 }
  for (const [index, item] of items.entries()) {
    if (!isReference(item)) {
      resolved.items.push(item)
      continue
    }
    if (!known.has(item.id)) await learnItems(world, actor, item.id, { wanted, known })
    const found = known.get(item.id)
    const place = `input.${index}.id`
    if (!found) throw invalid(`${place}: there is no such item of this key`, place)
    // However often it is named, the provider gets all of it.
    resolved.bytes += found.bytes
    if (resolved.bytes > LARGEST_BODY)
      throw tooLarge(`${place}: the items that input names are too long together`)
    resolved.items.push(found.item)
  }
  return resolved
}

/** OpenAI’s form leaves out the type. */
const isReference = (item: Json): boolean =>
  item.type === 'item_reference' ||
  (item.type == null && item.role === undefined && typeof item.id === 'string')

/** Adds the items that are wanted of the response that has one of this id. */
async function learnItems(
  world: ResponseWorld,
  { key_hash }: Actor,
  id: unknown,
  { wanted, known }: { wanted: Set<unknown>; known: Map<unknown, NamedItem> },
): Promise<void> {
  const name = readString(id)
  if (name === null || key_hash === null) return
  const stored = await world.store.responses.findByItem(key_hash, name)
  if (!stored || isOver(world, stored)) return
  for (const item of listItems(openContent(world, stored)))
    if (wanted.has(item.id)) known.set(item.id, { item, bytes: countJsonBytes(item) })
  await yieldToEventLoop()
}

/** Throws 403, naming the setting, where the workspace’s responses take all that they may. */
export async function checkResponseQuota(world: ResponseWorld, { workspace_id }: Actor) {
  judgeQuota(world, await world.store.responses.computeUse(workspace_id), 1)
}

function judgeQuota({ config }: ResponseWorld, used: number, added: number): void {
  const most = config.responses.quota_mib
  if (used + countBlocks(added) > most * MIB)
    throw denied(
      `The responses of this workspace take ${Math.round((used / MIB) * 10) / 10} MiB: ` +
        `responses.quota_mib allows ${most}`,
    )
}

/**
 * Keeps a response that is made in the background. Throws 403 where the quota is used up, and 400
 * for a workspace that is gone.
 */
export function keepQueued(world: ResponseWorld, actor: Actor, content: ResponseContent) {
  const stored = sealContent(world, actor, content, 'queued')
  return world.store.responses.insert(stored, [], used =>
    judgeQuota(world, used, stored.size_bytes),
  )
}

/** Keeps a response that has ended: it is paid for, whatever the quota says by now. */
export async function keepResponse(world: ResponseWorld, actor: Actor, content: ResponseContent) {
  const stored = sealContent(world, actor, content, readStatus(content.response))
  await world.store.responses.insert(stored, listIds(content), () => undefined)
}

/** Ends a response that was made in the background. False if it was cancelled or deleted. */
export function endQueued(world: ResponseWorld, actor: Actor, content: ResponseContent) {
  const stored = sealContent(world, actor, content, readStatus(content.response))
  return endAs(world, stored, listIds(content), null)
}

const endAs = (
  { store }: ResponseWorld,
  { id, status, size_bytes, sealed }: StoredResponse,
  items: string[],
  entry: AuditEntry | null,
) => store.responses.end({ id, status, size_bytes, sealed }, items, entry)

const listIds = (content: ResponseContent): string[] =>
  listItems(content).flatMap(({ id }) => readString(id) ?? [])

const STATUSES: ResponseStatus[] = ['completed', 'incomplete', 'failed', 'cancelled']

const readStatus = ({ status }: Json): ResponseStatus =>
  STATUSES.find(known => known === status) ?? 'failed'

function sealContent(
  { secrets, ids, clock }: ResponseWorld & { ids: Pick<Ids, 'secret'> },
  { workspace_id, key_hash }: Actor,
  content: ResponseContent,
  status: ResponseStatus,
): StoredResponse {
  const id = String(content.response.id)
  const place = { id, workspace_id, key_hash: key_hash ?? '' }
  const nonce = Buffer.from(ids.secret(), 'hex').subarray(-12)
  const sealed = secrets.contentSeal().seal(JSON.stringify(content), nameContext(place), nonce)
  const created_at = clock.now().toISOString()
  return { ...place, status, created_at, size_bytes: sealed.length, sealed }
}

type Place = Pick<StoredResponse, 'id' | 'workspace_id' | 'key_hash'>

const nameContext = ({ id, workspace_id, key_hash }: Place) => `${id} ${workspace_id} ${key_hash}`

function openContent({ secrets }: ResponseWorld, stored: StoredResponse): ResponseContent {
  const context = nameContext(stored)
  const text =
    secrets.contentSeal().open(stored.sealed, context) ??
    secrets.previous()?.contentSeal().open(stored.sealed, context)
  if (text === undefined) throw notFound('This response was sealed with another secret')
  return JSON.parse(text)
}

// Whatever the removal of old rows is doing: the time is over when it is over.
const isOver = ({ config, clock }: ResponseWorld, { created_at }: StoredResponse): boolean =>
  created_at < findResponseStart(config, clock.now())

async function findOwn(
  world: ResponseWorld,
  { key_hash }: Actor,
  id: string,
): Promise<StoredResponse | undefined> {
  const stored = await world.store.responses.find(id)
  return stored?.key_hash === key_hash && !isOver(world, stored) ? stored : undefined
}

/** Finds a response that the actor may read and delete. Throws 404 for all others. */
async function findReadable(
  world: ResponseWorld,
  actor: Actor,
  id: string,
): Promise<StoredResponse> {
  const stored = await world.store.responses.find(id)
  const isManaged = actor.kind === 'management' && actor.workspace_id === stored?.workspace_id
  const isReadable = stored && (isManaged || stored.key_hash === actor.key_hash)
  if (!isReadable || isOver(world, stored))
    throw notFound(
      world.config.responses.store
        ? 'Response not found'
        : 'Response not found: none are stored here (responses.store)',
    )
  return stored
}

/**
 * Returns a response as it stands. One whose process was killed while it made it has failed. Throws
 * 404 for one that is not stored, or is another’s.
 */
export async function getResponse(world: ResponseWorld, actor: Actor, id: string): Promise<Json> {
  const stored = await findReadable(world, actor, id)
  const { response } = openContent(world, stored)
  if (stored.status !== 'queued') return { ...response, status: stored.status }
  const making = { ...response, status: 'in_progress' }
  if (world.traffic.background.has(id)) return making
  const { makers } = world.traffic
  if (!(await isOnRecord(world, stored)) && !(await makers?.isGone(id)))
    return makers ? making : response
  const ended = await findReadable(world, actor, id)
  if (ended.status === 'queued') return { ...response, ...INTERRUPTED }
  return openContent(world, ended).response
}

/**
 * Finds the events of a response that is streamed in the background. Throws 400 where none are kept,
 * and 404 as `getResponse` does.
 */
export async function findEvents(
  world: ResponseWorld,
  actor: Actor,
  id: string,
): Promise<{ response: Json; log: EventLog }> {
  const { response } = openContent(world, await findReadable(world, actor, id))
  const log = world.traffic.eventLogs.get(id)
  if (!log)
    throw invalid(
      'stream: no events of this response are kept here; poll it with stream=false. They are kept ' +
        'for one that was asked for with background: true and stream: true, by the server that was ' +
        'asked and until it restarts',
      'stream',
    )
  return { response, log }
}

const INTERRUPTED = {
  status: 'failed',
  error: { code: 'server_error', message: 'The gateway was interrupted' },
}

/**
 * Whether the call has ended, or must have. Another process may still make it during a takeover;
 * what a killed one has left is on record once the next has recovered it.
 */
async function isOnRecord(world: ResponseWorld, { id, created_at }: StoredResponse) {
  const longest = world.config.timeouts.total_seconds * 1000
  const isOld = world.clock.now().getTime() - Date.parse(created_at) > longest * 2
  return isOld || (await world.store.generations.byId(id)) !== undefined
}

/** Lists what was asked for a response, a page at a time. Throws 404 as `getResponse` does. */
export async function listInputItems(
  world: ResponseWorld,
  actor: Actor,
  id: string,
  { limit = 20, order = 'desc', after, before }: InputItemsQuery,
) {
  const { input } = openContent(world, await findReadable(world, actor, id))
  const all = input.map((item, index) => showItem(item, `msg_${id}_in_${index}`))
  const ordered = order === 'asc' ? all : all.toReversed()
  const start = ordered.findIndex(item => item.id === after) + 1
  const end = before === undefined ? -1 : ordered.findIndex(item => item.id === before)
  const rest = ordered.slice(start, end === -1 ? undefined : end)
  const data = rest.slice(0, limit)
  return {
    object: 'list' as const,
    data,
    first_id: data[0]?.id ?? null,
    last_id: data.at(-1)?.id ?? null,
    has_more: rest.length > limit,
  }
}

/** Shows an item as OpenAI lists it: with an id, and its text as a part. */
function showItem(item: Json, id: string): Json & { id: string } {
  const { type = 'message', role, content } = item
  const isText = type === 'message' && typeof content === 'string'
  const kind = role === 'assistant' ? 'output_text' : 'input_text'
  return {
    ...item,
    type,
    id: readString(item.id) ?? id,
    ...(isText ? { status: 'completed', content: [{ type: kind, text: content }] } : {}),
  }
}

/** What the audit trail shows of a response: nothing of what was said. */
const showStored = ({ sealed: _, ...stored }: StoredResponse) => stored

const auditResponse = defineAudit<Omit<StoredResponse, 'sealed'>, IdentityWorld>('responses', {
  identify: identifyById,
})

/** Deletes a response, for good, and ends its making. Throws 404 as `getResponse` does. */
export async function deleteResponse(world: ResponseWorld, actor: Actor, id: string) {
  const stored = showStored(await findReadable(world, actor, id))
  world.traffic.background.get(id)?.abort()
  await world.store.responses.remove(id, auditResponse(world, actor, stored, null))
  world.traffic.eventLogs.delete(id)
  return { id, object: 'response' as const, deleted: true as const }
}

/**
 * Cancels a response that is made in the background; one that has ended stays as it is. Throws 400
 * for one that was not asked for in the background, and 404 as `getResponse` does.
 */
export async function cancelResponse(world: ResponseWorld, actor: Actor, id: string) {
  const stored = await findReadable(world, actor, id)
  const { input, response } = openContent(world, stored)
  if (response.background !== true)
    throw invalid('response_id: expected a response that is made in the background', 'response_id')
  if (stored.status !== 'queued') return { ...response, status: stored.status }
  const cancelled = { ...response, status: 'cancelled' }
  const place = { ...actor, workspace_id: stored.workspace_id, key_hash: stored.key_hash }
  const ended = sealContent(world, place, { input, response: cancelled }, 'cancelled')
  const entry = auditResponse(world, actor, showStored(stored), showStored(ended), 'cancel')
  if (!(await endAs(world, ended, [], entry))) return getResponse(world, actor, id)
  world.traffic.eventLogs.get(id)?.endAs(cancelled)
  world.traffic.background.get(id)?.abort()
  return cancelled
}

/** Ends what this process makes in the background and another one has cancelled or deleted. */
export async function endCancelled(world: ResponseWorld): Promise<void> {
  const { background, eventLogs } = world.traffic
  if (background.size === 0) return
  const open = new Set(await world.store.responses.listUncancelled([...background.keys()]))
  for (const [id, ending] of [...background]) {
    if (open.has(id)) continue
    const stored = await world.store.responses.find(id)
    if (stored) eventLogs.get(id)?.endAs(openContent(world, stored).response)
    else eventLogs.delete(id)
    ending.abort()
  }
}
