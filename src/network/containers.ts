import { getIsoTime } from '../base/clock.ts'
import { conflict, notFound, requireFound, tooLarge } from '../base/errors.ts'
import type { Actor } from '../resources/actor.ts'
import { LARGEST_FILE } from '../resources/files/quota.ts'
import type { StoredFile } from '../resources/files/store.ts'
import { type FileShape, showFile } from '../resources/files/view.ts'
import {
  type ChooseRange,
  listDamages,
  resolveScope,
  storeFile,
  sweepFiles,
} from '../resources/files.ts'
import { isExpired, KEPT_DAYS } from './containers/commands.ts'
import { emptyHome, getHomeBlob, readHomeFile } from './containers/home.ts'
import { isSessionContainer, readFileId } from './containers/names.ts'
import type { ContainerFileQuery, ContainerPrune, ContainerQuery } from './containers/schema.ts'
import type { Container, ContainerFile } from './containers/store.ts'
import { auditContainer, showContainerFile, showContainerFiles } from './containers/view.ts'
import type { WarmWorld } from './containers/warm.ts'

/** The files on a page when the query states none. */
const PAGE_SIZE = 100

/**
 * Lists one page of a container’s files, by their paths. Throws 404 for a container that does not
 * exist in the workspace, or that has been unused for 30 days.
 */
export async function listContainerFiles(
  world: WarmWorld,
  actor: Actor,
  name: string,
  { limit = PAGE_SIZE, after }: ContainerFileQuery = {},
) {
  const container = await requireContainer(world, actor, name)
  const start = after === undefined ? undefined : requireFound(readFileId(after), 'File')
  const range = { container_id: container.id, after: start, limit: limit + 1 }
  const found = await world.store.containers.listFiles(range)
  return showContainerFiles(container, found.slice(0, limit), found.length > limit)
}

/** Returns the record of a container’s file. Throws 404 as for a file that does not exist. */
export async function getContainerFile(world: WarmWorld, actor: Actor, name: string, id: string) {
  const { container, file } = await requireContainerFile(world, actor, name, id)
  return showContainerFile(container, file)
}

/** Opens the bytes of a container’s file. Throws 404 as for a file that does not exist. */
export async function readContainerFile(
  world: WarmWorld,
  actor: Actor,
  name: string,
  id: string,
  choose: ChooseRange = () => undefined,
) {
  const { container, file } = await requireContainerFile(world, actor, name, id)
  const range = choose(file.size_bytes)
  return { file, range, bytes: await readHomeFile(world, container, file, range) }
}

/**
 * Copies a container’s file into the workspace’s files, under its path. Asked again, it returns the
 * same copy as long as neither has changed. Throws 404, 413 for more than 104,857,600 bytes, 400
 * for a path that is no filename, 403 where the quota is used up, and 409 where the file has changed
 * meanwhile.
 */
export async function promoteContainerFile(
  world: WarmWorld,
  actor: Actor,
  name: string,
  id: string,
  shape: FileShape = 'openrouter',
) {
  const found = await requireContainerFile(world, actor, name, id)
  const { promotions } = world.warm
  const { blob } = found.file
  const running = promotions.get(blob) as Promise<StoredFile> | undefined
  const promotion = running ?? promote(world, actor, found).finally(() => promotions.delete(blob))
  promotions.set(blob, promotion)
  return showFile(await promotion, shape)
}

async function promote(
  world: WarmWorld,
  actor: Actor,
  { container, file }: FoundFile,
): Promise<StoredFile> {
  const { store } = world
  const earlier = file.promoted_id === null ? undefined : await store.files.find(file.promoted_id)
  if (earlier) return earlier
  if (file.size_bytes > LARGEST_FILE)
    throw tooLarge(`${file.path}: expected at most ${LARGEST_FILE} bytes`)
  const { workspace_id } = container
  const upload = { filename: file.path, downloadable: true, takesAnything: true, source: file }
  const scope = actor.workspace_id === workspace_id ? {} : { workspace_id }
  return storeFile(world, actor, { ...upload, ...scope }, readWhole(world, { container, file }))
}

/** Reads a file of a home to its end. Throws 409 where it has changed before that. */
async function* readWhole(
  world: WarmWorld,
  { container, file }: FoundFile,
): AsyncGenerator<Uint8Array> {
  try {
    yield* await readHomeFile(world, container, file)
  } catch (thrown) {
    // A file that changes gets another blob, and this one goes.
    const now = await world.store.containers.findFile(container.id, file.path)
    if (now?.blob !== file.blob) throw conflict(CHANGED)
    throw thrown
  }
}

