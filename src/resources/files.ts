import type { ByteRange } from '../base/byte-source.ts'
import { getIsoTime, yieldToEventLoop } from '../base/clock.ts'
import { denied, invalid, requireFound, tooLarge, unavailable } from '../base/errors.ts'
import { type Actor, canManageAll, resolveWorkspaceId } from './actor.ts'
import {
  type BlobDraft,
  type BlobPlace,
  type BlobStore,
  findDamage,
  type KnownBytes,
  readBlob,
} from './files/blobs.ts'
import {
  buildFileQuota,
  checkDraftQuota,
  checkFileQuota,
  type FileUse,
  LARGEST_FILE,
} from './files/quota.ts'
import { checkRequestFile } from './files/request-lines.ts'
import { type FileListQuery, type FileScope, PURPOSES } from './files/schema.ts'
import type { CopySource, StoredFile } from './files/store.ts'
import { TypeDetector } from './files/type.ts'
import { auditFile, type FileShape, showDeletedFile, showFile, showFileList } from './files/view.ts'
import type { FileWorld } from './files/world.ts'

/** What is known of a file before its first byte. */
export interface NewUpload extends FileScope {
  filename: string
  /** False for uploads of callers, true for what the gateway itself has written. */
  downloadable?: boolean
  /** Whether a type that is not known is stored as binary, instead of refused. */
  takesAnything?: boolean
  /** What the gateway itself has written it for; a caller says so at the end. */
  purpose?: string
  /** The id that was reserved for it. */
  id?: string
  /** What it is a copy of. */
  source?: CopySource
  /** In seconds, how long it stays; null for ever. */
  expires_after?: number | null
}

/** What is on record of a file that does not depend on its bytes. */
type FileStart = Pick<StoredFile, 'id' | 'workspace_id' | 'filename' | 'downloadable'>

const ID_START = 'or_file_'

/** Creates the id of a file, before there is one. */
export const createFileId = ({ ids }: Pick<FileWorld, 'ids'>): string =>
  ID_START + ids.uuid().replaceAll('-', '')

/**
 * A file that is arriving. Its bytes go to the blob store as they come, and are judged on the way.
 * It ends with `finish` or `discard`.
 */
export class Upload {
  readonly #world: FileWorld
  readonly #actor: Actor
  readonly #file: FileStart
  readonly #draft: BlobDraft
  /** What the files of the workspace took when it began. */
  readonly #used: FileUse
  readonly #detector = new TypeDetector()
  /** The type of what has none that is known; undefined if that is refused. */
  readonly #otherwise: string | undefined
  readonly #purpose: string | undefined
  readonly #source: CopySource | undefined
  readonly #expiresAfter: number | null

  private constructor(
    world: FileWorld,
    actor: Actor,
    file: FileStart,
    draft: BlobDraft,
    used: FileUse,
    {
      takesAnything = false,
      purpose,
      source,
      expires_after = null,
    }: Pick<NewUpload, 'takesAnything' | 'purpose' | 'source' | 'expires_after'>,
  ) {
    this.#otherwise = takesAnything ? BINARY : undefined
    this.#purpose = purpose
    this.#source = source
    this.#expiresAfter = expires_after
    this.#world = world
    this.#actor = actor
    this.#file = file
    this.#draft = draft
    this.#used = used
  }

  /**
   * Begins a file. Throws 400 for its name, for a workspace that does not exist and for a
   * provider, 403 for another workspace than the key's and where the quota is used up, and 503
   * where the storage is full.
   */
  static async open(world: FileWorld, actor: Actor, input: NewUpload): Promise<Upload> {
    const workspace_id = resolveScope(world, actor, input)
    const filename = checkFilename(input.filename)
    const used = await world.store.files.computeUse(workspace_id)
    checkFileQuota(buildFileQuota(world.config, workspace_id), used, 1)
    const { downloadable = false, id = createFileId(world) } = input
    const file = { id, workspace_id, filename, downloadable }
    const draft = await explainFullDisk(() => world.blobs.create(getBlobPlace(file)))
    return new Upload(world, actor, file, draft, used, input)
  }

