import type { Cancellation } from '../base/cancellation.ts'
import { GatewayError, invalid } from '../base/errors.ts'
import { isObject, readObject, readString } from '../base/json.ts'
import { LARGEST_BODY } from '../base/schema-builders.ts'
import { beginMemory } from '../engine/attempt.ts'
import type { Run } from '../engine/run.ts'
import type { TextCall } from '../language/call.ts'
import type { Block, CacheControl } from '../language/message.ts'
import type { Actor } from '../resources/actor.ts'
import type { StoredFile } from '../resources/files/store.ts'
import { findUsableFile, readStored } from '../resources/files.ts'
import { type GrowReading, openReading } from './reading-memory.ts'
import type { ExtensionWorld } from './world.ts'

/** The ids of files that the gateway keeps begin so; all others are files at a provider. */
const ID_START = 'or_file_'

/**
 * Puts the contents of files that the gateway keeps in place of their ids, as if the client had sent
 * them. Returns synchronously, without a look at the database, for a call that names none. Throws
 * 400 naming the part for a file that the key's workspace does not have, for a type that the part
 * cannot be, and for more bytes than a body may have.
 */
export function resolveStoredFiles(world: ExtensionWorld, run: Run): void | Promise<void> {
  const { call, cancellation } = run
  if (call.kind !== 'text') return
  const pending = readStoredFiles(world, run.actor, call, {
    cancellation,
    grow: openReading(world, () => beginMemory(world, run)),
  })
  return pending?.then(read => {
    run.call = read as Run['call']
  })
}

/** What ends the reading of files, and what waits for memory for them. */
interface Reading {
  cancellation: Cancellation
  grow: GrowReading
}

/**
 * Returns a call with the contents of stored files in place of their ids; undefined, synchronously,
 * for one that names none. Throws as `resolveStoredFiles` does.
 */
export const readStoredFiles = (
  world: ExtensionWorld,
  actor: Actor,
  call: TextCall,
  reading: Reading,
): Promise<TextCall> | undefined =>
  call.messages.some(({ blocks }) => blocks.some(namesStoredFile))
    ? readFiles(world, actor, call, reading)
    : undefined

const namesStoredFile = (block: Block): boolean => findStoredId(block) !== null

function findStoredId(block: Block): string | null {
  if (block.type === 'file') return checkOwn(block.file.file_id)
  if (block.type !== 'other' || !isObject(block.value)) return null
  const { type, file_id } = block.value
  if (block.dialect === 'responses' && type === 'input_image') return checkOwn(file_id)
  if (block.dialect !== 'messages' || type !== 'image') return null
  return checkOwn(readObject(block.value, 'source').file_id)
}

const checkOwn = (id: unknown): string | null =>
  typeof id === 'string' && id.startsWith(ID_START) ? id : null

/** A file, and its contents as a data URL. */
interface Contents {
  file: StoredFile
  url: string
}

async function readFiles(
  world: ExtensionWorld,
  actor: Actor,
  call: TextCall,
  { cancellation, grow }: Reading,
): Promise<TextCall> {
  const known = new Map<string, Contents>()
  let left = LARGEST_BODY
  for (const block of call.messages.flatMap(({ blocks }) => blocks)) {
    const id = findStoredId(block)
    if (id === null) continue
    const read = known.get(id)
    const file = read?.file ?? (await findFile(world, actor, id, block))
    // Wherever it is named, the provider gets all of it.
    left -= file.size_bytes
    if (left < 0) throw refuse(block, `expected at most ${LARGEST_BODY} bytes of stored files`)
    // What a small request names takes as much as what a large one brings.
    await cancellation.awaitUnlessCancelled(grow(file.size_bytes))
    if (read) continue
    known.set(id, { file, url: await readUrl(world, file) })
    if (cancellation.reason) throw cancellation.reason
  }
  const messages = call.messages.map(message =>
    message.blocks.some(namesStoredFile)
      ? { ...message, blocks: message.blocks.map(block => replaceBlock(block, known)) }
      : message,
  )
  return { ...call, messages }
}

async function findFile(
  world: ExtensionWorld,
  actor: Actor,
  id: string,
  block: Block,
): Promise<StoredFile> {
  const file = await findUsableFile(world, actor.workspace_id, id)
  if (file) return file
  throw refuse(block, `there is no file ${id.slice(0, 64)} in this workspace`)
}

async function readUrl(world: ExtensionWorld, file: StoredFile): Promise<string> {
  try {
    const bytes = await new Response(await readStored(world, file)).arrayBuffer()
    return `data:${file.mime_type};base64,${Buffer.from(bytes).toString('base64')}`
  } catch (cause) {
    if (cause instanceof GatewayError) throw cause
    throw new GatewayError('server', `The bytes of ${file.id} cannot be read`, { cause })
  }
}

function replaceBlock(block: Block, known: Map<string, Contents>): Block {
  const found = known.get(findStoredId(block) ?? '')
  if (!found) return block
  return block.type === 'file' ? toFile(block, found) : toPicture(block, found)
}

/** Returns the block of a file with its contents. A picture or sound becomes a block of its own. */
function toFile(block: Extract<Block, { type: 'file' }>, { file, url }: Contents): Block {
  const { file_id: _, filename = file.filename, ...given } = block.file
  if (given.file_data !== undefined) throw refuse(block, 'expected either contents or a file_id')
  const { cache_control, field } = block
  const kept = { ...(cache_control ? { cache_control } : {}), ...(field ? { field } : {}) }
  if (file.mime_type.startsWith('image/')) return { type: 'image', url, ...kept }
  const format = SOUNDS[file.mime_type]
  if (format) return { type: 'audio', data: url.slice(url.indexOf(',') + 1), format }
  return { ...block, file: { filename, file_data: url } }
}

const SOUNDS: Record<string, string> = {
  'audio/mpeg': 'mp3',
  'audio/wav': 'wav',
  'audio/flac': 'flac',
  'audio/ogg': 'ogg',
}

/** Returns the picture that a block names. Throws 400 if the file is none. */
function toPicture(block: Block, { file, url }: Contents): Block {
  if (block.type !== 'other' || !isObject(block.value)) return block
  if (!file.mime_type.startsWith('image/'))
    throw refuse(block, `expected a picture, found ${file.mime_type}`)
  const { detail, cache_control, prompt_cache_breakpoint } = block.value
  return {
    type: 'image',
    url,
    ...(readString(detail) === null ? {} : { detail: String(detail) }),
    ...(isObject(cache_control) ? { cache_control: toCacheControl(cache_control) } : {}),
    ...(prompt_cache_breakpoint == null ? {} : { extra: { prompt_cache_breakpoint } }),
    ...(block.field ? { field: block.field } : {}),
  }
}

const toCacheControl = ({ ttl }: Record<string, unknown>): CacheControl => ({
  type: 'ephemeral',
  ...(ttl === '5m' || ttl === '1h' ? { ttl } : {}),
})

function refuse(block: Block, why: string): GatewayError {
  const at = 'field' in block && block.field ? `${block.field}.file_id` : 'file_id'
  return invalid(`${at}: ${why}`, at)
}
