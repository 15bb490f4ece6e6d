import { denied, GatewayError, invalid, notFound, tooLarge } from '../base/errors.ts'
import { type Json, parseObject, readObject, readString } from '../base/json.ts'
import { getPolicy } from '../limits/effective.ts'
import type { PolicyWorld } from '../limits/policy-world.ts'
import { allowsProvider } from '../limits/rules.ts'
import type { Actor } from '../resources/actor.ts'
import { listUsableByokKeys } from '../resources/byok.ts'
import type { BlobDraft } from '../resources/files/blobs.ts'
import { LARGEST_FILE } from '../resources/files/quota.ts'
import type { FileScope, ProviderFileQuery } from '../resources/files/schema.ts'
import type { StoredFile } from '../resources/files/store.ts'
import { TypeDetector } from '../resources/files/type.ts'
import { type FileShape, showDeletedFile, showFile, showFileList } from '../resources/files/view.ts'
import type { FileWorld } from '../resources/files/world.ts'
import {
  checkFilename,
  checkPurpose,
  explainFullDisk,
  findStart,
  resolveScope,
} from '../resources/files.ts'
import type { Provider } from '../resources/providers/provider.ts'
import type { Attachment } from '../translation/protocols/protocol.ts'
import { authorize } from './authorize.ts'
import { cleanReason } from './clean-reason.ts'
import type { IncomingResponse } from './egress.ts'
import { Patience } from './patience.ts'
import type { UpstreamWorld } from './world.ts'

/** A file at a provider, as our answers show files. */
type ProviderFile = Omit<StoredFile, 'workspace_id' | 'sha256' | 'expires_at'>

/** How the files API of a provider differs from that of others. */
interface FilesApi {
  name: 'openai' | 'anthropic'
  headers: Record<string, string>
  /** Returns the query of a list. Throws 400 for what this provider’s lists cannot do. */
  renderList(query: ProviderFileQuery, start: string | undefined): Record<string, string>
  /** The fields of an upload beside the file. */
  renderFields(purpose: string | null): Json
  /** Reads a file; undefined for what is none. */
  readFile(value: Json): ProviderFile | undefined
}

/** What the files of these purposes are: written by OpenAI itself. They may be downloaded. */
const WRITTEN = /^(assistants_output|batch|batch_output|fine-tune|fine-tune-results|evals)$/

const openai: FilesApi = {
  name: 'openai',
  headers: {},
  renderList({ before_id, order, limit }, after) {
    if (before_id !== undefined) throw refuse('before_id')
    return { ...(limit ? { limit: String(limit) } : {}), ...defined({ after, order }) }
  },
  renderFields: purpose => ({ purpose: purpose ?? 'user_data' }),
  readFile(value) {
    const { bytes, created_at } = value
    const id = readString(value.id)
    if (id === null || typeof bytes !== 'number' || typeof created_at !== 'number') return undefined
    const purpose = readString(value.purpose) ?? 'user_data'
    return {
      ...{ id, filename: readString(value.filename) ?? id, size_bytes: bytes, purpose },
      // OpenAI says no type.
      mime_type: 'application/octet-stream',
      downloadable: WRITTEN.test(purpose),
      created_at: toIsoTime(created_at * 1000),
    }
  },
}

const anthropic: FilesApi = {
  name: 'anthropic',
  headers: { 'anthropic-version': '2023-06-01', 'anthropic-beta': 'files-api-2025-04-14' },
  renderList({ before_id, order, limit }, after_id) {
    if (order === 'asc') throw refuse('order')
    return { ...(limit ? { limit: String(limit) } : {}), ...defined({ after_id, before_id }) }
  },
  renderFields: () => ({}),
  readFile(value) {
    const { size_bytes } = value
    const id = readString(value.id)
    const created = Date.parse(readString(value.created_at) ?? '')
    if (id === null || typeof size_bytes !== 'number' || Number.isNaN(created)) return undefined
    return {
      ...{ id, filename: readString(value.filename) ?? id, size_bytes, purpose: null },
      mime_type: readString(value.mime_type) ?? 'application/octet-stream',
      downloadable: value.downloadable === true,
      created_at: toIsoTime(created),
    }
  },
}