  /**
   * Takes the next bytes. Throws 413 for more than 104,857,600, unless the gateway itself writes the
   * file for a purpose, 403 where the uploads of the workspace take too much at once, and 503 where
   * the disk is full.
   */
  async write(bytes: Uint8Array): Promise<void> {
    const isBound = this.#purpose === undefined
    if (isBound && this.#draft.size + bytes.length > LARGEST_FILE) throw tooLarge(TOO_LARGE)
    const { workspace_id } = this.#file
    const quota = buildFileQuota(this.#world.config, workspace_id)
    checkDraftQuota(quota, this.#used, this.#world.blobs.countDrafts(workspace_id) + bytes.length)
    this.#detector.push(bytes)
    await explainFullDisk(() => this.#draft.write(bytes))
  }

  /**
   * Ends the file and records it. Throws 400 for an empty one that is no copy, for a type that is not accepted, for
   * a purpose that is unknown and, naming the line, for `batch` with a line that is no request; and
   * 403 where the workspace's files would exceed the quota.
   */
  async finish(said: string | null = null): Promise<StoredFile> {
    const size_bytes = this.#draft.size
    if (size_bytes === 0 && !this.#source)
      throw invalid('file: expected a file that is not empty', 'file')
    checkPurpose(said)
    const purpose = this.#purpose ?? said
    if (said === REQUESTS) await checkRequestFile(this.#readBack())
    const detected = await this.#detector.finish(size_bytes, (position, length) =>
      this.#draft.readAt(position, length),
    )
    const mime_type = detected ?? this.#otherwise
    if (mime_type === undefined) throw invalid(`file: expected ${ACCEPTED}`, 'file')
    const { files } = this.#world.store
    const sha256 = this.#draft.digest()
    const file = { ...this.#file, mime_type, size_bytes, sha256, purpose, ...this.#stamp() }
    const quota = buildFileQuota(this.#world.config, file.workspace_id)
    const entry = auditFile(this.#world, this.#actor, null, file)
    await explainFullDisk(() =>
      this.#draft.keep(() => files.insert(file, quota, entry, this.#source)),
    )
    return file
  }

  /** Deletes what has arrived. After `finish` it does nothing. */
  discard = (): Promise<void> => this.#draft.discard()

  /** Reads what has arrived. Others get their turn after each piece. */
  async *#readBack(): AsyncGenerator<Uint8Array> {
    for (let at = 0; at < this.#draft.size; at += READ_AT_ONCE) {
      await yieldToEventLoop()
      yield await this.#draft.readAt(at, READ_AT_ONCE)
    }
  }

  #stamp() {
    const now = this.#world.clock.now()
    const seconds = this.#expiresAfter
    const end = seconds === null ? null : new Date(now.getTime() + seconds * 1000).toISOString()
    return { created_at: now.toISOString(), expires_at: end }
  }
}

/** The purpose of files of requests. */
const REQUESTS = 'batch'

const READ_AT_ONCE = 64 * 1024

const BINARY = 'application/octet-stream'

const TOO_LARGE = `file: expected at most ${LARGEST_FILE} bytes`

const ACCEPTED =
  'PDF; PNG, JPEG, GIF or WebP; DOCX, XLSX or PPTX; MP3, WAV, FLAC or OGG; or text in UTF-8'

/** Throws 400 for a purpose that OpenAI does not know. */
export function checkPurpose(purpose: string | null): void {
  if (purpose !== null && !PURPOSES.includes(purpose))
    throw invalid(`purpose: expected one of ${PURPOSES.join(', ')}`, 'purpose')
}

// What a disk says when it is full. Others may have been in the way of a write too.
const FULL = ['ENOSPC', 'EDQUOT', 'EFBIG']

/** Does what writes to the storage. Throws 503 where that is full. */
export async function explainFullDisk<Result>(work: () => Promise<Result>): Promise<Result> {
  try {
    return await work()
  } catch (thrown) {
    if (thrown instanceof Error && 'code' in thrown && FULL.includes(String(thrown.code)))
      throw unavailable('The storage of files is full', 60, thrown)
    throw thrown
  }
}

/**
 * Stores a file whose bytes come piece by piece. If anything fails, nothing is left of it. Throws
 * what the methods of `Upload` throw, and what reading throws.
 */
export async function storeFile(
  world: FileWorld,
  actor: Actor,
  input: NewUpload,
  pieces: AsyncIterable<Uint8Array>,
  purpose: string | null = null,
): Promise<StoredFile> {
  const upload = await Upload.open(world, actor, input)
  try {
    for await (const bytes of pieces) await upload.write(bytes)
    return await upload.finish(purpose)
  } finally {
    await upload.discard()
  }
}

/** The files on a page when the query states none. */
const PAGE_SIZE = 100

/**
 * Lists one page of a workspace's files, newest first unless `order` says otherwise. Throws 400 for
 * a workspace that does not exist and for two ways of paging at once, 403 for another workspace
 * than the key's.
 */
export async function listFiles(
  world: FileWorld,
  actor: Actor,
  query: FileListQuery,
  shape: FileShape = 'openrouter',
) {
  const workspace_id = resolveScope(world, actor, query)
  const after = findStart(query)
  const { limit = PAGE_SIZE, order = 'desc', before_id, purpose } = query
  const range = { workspace_id, now: getIsoTime(world), purpose, limit: limit + 1 }
  // What precedes an id is what follows it in the opposite order.
  const found = await (before_id === undefined
    ? world.store.files.listRange({ ...range, order, after })
    : world.store.files.listRange({ ...range, order: reverse(order), after: before_id }))
  const page = found.slice(0, limit)
  if (before_id !== undefined) page.reverse()
  return showFileList(page, found.length > limit, shape)
}

const reverse = (order: 'asc' | 'desc') => (order === 'asc' ? 'desc' : 'asc')

const STARTS = ['cursor', 'after', 'after_id', 'before_id', 'page'] as const

/** What other services’ lists can be narrowed by, and this one cannot. */
const WITHOUT_EFFECT = ['ids', 'ids[]', 'scope_id']

/** Throws 400 for the name of a parameter that would narrow a list, and does not. */
export function refuseNarrowing(names: Iterable<string>, isAtProvider: boolean): void {
  const asked = new Set(names)
  const without = isAtProvider ? [...WITHOUT_EFFECT, 'purpose'] : WITHOUT_EFFECT
  const field = without.find(name => asked.has(name))
  if (field) throw invalid(`${field}: expected nothing, as all files are listed`, field)
}

/**
 * Returns the id that a list goes on after; undefined for its beginning and for `before_id`. Throws
 * 400 for two ways of paging at once.
 */
export function findStart(query: { [Name in (typeof STARTS)[number]]?: string }) {
  const [name, ...others] = STARTS.filter(start => query[start] !== undefined)
  if (others.length > 0)
    throw invalid(`${name}: expected alone, found ${others.join(' and ')} with it`, name)
  return name === undefined || name === 'before_id' ? undefined : query[name]
}

/**
 * Returns a file's record. Throws 404 for one that does not exist in the workspace, 403 for another
 * workspace than the key's.
 */
export const getFile = async (
  world: FileWorld,
  actor: Actor,
  id: string,
  scope: FileScope = {},
  shape: FileShape = 'openrouter',
) => showFile(await requireFile(world, actor, id, scope), shape)

/** Deletes a file, for good. Throws as `getFile` does. */
export async function deleteFile(
  world: FileWorld,
  actor: Actor,
  id: string,
  scope: FileScope = {},
  shape: FileShape = 'openrouter',
) {
  const file = await requireFile(world, actor, id, scope)
  const entry = auditFile(world, actor, file, null)
  await world.blobs.remove(getBlobPlace(file), () => world.store.files.remove(id, entry))
  return showDeletedFile(id, shape)
}

/**
 * Opens a file's bytes. Throws as `getFile` does, 400 for a file that is not handed out, and 404
 * where the bytes are missing or damaged. The operator, who can read the disk, gets every file. `choose` may
 * choose some of its bytes, once their number is known.
 */
export async function readFile(
  world: FileWorld,
  actor: Actor,
  id: string,
  scope: FileScope = {},
  choose: ChooseRange = () => undefined,
) {
  const file = await requireFile(world, actor, id, scope)
  if (!file.downloadable && actor.kind !== 'operator')
    throw invalid(`${id} was uploaded: only files that the gateway has written can be downloaded`)
  const range = choose(file.size_bytes)
  return { file, range, bytes: await readStored(world, file, range) }
}

/** Chooses bytes of a file of this size; undefined for all of them. */
export type ChooseRange = (size: number) => ByteRange | undefined

/** Finds the record of a file. Throws as `getFile` does. */
export async function requireFile(world: FileWorld, actor: Actor, id: string, scope: FileScope) {
  const isAnywhere = actor.kind === 'operator' && scope.workspace_id === undefined
  const workspace_id = isAnywhere ? null : resolveScope(world, actor, scope)
  return requireFound(await findUsableFile(world, workspace_id, id), 'File')
}

/**
 * Finds a file of a workspace, or of any; undefined where it has none of this id. One whose time is
 * over goes within a minute, and is not there any more before that.
 */
export async function findUsableFile(
  world: Pick<FileWorld, 'store' | 'clock'>,
  workspace_id: string | null,
  id: string,
): Promise<StoredFile | undefined> {
  const file = await world.store.files.find(id)
  if (!file || (workspace_id !== null && file.workspace_id !== workspace_id)) return undefined
  const { expires_at } = file
  return expires_at !== null && expires_at <= getIsoTime(world) ? undefined : file
}

/** How many files whose time is over are looked for at once. */
const EXPIRED_AT_ONCE = 100

/** Deletes the files whose time is over, for good. Returns how many those were. */
export async function deleteExpiredFiles(world: FileWorld): Promise<number> {
  let deleted = 0
  for (;;) {
    const files = await world.store.files.listExpired(getIsoTime(world), EXPIRED_AT_ONCE)
    for (const file of files)
      await world.blobs.remove(getBlobPlace(file), () => world.store.files.remove(file.id, null))
    deleted += files.length
    if (files.length < EXPIRED_AT_ONCE) return deleted
  }
}

/**
 * Resolves whose files a request is about: those of the key's workspace, or of one that a manager
 * of all workspaces names. Throws 403 for another than the key's own (wire reference F.1).
 */
export function resolveScope(world: FileWorld, actor: Actor, { workspace_id }: FileScope) {
  const managesAll = actor.kind !== 'inference' && canManageAll(world, actor)
  if (managesAll) return resolveWorkspaceId(world, actor, workspace_id)
  if (workspace_id !== undefined && workspace_id !== actor.workspace_id)
    throw denied('workspace_id: this key belongs to another workspace')
  return actor.workspace_id
}

/** Reads a file’s bytes, or some of them. Throws as `readBlob` does. */
export const readStored = (
  { blobs }: Pick<FileWorld, 'blobs'>,
  file: StoredFile,
  range?: ByteRange,
): Promise<ReadableStream<Uint8Array>> =>
  readBlob(blobs, getBlobPlace(file), { ...file, name: file.id }, range)

/** Returns where the bytes of a file are. */
export const getBlobPlace = ({
  id,
  workspace_id,
}: Pick<StoredFile, 'id' | 'workspace_id'>): BlobPlace => ({
  workspace_id,
  name: id.slice(ID_START.length),
})

/**
 * Deletes what killed processes have left of uploads and deletions, and the bytes of workspaces
 * that were deleted. `isOfOthers` tells the blobs that are no files. Returns how many files that
 * were. For the start of a server.
 */
export async function sweepFiles(
  { blobs, store: { files } }: FileWorld,
  isOfOthers: (place: BlobPlace) => Promise<boolean> = async () => false,
): Promise<number> {
  const swept = await blobs.sweep(
    async place =>
      (await files.find(ID_START + place.name))?.workspace_id === place.workspace_id ||
      (await isOfOthers(place)),
  )
  for (const id of await files.listDeletedWorkspaces()) await blobs.removeWorkspace(id)
  return swept
}

/** How many files are looked at at once: a bucket is far away. */
const AT_ONCE = 32

/**
 * Compares records with bytes. Returns a sentence for each that differs, unless `isCurrent` says
 * that the record has gone meanwhile.
 */
export async function listDamages<File>(
  blobs: BlobStore,
  files: File[],
  locate: (file: File) => { place: BlobPlace; known: KnownBytes },
  isCurrent: (file: File) => Promise<boolean>,
): Promise<string[]> {
  const found: string[] = []
  const most = blobs.isRemote ? AT_ONCE : 1
  for (let i = 0; i < files.length; i += most)
    await Promise.all(
      files.slice(i, i + most).map(async file => {
        const { place, known } = locate(file)
        const damage = await findDamage(blobs, place, known)
        if (damage !== null && (await isCurrent(file))) found.push(damage)
      }),
    )
  return found
}

/**
 * Compares every record of a file with its bytes, and counts the blobs without a record. Returns a
 * sentence for each file that differs.
 */
export async function checkFiles(
  { blobs, store }: FileWorld,
  isOfOthers: (place: BlobPlace) => Promise<boolean> = async () => false,
) {
  // The bytes are there before the record, and after it.
  const files = await store.files.all()
  const problems = await listDamages(
    blobs,
    files,
    file => ({ place: getBlobPlace(file), known: { ...file, name: file.id } }),
    async ({ id }) => (await store.files.find(id)) !== undefined,
  )
  const hasRecord = async (place: BlobPlace) =>
    (await store.files.find(ID_START + place.name)) !== undefined || (await isOfOthers(place))
  return { count: files.length, problems, stray: await countStray(blobs, hasRecord) }
}

async function countStray(
  blobs: BlobStore,
  hasRecord: (place: BlobPlace) => Promise<boolean>,
): Promise<number> {
  let count = 0
  for await (const place of blobs.list()) if (!(await hasRecord(place))) count += 1
  return count
}

const LONGEST = 255

// biome-ignore lint/suspicious/noControlCharactersInRegex: these are the characters to refuse.
const REFUSED = /[<>:"|?*\\\u0000-\u001f\u007f-\u009f\u2028\u2029]/

/**
 * Checks a file's name: 1 to 255 characters, which may contain `/` as folders do (wire reference
 * F.3). Throws 400 for a slash at an end, for an empty, `.` or `..` segment, for `< > : " | ? * \`
 * and for control characters.
 */
export function checkFilename(filename: string): string {
  if (filename === '') throw refuse('a name')
  if ([...filename].length > LONGEST) throw refuse(`a name of at most ${LONGEST} characters`)
  if (REFUSED.test(filename)) throw refuse('a name without control characters and < > : " | ? * \\')
  const isPlain = filename.split('/').every(part => part !== '' && part !== '.' && part !== '..')
  if (!isPlain) throw refuse('a name whose folders are neither empty nor . nor ..')
  return filename
}

const refuse = (expected: string) => invalid(`filename: expected ${expected}`, 'filename')
