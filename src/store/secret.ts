import { linkSync, lstatSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { hasCode, readDataFile, writeDataFile } from './data-files.ts'

/** The number of bytes of a generated secret. */
const SIZE = 32

/**
 * Loads the secret of the data directory, `secret.key`. On first use it is created there, readable
 * only by its owner. Two processes that load it at once get the same one. Throws when the file
 * cannot be read, is a link or has another size.
 */
export function loadDataSecret(data: string): Uint8Array {
  const path = join(data, 'secret.key')
  return checkSize(path, readDataFile(path) ?? createSecret(path))
}

/** Whether the data directory has a secret of its own, or anything in its place. */
export const hasDataSecret = (data: string): boolean =>
  lstatSync(join(data, 'secret.key'), { throwIfNoEntry: false }) !== undefined

/**
 * Reads the secret before the current one, `secret.key.previous`; null when there is none. Throws
 * as `loadDataSecret` does.
 */
export function readPreviousSecret(data: string): Uint8Array | null {
  const path = join(data, 'secret.key.previous')
  const secret = readDataFile(path)
  return secret && checkSize(path, secret)
}

function checkSize(path: string, secret: Uint8Array): Uint8Array {
  if (secret.length !== SIZE)
    throw new Error(`${path}: expected ${SIZE} bytes, found ${secret.length}`)
  return secret
}

// Written to a temporary file and linked, so that a reader never finds a part of it.
function createSecret(path: string): Uint8Array {
  const temporaryPath = `${path}.${crypto.randomUUID()}`
  try {
    writeDataFile(temporaryPath, crypto.getRandomValues(new Uint8Array(SIZE)))
    linkSync(temporaryPath, path)
  } catch (error) {
    if (!hasCode(error, 'EEXIST')) throw error
  } finally {
    rmSync(temporaryPath, { force: true })
  }
  return readDataFile(path) ?? new Uint8Array(0)
}