/** The files APIs that requests may be passed on to. */
const FILES_APIS: Record<FilesApi['name'], FilesApi> = { openai, anthropic }

const refuse = (field: string) => invalid(`${field}: expected nothing with this provider`, field)

const defined = (query: Record<string, string | undefined>): Record<string, string> =>
  Object.fromEntries(
    Object.entries(query).filter((entry): entry is [string, string] => entry[1] !== undefined),
  )

const LATEST = 8.64e15

const toIsoTime = (milliseconds: number): string =>
  new Date(Math.min(Math.max(milliseconds, 0), LATEST)).toISOString()

/** What this noun needs from the gateway. */
type ProviderFileWorld = FileWorld & PolicyWorld & UpstreamWorld

/** Whose files at which provider. */
type ProviderScope = FileScope & { provider: FilesApi['name'] }

/** Whether a request is about files at a provider. */
export const isAtProvider = (scope: FileScope): scope is ProviderScope =>
  scope.provider !== undefined

/**
 * Lists one page of the files that the workspace's own key has at a provider. Throws as
 * `getProviderFile` does, and 400 for what the provider's lists cannot do.
 */
export async function listProviderFiles(
  world: ProviderFileWorld,
  actor: Actor,
  query: ProviderFileQuery & ProviderScope,
  shape: FileShape,
) {
  const door = openDoor(world, actor, query)
  const search = new URLSearchParams(door.api.renderList(query, findStart(query))).toString()
  const answer = await askJson(world, door, { path: `/files${search && `?${search}`}` })
  const files = Array.isArray(answer.data) ? answer.data.map(door.api.readFile) : []
  const known = files.filter(file => file !== undefined)
  return showFileList(known, answer.has_more === true, shape)
}

/**
 * Returns the record of a file at a provider. Throws 400 where the workspace has no key for it, 403
 * where a guardrail keeps the provider away, 404 for a file that it does not have, 429 and 502 for
 * its failures, and what `resolveScope` throws.
 */
export async function getProviderFile(
  world: ProviderFileWorld,
  actor: Actor,
  id: string,
  scope: ProviderScope,
  shape: FileShape,
) {
  return showFile(await findFile(world, openDoor(world, actor, scope), id), shape)
}

/** Deletes a file at a provider. Throws as `getProviderFile` does. */
export async function deleteProviderFile(
  world: ProviderFileWorld,
  actor: Actor,
  id: string,
  scope: ProviderScope,
  shape: FileShape,
) {
  const door = openDoor(world, actor, scope)
  await askJson(world, door, { method: 'DELETE', path: `/files/${checkId(id)}` })
  return showDeletedFile(id, shape)
}

/**
 * Opens the bytes of a file at a provider, with their number where it says that. Throws as
 * `getProviderFile` does, and 400 where the provider does not hand it out.
 */
export async function readProviderFile(
  world: ProviderFileWorld,
  actor: Actor,
  id: string,
  scope: ProviderScope,
) {
  const door = openDoor(world, actor, scope)
  const { filename } = await findFile(world, door, id)
  const patience = openPatience(world, door)
  const request = { path: `/files/${id}/content`, headers: { 'accept-encoding': 'identity' } }
  const answer = await send(world, door, request, patience).catch(thrown => {
    patience.end()
    throw thrown
  })
  const length = Number(answer.header('content-length') ?? Number.NaN)
  const isPlain = answer.header('content-encoding') === null && Number.isSafeInteger(length)
  return { filename, size: isPlain ? length : undefined, bytes: streamAnswer(answer, patience) }
}

/**
 * A file that goes to a provider. It is spooled on the disk, without a record, and sent when it is
 * whole. It ends with `finish` or `discard`.
 */
export class ProviderUpload {
  readonly #world: ProviderFileWorld
  readonly #door: Door
  readonly #filename: string
  readonly #draft: BlobDraft
  readonly #detector = new TypeDetector()

