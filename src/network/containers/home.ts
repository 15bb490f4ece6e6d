import type { ByteRange } from '../../base/byte-source.ts'
import { getIsoTime } from '../../base/clock.ts'

import { type BlobDraft, type BlobPlace, readBlob } from '../../resources/files/blobs.ts'
import { explainFullDisk } from '../../resources/files.ts'
import type { ListedFile, SandboxBox } from '../sandboxes/sandbox.ts'
import { buildHomeQuota } from './quota.ts'
import type { Container, ContainerFile } from './store.ts'
import type { ContainerWorld } from './world.ts'

/** A home as it runs, and what of it is on record. */
export interface RunningHome {
  container: Container
  box: SandboxBox
  /** By path: the record, and the state of the file in the box that it describes. */
  kept: Map<string, { file: ContainerFile; version: string }>
}

/** How many files change in one transaction: each is open until then. */
const BATCH = 64

/** How often a home is read again that changes meanwhile: what was killed may still be dying. */
const ATTEMPTS = 3

/** Returns where the bytes of a container’s file are. */
export const getHomeBlob = (
  { workspace_id }: Container,
  { blob }: Pick<ContainerFile, 'blob'>,
): BlobPlace => ({
  workspace_id,
  name: blob,
})

/** Reads the bytes of a container’s file, or some of them. Throws as `readBlob` does. */
export const readHomeFile = (
  { blobs }: ContainerWorld,
  container: Container,
  file: ContainerFile,
  range?: ByteRange,
): Promise<ReadableStream<Uint8Array>> =>
  readBlob(blobs, getHomeBlob(container, file), { ...file, name: file.path }, range)

/** What a home has become. */
interface KeptHome {
  /** The files that are new or changed. */
  changed: ContainerFile[]
  /** How many entries are not kept: links, devices, names in no UTF-8, and what is too much. */
  left: number
}

/**
 * Puts on record what has changed in a home. Each file is there as a whole or not at all. Throws
 * 403 where the quota is used up, 503 where the storage is full, and 404 for a container that was
 * ended meanwhile.
 */
export async function keepHome(world: ContainerWorld, home: RunningHome): Promise<KeptHome> {
  for (let attempt = 1; ; attempt++)
    try {
      return await keepOnce(world, home)
    } catch (thrown) {
      if (!(thrown instanceof HomeChanged) || attempt === ATTEMPTS) throw thrown
    }
}

/** A home that has changed while it was read. */
class HomeChanged extends Error {}

async function keepOnce(world: ContainerWorld, home: RunningHome): Promise<KeptHome> {
  const listing = await home.box.list()
  const files = takeWhole(listing.files, world.config.sandbox.home_mib * MIB)
  const present = new Set(files.map(({ path }) => path))
  const changed = files.filter(file => home.kept.get(file.path)?.version !== file.version)
  const removed = [...home.kept.keys()].filter(path => !present.has(path))
  const kept: ContainerFile[] = []
  for (let i = 0; i === 0 || i < Math.max(changed.length, removed.length); i += BATCH)
    kept.push(
      ...(await keepBatch(world, home, changed.slice(i, i + BATCH), removed.slice(i, i + BATCH))),
    )
  return { changed: kept, left: listing.left + listing.files.length - files.length }
}

const MIB = 1024 * 1024

/** Returns the first files that fit: those with holes seem larger than the home. */
function takeWhole(files: ListedFile[], most: number): ListedFile[] {
  let sum = 0
  return files.filter(({ size }) => {
    const fits = sum + size <= most
    if (fits) sum += size
    return fits
  })
}

async function keepBatch(
  world: ContainerWorld,
  home: RunningHome,
  changed: ListedFile[],
  removed: string[],
): Promise<ContainerFile[]> {
  const { container, kept } = home
  const last_used_at = getIsoTime(world)
  const put = changed.map(({ path, mode, size }) => ({
    ...{ container_id: container.id, path, mode, size_bytes: size },
    ...{ blob: world.ids.uuid().replaceAll('-', ''), promoted_id: null, created_at: last_used_at },
  }))
  const old = [...removed, ...changed.map(({ path }) => path)]
  const replaced = old.flatMap(path => kept.get(path)?.file ?? [])
  const quota = buildHomeQuota(world.config, container.workspace_id)
  const files = await withDrafts(world, home, put, changed, async drafts => {
    const whole = put.map((file, i) => ({ ...file, sha256: drafts[i]?.digest() ?? null }))
    const change = { container_id: container.id, put: whole, removed, last_used_at }
    // The new bytes are there before the records, and the old ones go after them.
    await removeBlobs(world, container, replaced, () =>
      keepDrafts(drafts, () => world.store.containers.changeFiles(change, quota)),
    )
    return whole
  })
  for (const path of removed) kept.delete(path)
  for (const [i, file] of files.entries())
    kept.set(file.path, { file, version: changed[i]?.version ?? '' })
  return files
}

/** Copies the bytes of files into drafts of blobs. What is not kept is deleted. */
async function withDrafts<Result>(
  { blobs }: ContainerWorld,
  { container, box }: RunningHome,
  put: Pick<ContainerFile, 'blob'>[],
  listed: ListedFile[],
  work: (drafts: BlobDraft[]) => Promise<Result>,
): Promise<Result> {
  const drafts: BlobDraft[] = []
  try {
    return await explainFullDisk(async () => {
      for (const file of put) drafts.push(await blobs.create(getHomeBlob(container, file)))
      if (listed.length > 0) await splitInto(drafts, listed, box.read(listed))
      return work(drafts)
    })
  } finally {
    for (const draft of drafts) await draft.discard()
  }
}

/** Writes one stream into drafts, to each as many bytes as its file has. */
async function splitInto(
  drafts: BlobDraft[],
  listed: ListedFile[],
  pieces: AsyncIterable<Uint8Array>,
): Promise<void> {
  let at = 0
  for await (const piece of pieces)
    for (let rest = piece; rest.length > 0; ) {
      while (at < drafts.length && drafts[at]?.size === listed[at]?.size) at += 1
      const draft = drafts[at]
      if (!draft) throw new HomeChanged('A file has grown while it was read')
      const missing = (listed[at]?.size ?? 0) - draft.size
      await draft.write(rest.subarray(0, missing))
      rest = rest.subarray(missing)
    }
  if (drafts.some((draft, i) => draft.size !== listed[i]?.size))
    throw new HomeChanged('A file has shrunk while it was read')
}

const keepDrafts = (drafts: BlobDraft[], insertRecords: () => Promise<void>): Promise<void> =>
  drafts.reduceRight((next, draft) => () => draft.keep(next), insertRecords)()

const removeBlobs = (
  { blobs }: ContainerWorld,
  container: Container,
  files: ContainerFile[],
  removeRecords: () => Promise<void>,
): Promise<void> =>
  files.reduceRight(
    (next, file) => () => blobs.remove(getHomeBlob(container, file), next),
    removeRecords,
  )()

/** Deletes all files of a container, some at a time. */
export async function emptyHome(world: ContainerWorld, container: Container): Promise<void> {
  const { id: container_id, workspace_id, last_used_at } = container
  const quota = buildHomeQuota(world.config, workspace_id)
  for (;;) {
    const files = await world.store.containers.listFiles({ container_id, limit: BATCH })
    if (files.length === 0) return
    const removed = files.map(({ path }) => path)
    const change = { container_id, put: [], removed, last_used_at }
    await removeBlobs(world, container, files, () =>
      world.store.containers.changeFiles(change, quota),
    )
  }
}
