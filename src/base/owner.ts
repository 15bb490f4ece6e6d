import { fchownSync, fstatSync, lchownSync, lstatSync, mkdirSync, statSync } from 'node:fs'
import { dirname } from 'node:path'

/**
 * Gives what root makes to the owner of the directory that it is in: a command of root beside a
 * server of another user takes no file from it. What other users make is theirs, as they can give
 * nothing away. `file` is the open file, where there is one.
 */
export function giveToOwner(path: string, file?: number): void {
  if (process.geteuid?.() !== 0) return
  const { uid, gid } = statSync(dirname(path))
  const made = file === undefined ? lstatSync(path) : fstatSync(file)
  if (made.uid === uid && made.gid === gid) return
  if (file === undefined) lchownSync(path, uid, gid)
  else fchownSync(file, uid, gid)
}

/**
 * Makes a directory below the data directory, for the owner of that alone, with those above it.
 * Returns whether it was missing.
 */
export function makeOwnDirectory(path: string): boolean {
  const first = mkdirSync(path, { recursive: true, mode: 0o700 })
  if (first === undefined) return false
  for (const made of listDirectories(first, path)) giveToOwner(made)
  return true
}

/** Lists a directory and those below it down to another, from the top. */
const listDirectories = (top: string, bottom: string): string[] =>
  bottom.length <= top.length ? [bottom] : [...listDirectories(top, dirname(bottom)), bottom]