  private constructor(world: ProviderFileWorld, door: Door, filename: string, draft: BlobDraft) {
    this.#world = world
    this.#door = door
    this.#filename = filename
    this.#draft = draft
  }

  /**
   * Begins a file. Throws as `getProviderFile` does, 400 for its name, 403 where content filters
   * apply, which cannot look into it there, and 503 where the disk is full.
   */
  static async open(
    world: ProviderFileWorld,
    actor: Actor,
    { filename, ...scope }: ProviderScope & { filename: string },
  ): Promise<ProviderUpload> {
    const door = openDoor(world, actor, scope)
    if (getPolicy(world, door.actor).filters)
      throw denied('Content filters apply to this key: files cannot go to a provider unread')
    const name = world.ids.uuid().replaceAll('-', '')
    const { workspace_id } = door.actor
    const checked = checkFilename(filename)
    const draft = await explainFullDisk(() => world.blobs.create({ workspace_id, name }))
    return new ProviderUpload(world, door, checked, draft)
  }

  /** Takes the next bytes. Throws 413 for more than 104,857,600, and 503 where the disk is full. */
  async write(bytes: Uint8Array): Promise<void> {
    if (this.#draft.size + bytes.length > LARGEST_FILE)
      throw tooLarge(`file: expected at most ${LARGEST_FILE} bytes`)
    this.#detector.push(bytes)
    await explainFullDisk(() => this.#draft.write(bytes))
  }

  /** Sends the file. Throws 400 for an empty one and for a purpose that is unknown, and as above. */
  async finish(purpose: string | null = null): Promise<ProviderFile> {
    const { size } = this.#draft
    if (size === 0) throw invalid('file: expected a file that is not empty', 'file')
    checkPurpose(purpose)
    const read = (position: number, length: number) => this.#draft.readAt(position, length)
    const media_type = (await this.#detector.finish(size, read)) ?? 'application/octet-stream'
    const attachment = { filename: this.#filename, media_type, as: { field: 'file' } }
    const answer = await askJson(this.#world, this.#door, {
      ...{ method: 'POST', path: '/files', body: this.#door.api.renderFields(purpose) },
      attachment: { ...attachment, source: { size, read } },
    })
    return { ...readFile(this.#door, answer), ...(purpose === null ? {} : { purpose }) }
  }

  /** Deletes what has arrived. */
  discard = (): Promise<void> => this.#draft.discard()
}

/** A way to a provider's files API, with the key of a workspace. */
interface Door {
  actor: Actor
  api: FilesApi
  provider: Provider
}

function openDoor(world: ProviderFileWorld, actor: Actor, scope: ProviderScope): Door {
  const workspace_id = resolveScope(world, actor, scope)
  const [api, scoped] = [FILES_APIS[scope.provider], { ...actor, workspace_id }]
  const provider = listUsableByokKeys(world, scoped)
    .filter(({ key }) => key.provider === api.name)
    .flatMap(({ providers }) => [...providers.values()])
    .find(({ base_url }) => !base_url.startsWith('sandbox:'))
  if (!provider)
    throw invalid(
      `provider: expected one that this workspace has a key for, found ${api.name}`,
      'provider',
    )
  const policy = getPolicy(world, scoped)
  if (
    !allowsProvider(policy.rules, provider) ||
    policy.zdr?.some(({ author }) => author === api.name)
  )
    throw denied(`A guardrail keeps files from ${provider.name}`)
  return { actor: scoped, api, provider }
}

interface FilesRequest {
  method?: 'GET' | 'POST' | 'DELETE'
  path: string
  headers?: Record<string, string>
  body?: Json
  attachment?: Attachment
}

/** What a provider's answer about files may have, in bytes: a thousand records. */
const LARGEST_ANSWER = 4 * 1024 * 1024

async function askJson(world: ProviderFileWorld, door: Door, request: FilesRequest): Promise<Json> {
  const patience = openPatience(world, door)
  try {
    const incoming = await send(world, door, request, patience)
    const answer = parseObject(await incoming.text(LARGEST_ANSWER, () => patience.renew()))
    if (!answer) throw createDoorFailure(door)
    return answer
  } catch (thrown) {
    throw thrown instanceof GatewayError ? thrown : createDoorFailure(door, thrown)
  } finally {
    patience.end()
  }
}

/** Sends a request and returns its answer if that has succeeded. */
async function send(
  world: ProviderFileWorld,
  door: Door,
  { method = 'GET', path, headers = {}, body = {}, attachment }: FilesRequest,
  patience: Patience,
): Promise<IncomingResponse> {
  const source = attachment && patience.watch(attachment.source)
  const outgoing = await authorize(
    world,
    door.provider,
    {
      ...{ path, body, headers: { ...door.api.headers, ...headers } },
      ...(attachment && source ? { attachment: { ...attachment, source } } : {}),
    },
    patience.cancellation,
  )
  const { 'content-type': type = '', ...others } = outgoing.headers
  const sent = attachment
    ? { ...outgoing, method }
    : { ...outgoing, method, headers: others, body: '' }
  if (attachment) sent.headers['content-type'] = type
  const incoming = await world.egress.send(sent, patience.cancellation).catch(thrown => {
    throw thrown instanceof GatewayError ? thrown : createDoorFailure(door, thrown)
  })
  if (incoming.status < 300) return incoming
  throw explainStatus(door, incoming, await readMessage(incoming))
}

const openPatience = ({ config }: ProviderFileWorld, door: Door) =>
  new Patience(config.timeouts.idle_seconds * 1000, createDoorFailure(door))

const createDoorFailure = ({ provider }: Door, cause?: unknown) =>
  new GatewayError('provider_unavailable', `${provider.name} gave no usable answer`, { cause })

async function readMessage(incoming: IncomingResponse): Promise<string | null> {
  const text = await Promise.resolve(incoming.text(LARGEST_ANSWER, () => undefined)).catch(() => '')
  return readString(readObject(parseObject(text) ?? {}, 'error').message)
}

/** Explains what a provider has refused. Its own words are for those who sent the request only. */
function explainStatus({ provider }: Door, incoming: IncomingResponse, message: string | null) {
  const { status } = incoming
  const { name } = provider
  const words = new GatewayError('unmapped', '', { reason: { code: null, message } })
  const said = cleanReason(words, provider).reason?.message ?? `status ${status}`
  const wait = Number(incoming.header('retry-after') ?? Number.NaN)
  if (status === 404) return notFound('File not found')
  if (status === 413) return tooLarge(`${name}: ${said}`)
  if (status === 429)
    return new GatewayError('rate_limit_exceeded', `${name} takes no more requests now`, {
      retryAfter: Number.isFinite(wait) && wait >= 0 ? Math.ceil(wait) : undefined,
    })
  if (status === 401 || status === 403)
    return new GatewayError('provider_unavailable', `${name} refuses the key of this workspace`)
  if (status >= 400 && status < 500) return invalid(`${name}: ${said}`)
  return new GatewayError('provider_unavailable', `${name} answers with ${status}`)
}

const findFile = async (world: ProviderFileWorld, door: Door, id: string): Promise<ProviderFile> =>
  readFile(door, await askJson(world, door, { path: `/files/${checkId(id)}` }))

function readFile(door: Door, value: Json): ProviderFile {
  const file = door.api.readFile(value)
  if (!file) throw createDoorFailure(door)
  return file
}

// It becomes a part of a path.
function checkId(id: string): string {
  if (!/^[\w-]{1,128}$/.test(id)) throw notFound('File not found')
  return id
}

/** Hands an answer on as it is read. A reader that leaves closes the connection. */
const streamAnswer = (answer: IncomingResponse, patience: Patience): ReadableStream<Uint8Array> =>
  new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        patience.renew()
        const bytes = await answer.read()
        // A reader may take its time: only the provider’s silence counts.
        patience.rest()
        if (bytes) return controller.enqueue(bytes)
        patience.end()
        controller.close()
      },
      cancel: () => patience.end(),
    },
    { highWaterMark: 0 },
  )
