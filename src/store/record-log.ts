import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { appendEvidence, parseCheckedLine, splitLines } from './checked-lines.ts'
import { readDataFile } from './data-files.ts'
import { LOG, type Log, type LogMacs, readBlocks } from './log.ts'
import { lockData, tryLock } from './sqlite/lock.ts'

/** The file in which programs before the log had records wait for their transaction. */
export const RECORD_LOG = 'records.log'

/**
 * The part of the log in which records wait for their transaction: what is written there survives a
 * kill of the process, takes no lock, and costs a tenth of a transaction. Its blocks are sealed, so
 * that no one else can have records or charges written.
 */
export interface RecordLog {
  /** Whether records may wait here. Else it is only read, when the store is opened. */
  readonly isOpen: boolean
  /** Whether the disk keeps up with what is added. */
  readonly keepsUp: boolean
  /** What was added to the log and is not written yet; null if all is. */
  readonly pending: Promise<void> | null
  /**
   * Adds the JSON of records. Resolves when they survive the process. Throws when they cannot be
   * written; then none of them is there.
   */
  append(records: string[]): Promise<void>
  /** Drops all that were added before: they are in the database. Throws as `append` does. */
  clear(): Promise<void>
  /** Waits until all that was added is written, or cannot be. */
  settle(): Promise<void>
  /** Reads the records, and how many lines are not as they were written, which a copy keeps. */
  restore(): { records: unknown[]; garbled: number }
  /** Keeps a copy of a record beside it: `doctor` tells of it until that is accepted. */
  keepCopy(record: string): void
}

/**
 * Takes the log of a data directory, for as long as the store is being opened where it is not the
 * server's. A command beside a server has none: it waits until what waits now is in the database.
 */
export async function takeRecordLog(
  data: string,
  access: 'command' | 'server' | 'copy',
  { log, macs, durability }: { log: Log; macs: LogMacs; durability: 'normal' | 'full' },
): Promise<{ log?: RecordLog; unlock(): void }> {
  if (access !== 'command') {
    const isOpen = access === 'server' && durability === 'normal'
    return { log: openRecordLog(data, log, macs, isOpen), unlock() {} }
  }
  if (findWaiting(data) === null) return { unlock() {} }
  const unlock = tryLock(() => lockData(data))
  if (unlock) return { log: openRecordLog(data, log, macs, false), unlock }
  await awaitRecords(data)
  return { unlock() {} }
}

/** In milliseconds: how long a command waits for a server, and between two looks. */
const PATIENCE = 2_000
const PAUSE = 5

/** Waits until a server has written what waits now, or is too slow. */
async function awaitRecords(data: string): Promise<void> {
  const first = findWaiting(data)
  for (let waited = 0; waited < PATIENCE; waited += PAUSE) {
    const now = findWaiting(data)
    if (now === null || now !== first) return
    await Bun.sleep(PAUSE)
  }
}

/** Finds the block of the first record that waits for its transaction; null if none does. */
export function findWaiting(data: string): string | null {
  if (readEarlier(data) !== '') return RECORD_LOG
  let first: string | null = null
  for (const { lines, chain } of readBlocks(data, LOG, null))
    for (const line of lines)
      if (line === APPLIED) first = null
      else if (isOfRecords(line)) first ??= chain
  return first
}

/** The line that says that all records before it are in the database. */
const APPLIED = '{"applied":true}'

/** Whether a line of the log is one of records, also where it is damaged. */
export const isOfRecords = (line: string): boolean =>
  line.includes('{"record":') || line.includes('{"bundle":') || line === APPLIED

const readEarlier = (data: string): string => readDataFile(join(data, RECORD_LOG))?.toString() ?? ''

/** Opens the part of the log of a data directory in which records wait. */
export function openRecordLog(data: string, log: Log, macs: LogMacs, isOpen: boolean): RecordLog {
  let hasEarlier = false
  return {
    isOpen,
    get keepsUp() {
      return log.keepsUp
    },
    get pending() {
      return log.pending
    },
    append: records => log.add(`${records.join('\n')}\n`, true),
    settle: () => log.settle(),
    async clear() {
      await log.add(`${APPLIED}\n`, false)
      if (hasEarlier) rmSync(join(data, RECORD_LOG), { force: true })
      hasEarlier = false
    },
    restore() {
      const earlier = readEarlierLog(data, macs)
      hasEarlier = earlier.records.length + earlier.garbled > 0
      const found = readLog(log)
      const records = [...earlier.records, ...found.records]
      if (earlier.garbled > 0) appendEvidence(join(data, RECORD_LOG), readEarlier(data))
      if (found.garbled > 0) log.keepDamage(({ lines }) => lines.some(isOfRecords))
      return { records, garbled: earlier.garbled + found.garbled }
    },
    keepCopy: record => appendEvidence(join(data, log.name), `${record}\n`),
  }
}

/** Reads the records that are not known to be in the database. */
function readLog(log: Log): { records: unknown[]; garbled: number } {
  let records: unknown[] = []
  let garbled = 0
  for (const { lines, isWhole } of log.read())
    for (const line of lines.filter(isOfRecords))
      if (!isWhole) garbled += 1
      else if (line === APPLIED) [records, garbled] = [[], 0]
      else records.push(JSON.parse(line))
  return { records, garbled }
}

/** Reads what a program before the log has left. Only the last line can be cut. */
function readEarlierLog(data: string, macs: LogMacs): { records: unknown[]; garbled: number } {
  const lines = splitLines(readEarlier(data))
  const whole = lines.map(line => parseSealedLine(line, macs)).filter(json => json !== null)
  return { records: whole.map(json => JSON.parse(json)), garbled: lines.length - whole.length }
}

function parseSealedLine(line: string, { current, previous }: LogMacs): string | null {
  const json = parseCheckedLine(line, current)
  const before = json === null ? previous() : null
  return before ? parseCheckedLine(line, before) : json
}
