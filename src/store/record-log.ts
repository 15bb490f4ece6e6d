import { closeSync, ftruncateSync, readSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import type { Mac } from '../base/mac.ts'
import type { RecordSecrets } from '../limits/seals.ts'
import { keepDamagedLog, parseCheckedLine, renderCheckedLine, splitLines } from './checked-lines.ts'
import { hasCode, openDataFile, readDataFile } from './data-files.ts'
import { lockData, tryLock } from './lock.ts'
import type { SqliteOptions } from './sqlite.ts'

/** The file of a data directory in which records wait for their transaction. */
export const RECORD_LOG = 'records.log'

/**
 * A file beside the database in which records wait for their transaction: what is written there
 * survives a kill of the process, takes no lock, and costs a tenth of a transaction. Its lines are
 * sealed, so that no one else can have records or charges written.
 */
export interface RecordLog {
  /** Whether records may wait here. Else it is only read, when the store is opened. */
  readonly isOpen: boolean
  /** Adds the JSON of records. Throws when they cannot be written; then none of them is there. */
  append(records: string[]): void
  /** Drops all: they are in the database. */
  clear(): void
  /** Reads the records, and how many lines are not as they were written. */
  read(): { records: unknown[]; garbled: number }
  /** Keeps a copy beside it, to be looked into: `doctor` tells of it until that is accepted. */
  keepCopy(): void
}

/** How a record log is used, and the secret before this one: what it has sealed is restored too. */
export interface RecordLogOptions extends Pick<SqliteOptions, 'durability' | 'secrets'> {
  previous(): RecordSecrets | null
}

/**
 * Takes the log of a data directory, for as long as the store is being opened where it is not the
 * server's. A command beside a server has none: it waits until what waits now is in the database.
 */
export async function takeRecordLog(
  data: string,
  access: 'command' | 'server' | 'copy',
  { durability, secrets, previous }: RecordLogOptions,
): Promise<{ log?: RecordLog; unlock(): void }> {
  const macs = { current: secrets.mac, previous: () => previous()?.mac ?? null }
  if (access !== 'command') {
    const isOpen = access === 'server' && durability === 'normal'
    return { log: openRecordLog(data, macs, isOpen), unlock() {} }
  }
  if (readBeginning(data) === '') return { unlock() {} }
  const unlock = tryLock(() => lockData(data))
  if (unlock) return { log: openRecordLog(data, macs, false), unlock }
  await awaitRecords(data)
  return { unlock() {} }
}

/** In milliseconds: how long a command waits for a server, and between two looks. */
const PATIENCE = 2_000
const PAUSE = 5

/** Waits until a server has written what waits now, or is too slow. Each run of it begins anew. */
async function awaitRecords(data: string): Promise<void> {
  const beginning = readBeginning(data)
  for (let waited = 0; waited < PATIENCE; waited += PAUSE) {
    if (beginning === '' || readBeginning(data) !== beginning) return
    await Bun.sleep(PAUSE)
  }
}

/** In bytes: the seal of the first record, and its id. */
const BEGINNING = 200

function readBeginning(data: string): string {
  let file: number
  try {
    file = openDataFile(join(data, RECORD_LOG), 'read')
  } catch (error) {
    if (hasCode(error, 'ENOENT')) return ''
    throw error
  }
  try {
    const bytes = Buffer.alloc(BEGINNING)
    return bytes.toString('latin1', 0, readSync(file, bytes))
  } finally {
    closeSync(file)
  }
}

/** What seals lines, and what may have sealed those that are left: null if it is not known. */
interface RecordLogMacs {
  current: Mac
  previous(): Mac | null
}

/** Opens the log of a data directory. The file is made with the first record. */
export function openRecordLog(data: string, macs: RecordLogMacs, isOpen: boolean): RecordLog {
  const path = join(data, RECORD_LOG)
  let file: number | undefined
  let size = 0
  return {
    isOpen,
    append(records) {
      file ??= openDataFile(path, 'append')
      const lines = records.map(json => renderCheckedLine(json, macs.current)).join('')
      try {
        size += writeAll(file, lines)
      } catch (error) {
        ftruncateSync(file, size)
        throw error
      }
    },
    clear() {
      file ??= openDataFile(path, 'append')
      ftruncateSync(file, 0)
      size = 0
    },
    read: () => readLog(path, macs),
    keepCopy: () => keepDamagedLog(path),
  }
}

/** Writes the whole text or throws. Returns its number of bytes. */
function writeAll(file: number, text: string): number {
  const written = writeSync(file, text)
  if (written < Buffer.byteLength(text)) throw new Error('Only a part of the records was written')
  return written
}

// Only the last line can be cut, and its call got no end.
function readLog(path: string, macs: RecordLogMacs): ReturnType<RecordLog['read']> {
  const lines = splitLines(readDataFile(path)?.toString() ?? '')
  const whole = lines.map(line => parseSealedLine(line, macs)).filter(json => json !== null)
  return {
    records: whole.map(json => JSON.parse(json)),
    garbled: lines.length - whole.length,
  }
}

function parseSealedLine(line: string, { current, previous }: RecordLogMacs): string | null {
  const json = parseCheckedLine(line, current)
  const before = json === null ? previous() : null
  return before ? parseCheckedLine(line, before) : json
}
