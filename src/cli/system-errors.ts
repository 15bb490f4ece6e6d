import { includesAddress } from '../base/address-ranges.ts'
import { findPortHolder, renderHolder } from './system-errors/holders.ts'

/** What the codes of the system and of SQLite mean for those who run the program. */
const MEANINGS: Record<string, string> = {
  EACCES: 'this user may not use it: change its owner or mode (chown, chmod)',
  EPERM: 'this user may not do that',
  ENOENT: 'there is no such file or directory',
  ENOTDIR: 'a part of the path is no directory',
  EISDIR: 'expected a file, found a directory',
  EEXIST: 'it exists already',
  EROFS: 'the file system is read-only: mount it writable, or name another directory (--data)',
  ELOOP: 'its links lead in a circle',
  ENOSPC: 'the disk is full: make room on it',
  EFBIG: 'the file may not grow: raise the limit on the size of files (ulimit -f)',
  EDQUOT: 'the quota of the disk is used up: raise it or make room',
  EIO: 'the disk cannot be read or written: check it, then run gateway doctor',
  EMFILE: 'too many files are open (ulimit -n)',
  ENFILE: 'too many files are open on this system',
  EADDRNOTAVAIL: 'this machine does not have the address',
  SQLITE_CANTOPEN: 'the database cannot be opened',
  SQLITE_FULL: 'the disk is full: make room on it',
  SQLITE_READONLY: 'the database may not be written: change its owner or mode (chown, chmod)',
  SQLITE_IOERR: 'the disk cannot be read or written: check it, then run gateway doctor',
  SQLITE_NOTADB: 'the file is no database of the gateway',
  SQLITE_CORRUPT: 'the database is damaged: restore a backup',
  SQLITE_BUSY: 'another process writes to the database: try again',
}

/**
 * Describes a failure of the system in words, with the path if it has one. Undefined for any other
 * failure.
 */
export function describeSystemError(thrown: unknown): string | undefined {
  if (!(thrown instanceof Error) || !('code' in thrown)) return undefined
  const code = String(thrown.code)
  const meaning = MEANINGS[code] ?? MEANINGS[code.split('_').slice(0, 2).join('_')]
  if (meaning === undefined) return undefined
  const path = 'path' in thrown && typeof thrown.path === 'string' ? `${thrown.path}: ` : ''
  return `${path}${meaning} (${code})`
}

const ANY_ADDRESS = ['0.0.0.0/0', '::/0']

/** Where a host is not resolved, the system's code is that of whatever has failed before. */
const RELIABLE = new Set(['EADDRNOTAVAIL', 'EMFILE', 'ENFILE'])

/**
 * Describes why a server cannot listen: which process has the port, or what is wrong with the
 * address. `flag` changes the port.
 */
export function describeListenError(
  thrown: unknown,
  { host, port, flag }: { host: string; port: number; flag: string },
): string | undefined {
  const code = thrown instanceof Error && 'code' in thrown ? String(thrown.code) : ''
  const address = `${host.includes(':') ? `[${host}]` : host}:${port}`
  if (code === 'EADDRINUSE')
    return (
      `${address} is in use${renderHolder(findPortHolder(port))}: stop that, or choose another ` +
      `port (${flag})`
    )
  if (code === 'EACCES')
    return `${address}: this user may not listen on that port; choose one from 1024 (${flag})`
  if (!includesAddress(ANY_ADDRESS, host) && !RELIABLE.has(code))
    return `${address}: the host cannot be resolved, or not be listened on: name an address of this machine`
  const described = describeSystemError(thrown)
  return described && `${address}: ${described}`
}
