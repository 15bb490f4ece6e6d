import type { Database } from 'bun:sqlite'
import type { SealReport } from '../../../ledger/seals.ts'
import { compareRows } from './compare.ts'
import { add, type SealLog } from './log.ts'
import { SEALED_TABLES } from './tables.ts'

/** Verifies the seal of every row, that none is missing, and that the log ends with all of them. */
export function inspectRows(db: Database, log: SealLog): Omit<SealReport, 'schema'> {
  const report: Omit<SealReport, 'schema'> = { audit: [], rules: [], seals: [] }
  let sum = 0n
  for (const noun of SEALED_TABLES) {
    const problems = noun === 'audit' ? report.audit : report.rules
    for (const { id, state, seal } of compareRows(db, log, noun)) {
      if (state === 'genuine') sum = add(sum, BigInt(`0x${seal}`))
      else if (state === 'removed') problems.push(`${noun} ${id} was removed`)
      else problems.push(`${noun} ${id} was ${state} by another program`)
    }
  }
  const isIntact = report.audit.length + report.rules.length === 0
  report.seals = [
    ...(log.readOpening()
      ? log.listForged().map(n => `entry ${n} of the log of seals was changed`)
      : ['the opening is missing, or was made with another secret']),
    ...listStraySeals(db),
    ...(isIntact && !log.isClosedWith(sum) ? ['rows were removed together with their seals'] : []),
  ]
  return report
}

/** Tables that prove themselves, are computed from others that do, or hold the proofs. */
const PROVEN =
  /^(ledger|generations|spend|outbox|rollup_cursor|usage_.*|transcripts|seals|seal_log|record_seals|sqlite_.*)$/

/** Lists the tables whose rows nothing proves. */
export const listUnsealed = (db: Database): string[] =>
  db
    .query<{ name: string }, []>(
      "select name from sqlite_schema where type = 'table' order by name",
    )
    .all()
    .map(({ name }) => name)
    .filter(name => !PROVEN.test(name) && !SEALED_TABLES.includes(name))

const listStraySeals = (db: Database): string[] =>
  db
    .query<{ noun: string }, [string]>(
      'select distinct noun from seals where noun not in (select value from json_each(?))',
    )
    .all(JSON.stringify(SEALED_TABLES))
    .map(({ noun }) => `seals of ${noun} were added by another program`)
