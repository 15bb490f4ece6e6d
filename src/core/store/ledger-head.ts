import { readFileSync, renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseObject } from '../kernel/json.ts'
import type { LedgerHead } from '../ledger/chain.ts'

/**
 * The last row of the ledger, in a file beside the database. SQLite drops the tail of a damaged log without a word, and the rows that are
 * left are a sound chain: only who wrote down where it ended can tell that some are missing.
 */
export function readHead(data: string): LedgerHead | null {
  try {
    const { seq, hash } = parseObject(readFileSync(fileIn(data), 'utf8')) ?? {}
    return typeof seq === 'number' && typeof hash === 'string' ? { seq, hash } : null
  } catch {
    return null
  }
}

/** Writes it down, whole or not at all. */
export function writeHead(data: string, head: LedgerHead): void {
  const path = fileIn(data)
  writeFileSync(`${path}.new`, `${JSON.stringify(head)}\n`, { mode: 0o600 })
  renameSync(`${path}.new`, path)
}

const fileIn = (data: string) => join(data, 'ledger.head')
