import { closeSync, constants, fsyncSync, openSync, readFileSync, writeFileSync } from 'node:fs'
import { giveToOwner } from '../base/owner.ts'

const { O_APPEND, O_CREAT, O_EXCL, O_NOFOLLOW, O_RDONLY, O_TRUNC, O_WRONLY } = constants

const FLAGS = {
  read: O_RDONLY | O_NOFOLLOW,
  append: O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW,
  create: O_WRONLY | O_APPEND | O_CREAT | O_EXCL | O_NOFOLLOW,
  replace: O_WRONLY | O_TRUNC | O_CREAT | O_NOFOLLOW,
}

/**
 * Opens a file of the data directory, readable and writable only by its owner. Never follows a
 * link, as its author would choose what the gateway reads or overwrites. Throws for a link, and
 * `create` for a file that exists.
 */
export function openDataFile(path: string, access: keyof typeof FLAGS): number {
  let file: number
  try {
    file = openSync(path, FLAGS[access], 0o600)
  } catch (cause) {
    throw hasCode(cause, 'ELOOP') ? new Error(`${path} is a link`, { cause }) : cause
  }
  if (access !== 'read') giveToOwner(path, file)
  return file
}

/** Reads a file of the data directory; null when there is none. Throws for a link. */
export function readDataFile(path: string): Buffer | null {
  let file: number
  try {
    file = openDataFile(path, 'read')
  } catch (error) {
    if (hasCode(error, 'ENOENT')) return null
    throw error
  }
  try {
    return readFileSync(file)
  } finally {
    closeSync(file)
  }
}

/** Writes a whole file of the data directory, through to the disk. Throws for a link. */
export const writeDataFile = (path: string, content: string | Uint8Array): void =>
  writeThrough(path, 'replace', content)

/** Appends to a file of the data directory, through to the disk. Throws for a link. */
export const appendDataFile = (path: string, content: string | Uint8Array): void =>
  writeThrough(path, 'append', content)

function writeThrough(
  path: string,
  access: 'append' | 'replace',
  content: string | Uint8Array,
): void {
  const file = openDataFile(path, access)
  try {
    writeFileSync(file, content)
    fsyncSync(file)
  } finally {
    closeSync(file)
  }
}

/** Waits until a file, or a directory's names, are on the disk. */
export function syncPath(path: string): void {
  const file = openSync(path, constants.O_RDONLY)
  try {
    fsyncSync(file)
  } finally {
    closeSync(file)
  }
}

/** Whether this is a system error with this code. */
export const hasCode = (error: unknown, code: string): boolean =>
  error instanceof Error && 'code' in error && error.code === code
