import { open, rm, stat } from 'node:fs/promises'
import { basename } from 'node:path'
import type { Gateway } from '../../../app/gateway.ts'
import { conflict, invalid, notFound } from '../../../base/errors.ts'
import { showName, toPrintable } from '../../../base/printable.ts'
import type { Actor } from '../../../resources/actor.ts'
import type { FileUpload } from '../../../resources/files/schema.ts'
import { showFile } from '../../../resources/files/view.ts'
import { readFile, storeFile } from '../../../resources/files.ts'

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
  const path = output ?? basename(showName(file.filename))
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

/** Shows how far a transfer is. */
interface Progress {
  /** Hands pieces on, and counts their bytes. */
  follow(pieces: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array, void>
  /** Clears the line. */
  close(): void
}

const CLEAR = '\r\u001b[K'

/** Opens a line of progress on stderr if that is a terminal, else nothing is shown. */
export function openProgress(
  name: string,
  size: number,
  { isTTY, write }: { isTTY: boolean; write(text: string): unknown } = {
    isTTY: process.stderr.isTTY,
    write: text => process.stderr.write(text),
  },
): Progress {
  let done = 0
  let shown = -1
  const show = () => {
    const percent = size === 0 ? 100 : Math.floor((100 * done) / size)
    if (!isTTY || percent === shown) return
    shown = percent
    write(`${CLEAR}${toPrintable(name)}  ${percent} %`)
  }
  return {
    async *follow(pieces) {
      for await (const piece of pieces) {
        done += piece.length
        show()
        yield piece
      }
    },
    close() {
      if (shown >= 0) write(CLEAR)
    },
  }
}
