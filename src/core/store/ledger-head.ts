import { renameSync } from 'node:fs'
import { join } from 'node:path'
import { parseObject, readObject } from '../kernel/json.ts'
import type { Ends } from '../ledger/chain.ts'
import { readDataFile, writeDataFile } from './data-files.ts'

/**
 * Reads where the ledger and the log of seals ended, from a file beside the database; null when
 * there is none. SQLite drops the tail of a damaged log silently, and an earlier state of the
 * database is valid in itself: only a record of the ends shows that rows are missing.
 */
export function readEnds(data: string): Ends | null {
  const text = readDataFile(getHeadPath(data))
  const { seq, hash, seals } = parseObject(text?.toString() ?? '') ?? {}
  if (typeof seq !== 'number' || typeof hash !== 'string') return null
  const { n, seal } = readObject({ seals }, 'seals')
  const isSealed = typeof n === 'number' && typeof seal === 'string'
  return { ledger: { seq, hash }, seals: isSealed ? { n, seal } : null }
}

/** Writes the ends to that file, atomically. */
export function writeEnds(data: string, { ledger, seals }: Ends): void {
  const path = getHeadPath(data)
  writeDataFile(`${path}.new`, `${JSON.stringify({ ...ledger, seals })}\n`)
  renameSync(`${path}.new`, path)
}

const getHeadPath = (data: string) => join(data, 'ledger.head')
