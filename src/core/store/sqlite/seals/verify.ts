import type { Database } from 'bun:sqlite'
import type { SealReport } from '../../../ledger/seals.ts'
import { add, type SealLog } from './log.ts'
import { readRows, SEALED_TABLES } from './tables.ts'

/** Verifies the seal of every row, that none is missing, and that the log ends with all of them. */
export function inspectRows(db: Database, log: SealLog): Omit<SealReport, 'schema'> {
  const report: Omit<SealReport, 'schema'> = { audit: [], rules: [], seals: [] }
  let sum = 0n
  for (const noun of SEALED_TABLES) {
    const seals = readSeals(db, noun)
    const problems = noun === 'audit' ? report.audit : report.rules
    for (const row of readRows(db, noun)) {
      const seal = log.sealRow(row)
      if (seals.get(row.id) !== seal) problems.push(describeRow(noun, row.id, seals.has(row.id)))
      else sum = add(sum, BigInt(`0x${seal}`))
      seals.delete(row.id)
    }
    for (const id of seals.keys()) problems.push(`${noun} ${id} was removed`)
  }
  const isIntact = report.audit.length + report.rules.length === 0
  report.seals = [
    ...(log.readOpening() ? [] : ['the opening is missing, or was made with another secret']),
    ...listStraySeals(db),
    ...(isIntact && !log.isClosedWith(sum) ? ['rows were removed together with their seals'] : []),
  ]
  return report
}

const describeRow = (noun: string, id: string, isSealed: boolean): string =>
  isSealed
    ? `${noun} ${id} was changed by another program`
    : `${noun} ${id} was added by another program`

const readSeals = (db: Database, noun: string): Map<string, string> =>
  new Map(
    db
      .query<{ id: string; seal: string }, [string]>('select id, seal from seals where noun = ?')
      .all(noun)
      .map(({ id, seal }) => [id, seal]),
  )

const listStraySeals = (db: Database): string[] =>
  db
    .query<{ noun: string }, [string]>(
      'select distinct noun from seals where noun not in (select value from json_each(?))',
    )
    .all(JSON.stringify(SEALED_TABLES))
    .map(({ noun }) => `seals of ${noun} were added by another program`)
