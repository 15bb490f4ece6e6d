import { readFileSync, renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseObject } from '../kernel/json.ts'
import type { LedgerHead } from '../ledger/chain.ts'

/**
 * Reads the last row of the ledger from a file beside the database; null when there is none. SQLite
 * drops the tail of a damaged log silently, and the remaining rows still form a valid chain. Only a
 * record of the chain's end shows that rows are missing.
 */
export function readLedgerHead(data: string): LedgerHead | null {
  try {
    const { seq, hash } = parseObject(readFileSync(getHeadPath(data), 'utf8')) ?? {}
    return typeof seq === 'number' && typeof hash === 'string' ? { seq, hash } : null
  } catch {
    return null
  }
}

/** Writes the last row of the ledger to that file, atomically. */
export function writeLedgerHead(data: string, head: LedgerHead): void {
  const path = getHeadPath(data)
  writeFileSync(`${path}.new`, `${JSON.stringify(head)}\n`, { mode: 0o600 })
  renameSync(`${path}.new`, path)
}

const getHeadPath = (data: string) => join(data, 'ledger.head')