const CHANGED = 'The file has just changed'

interface FoundFile {
  container: Container
  file: ContainerFile
}

async function requireContainerFile(
  world: WarmWorld,
  actor: Actor,
  name: string,
  id: string,
): Promise<FoundFile> {
  const container = await requireContainer(world, actor, name)
  const path = readFileId(id)
  const file = path === undefined ? undefined : await findFile(world, container, path)
  return { container, file: requireFound(file, 'File') }
}

const findFile = ({ store }: WarmWorld, { id }: Container, path: string) =>
  store.containers.findFile(id, path)

async function requireContainer(world: WarmWorld, actor: Actor, name: string): Promise<Container> {
  const container = await world.store.containers.find(resolveScope(world, actor, {}), name)
  const isThere = container && container.ended_at === null && !isExpired(world, container)
  return requireFound(isThere ? container : undefined, 'Container')
}

/** Lists containers, the longest unused first; all of them without a query. */
export async function listContainers(
  { store }: WarmWorld,
  _actor: Actor,
  { workspace_id }: ContainerQuery = {},
) {
  const found = await store.containers.listUsable(workspace_id)
  return {
    data: found.map(({ id: _, name, ended_at: __, ...rest }) => ({ container_id: name, ...rest })),
  }
}

/** Returns the record of a container. Throws 404 as for its files. */
export async function getContainer(world: WarmWorld, actor: Actor, name: string) {
  const { workspace_id } = await requireContainer(world, actor, name)
  const { data } = await listContainers(world, actor, { workspace_id })
  const found = data.find(({ container_id }) => container_id === name)
  return { data: requireFound(found, 'Container') }
}

/**
 * Ends a container: kills everything in it and deletes its files. A server that runs it notices
 * within a second. Throws 404 for one that does not exist in the workspace.
 */
export async function killContainer(
  world: WarmWorld,
  actor: Actor,
  name: string,
  { workspace_id }: ContainerQuery = {},
) {
  const scope = workspace_id === undefined ? {} : { workspace_id }
  const found = await world.store.containers.find(resolveScope(world, actor, scope), name)
  if (!found || found.ended_at !== null) throw notFound('Container not found')
  await endContainer(world, actor, found)
  return { container_id: name, deleted: true as const }
}

/** Ends the containers unused for so many days: 30 if none are stated. */
export async function pruneContainers(
  world: WarmWorld,
  actor: Actor,
  { workspace_id, unused_days = KEPT_DAYS }: ContainerPrune = {},
) {
  const found = await world.store.containers.listUsable(workspace_id)
  const unused = found.filter(container => isExpired(world, container, unused_days))
  const pruned = { deleted: 0, bytes: 0 }
  for (const { name, workspace_id, bytes } of unused) {
    // To end one takes its time: others may have been used meanwhile.
    const container = await world.store.containers.find(workspace_id, name)
    if (!container || container.ended_at !== null) continue
    if (!isExpired(world, container, unused_days)) continue
    await endContainer(world, actor, container)
    pruned.deleted += 1
    pruned.bytes += bytes
  }
  return pruned
}

async function endContainer(world: WarmWorld, actor: Actor, container: Container): Promise<void> {
  await world.warm.end(container.id)
  await emptyHome(world, container)
  // The name of a session’s container stays taken: what it held is gone.
  const ended_at = isSessionContainer(container.name) ? getIsoTime(world) : null
  const entry = auditContainer(world, actor, container, null)
  await world.store.containers.end(container.id, ended_at, entry)
}

/** Compares the record of every container’s file with its bytes. Returns what differs. */
export async function checkHomes({ blobs, store: { containers } }: WarmWorld) {
  const problems: string[] = []
  let count = 0
  for (const container of await containers.listUsable()) {
    const range = { container_id: container.id, limit: Number.MAX_SAFE_INTEGER }
    const files = await containers.listFiles(range)
    count += files.length
    problems.push(
      ...(await listDamages(
        blobs,
        files,
        file => ({
          place: getHomeBlob(container, file),
          known: { ...file, name: `${container.name}: ${file.path}` },
        }),
        // A command may have changed it meanwhile.
        ({ blob }) => containers.hasBlob(container.workspace_id, blob),
      )),
    )
  }
  return { count, problems }
}

/** Deletes what killed processes have left of files of every kind. Returns how many those were. */
export const sweepBlobs = (world: WarmWorld): Promise<number> =>
  sweepFiles(world, ({ workspace_id, name }) => world.store.containers.hasBlob(workspace_id, name))
