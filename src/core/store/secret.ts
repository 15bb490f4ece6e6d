import { linkSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

/** The number of bytes of a generated secret. */
const SIZE = 32

/**
 * Loads the secret of the data directory, `secret.key`. On first use it is created there, readable
 * only by its owner. Two processes that load it at once get the same one. Throws when the file
 * cannot be read or has another size.
 */
export function dataSecret(data: string): Uint8Array {
  const path = join(data, 'secret.key')
  const secret = read(path) ?? made(path)
  if (secret.length !== SIZE)
    throw new Error(`${path}: expected ${SIZE} bytes, found ${secret.length}`)
  return secret
}

function read(path: string): Uint8Array | undefined {
  try {
    return readFileSync(path)
  } catch (error) {
    if (isCode(error, 'ENOENT')) return undefined
    throw error
  }
}

// Written to a temporary file and linked, so that a reader never finds a part of it.
function made(path: string): Uint8Array {
  const draft = `${path}.${crypto.randomUUID()}`
  try {
    writeFileSync(draft, crypto.getRandomValues(new Uint8Array(SIZE)), { mode: 0o600, flush: true })
    linkSync(draft, path)
  } catch (error) {
    if (!isCode(error, 'EEXIST')) throw error
  } finally {
    rmSync(draft, { force: true })
  }
  return readFileSync(path)
}

const isCode = (error: unknown, code: string) =>
  error instanceof Error && 'code' in error && error.code === code
