import { linkSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

/** The number of bytes of a generated secret. */
const SIZE = 32

/**
 * Loads the secret of the data directory, `secret.key`. On first use it is created there, readable
 * only by its owner. Two processes that load it at once get the same one. Throws when the file
 * cannot be read or has another size.
 */
export function loadDataSecret(data: string): Uint8Array {
  const path = join(data, 'secret.key')
  const secret = readSecret(path) ?? createSecret(path)
  if (secret.length !== SIZE)
    throw new Error(`${path}: expected ${SIZE} bytes, found ${secret.length}`)
  return secret
}

function readSecret(path: string): Uint8Array | undefined {
  try {
    return readFileSync(path)
  } catch (error) {
    if (hasCode(error, 'ENOENT')) return undefined
    throw error
  }
}

// Written to a temporary file and linked, so that a reader never finds a part of it.
function createSecret(path: string): Uint8Array {
  const temporaryPath = `${path}.${crypto.randomUUID()}`
  try {
    writeFileSync(temporaryPath, crypto.getRandomValues(new Uint8Array(SIZE)), {
      mode: 0o600,
      flush: true,
    })
    linkSync(temporaryPath, path)
  } catch (error) {
    if (!hasCode(error, 'EEXIST')) throw error
  } finally {
    rmSync(temporaryPath, { force: true })
  }
  return readFileSync(path)
}

const hasCode = (error: unknown, code: string) =>
  error instanceof Error && 'code' in error && error.code === code
