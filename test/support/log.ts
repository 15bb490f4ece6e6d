import { readdirSync, readFileSync, rmSync, writeFileSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import type { Mac } from '../../src/base/mac.ts'
import type { HoldJournal } from '../../src/limits/ledger.ts'
import { openHoldJournal } from '../../src/store/hold-journal.ts'
import {
  isSegmentName,
  LOG,
  Log,
  type LogMacs,
  type LogOptions,
  readBlocks,
} from '../../src/store/log.ts'
import { isOfRecords } from '../../src/store/record-log.ts'
import { TEST_MAC } from './ledger.ts'

export const TEST_MACS: LogMacs = { current: TEST_MAC, previous: () => null }

/** Opens the journal of holds of a data directory. */
export const openJournal = (data: string): HoldJournal =>
  openHoldJournal(data, new Log(data, TEST_MACS))

/** A disk with room for so many characters of each block. */
export const limitRoom =
  (readRoom: () => number): NonNullable<LogOptions['write']> =>
  (file, text, tell) =>
    tell(null, writeSync(file, text.slice(0, readRoom())))

/** Lists the paths of the log's segments, oldest first. */
export const listLogFiles = (data: string): string[] =>
  readdirSync(data)
    .filter(isSegmentName)
    .sort((a, b) => a.localeCompare(b, 'en', { numeric: true }))
    .map(name => join(data, name))

/** Lists the lines of the records that wait for their transaction, with their messages. */
export function listWaitingLines(data: string): string[] {
  const lines = readBlocks(data, LOG, null).flatMap(block => block.lines)
  const applied = lines.lastIndexOf('{"applied":true}')
  return lines.slice(applied + 1).filter(isOfRecords)
}

/** Changes the newest segment of a log. */
export function changeLog(data: string, change: (text: string) => string): void {
  const path = listLogFiles(data).at(-1) ?? ''
  writeFileSync(path, change(readFileSync(path, 'latin1')), 'latin1')
}

/** Replaces a log by one with a block for each of these lines, which another may have sealed. */
export async function replaceLog(data: string, lines: string[], mac: Mac): Promise<void> {
  for (const path of listLogFiles(data)) rmSync(path)
  const log = new Log(data, { current: mac, previous: () => null })
  for (const line of lines) await log.add(`${line}\n`)
}
