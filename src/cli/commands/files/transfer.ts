import { open, rm, stat } from 'node:fs/promises'
import { basename } from 'node:path'
import { conflict, invalid, notFound } from '../../../core/errors.ts'
import type { FileUpload } from '../../../core/files/schema.ts'
import { showFile } from '../../../core/files/view.ts'
import { readFile, storeFile } from '../../../core/files.ts'
import type { Gateway } from '../../../core/gateway.ts'
import type { Actor } from '../../../core/identity/actor.ts'
import { openProgress } from './progress.ts'

/**
 * Stores a file of this machine, with its progress on a terminal. Throws 404 for a missing one, 400
 * for what is no file, and what `storeFile` throws.
 */
export async function uploadFile(
  gateway: Gateway,
  actor: Actor,
  path: string,
  { filename = basename(path), workspace_id }: FileUpload,
) {
  const found = await stat(path).catch(() => undefined)
  if (!found) throw notFound(`There is no file ${path}`)
  if (!found.isFile()) throw invalid(`${path}: expected a file`)
  const progress = openProgress(filename, found.size)
  const scope = workspace_id === undefined ? {} : { workspace_id }
  try {
    const pieces = progress.follow(Bun.file(path).stream())
    return showFile(await storeFile(gateway, actor, { ...scope, filename }, pieces), 'openrouter')
  } finally {
    progress.close()
  }
}

/** Where a download goes. */
export interface DownloadFlags {
  output?: string
  force?: boolean
}

/**
 * Writes a file into one of this machine, by its own name unless `output` says another. Throws 409
 * for one that exists, unless forced, and what `readFile` throws.
 */
export async function downloadFile(
  gateway: Gateway,
  actor: Actor,
  id: string,
  { output, force }: DownloadFlags,
) {
  const { file, bytes } = await readFile(gateway, actor, id)
  const path = output ?? basename(file.filename)
  const target = await open(path, force ? 'w' : 'wx', 0o600).catch(async error => {
    await bytes.cancel()
    if (error.code === 'EEXIST') throw conflict(`${path} exists: --force replaces it`)
    throw error
  })
  const progress = openProgress(file.filename, file.size_bytes)
  try {
    for await (const piece of progress.follow(bytes)) await target.writeFile(piece)
  } catch (thrown) {
    await rm(path, { force: true })
    throw thrown
  } finally {
    progress.close()
    await target.close()
  }
  return { ...showFile(file, 'openrouter'), path }
}
