import { stat } from 'node:fs/promises'
import { invalid, notFound } from '../base/errors.ts'

/**
 * Reads a file piece by piece, or standard input for `-`. Throws 404 for a missing file, and 400 for
 * what is none.
 */
export async function* readPieces(path: string): AsyncGenerator<Uint8Array> {
  if (path !== '-') {
    const found = await stat(path).catch(() => undefined)
    if (!found) throw notFound(`There is no file ${path}`)
    if (!found.isFile()) throw invalid(`${path}: expected a file`)
  }
  yield* (path === '-' ? Bun.stdin : Bun.file(path)).stream()
}

/** What stands for a body on a command line. */
export const BODY_SOURCES = 'a file of JSON, the JSON object itself, or - for standard input'

/** Tells whether a text is a body itself, and not where one is. */
export const isBody = (text: string): boolean => text.trimStart().startsWith('{')
