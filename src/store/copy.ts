import type { Ends } from '../limits/chain.ts'
import { list, type Reading } from './sql/reading.ts'
import type { Column } from './sql/seals.ts'

/** A value as every engine has it. Whole numbers may be of 64 bits. */
export type CopiedValue = string | number | bigint | null

/** A table of a store, with the columns that every engine has, in their order. */
export interface CopiedTable {
  name: string
  columns: Column[]
  /** The columns in whose order its rows are read; none for a table of one row. */
  order: string[]
}

/** The numbers that the rows of tables got last, by table: none is given twice. */
export type LastNumbers = Map<string, bigint>

/** The tables whose rows get numbers that outlive them, and the column of the number. */
export const NUMBERED: Record<string, string> = {
  generations: 'rowid',
  audit: 'sequence',
  credits: 'sequence',
  outbox: 'sequence',
  refusals: 'sequence',
  responses: 'sequence',
  transcripts: 'sequence',
}

/** The tables whose rows are known by a number that SQLite keeps beside their columns. */
export const WITH_ROWID = new Set(['keys', 'generations', 'guardrail_keys'])

/** A store at one moment, to be copied. */
export interface CopySource {
  /** What messages call it, without who opens it. */
  name: string
  /** Takes the steps of a reading. */
  read<Result>(reading: Reading<Result>): Promise<Result>
  countRows(table: CopiedTable): Promise<number>
  /** Reads the rows of a table in batches of at most some megabytes, or of one row. */
  readRows(table: CopiedTable): AsyncIterable<CopiedValue[][]>
  readLastNumbers(): Promise<LastNumbers>
}

/** An empty store that is filled in one transaction. */
export interface CopyTarget {
  writeRows(table: CopiedTable, rows: CopiedValue[][]): Promise<void>
  writeLastNumbers(numbers: LastNumbers): Promise<void>
}

/** What was copied. */
export interface CopyCounts {
  rows: number
  /** How many rows each table has. */
  tables: Record<string, number>
  /** Where the ledger and the log of seals end. */
  ends: Ends
}

/** In bytes: how much of a table is in memory at once, unless one row is larger. */
export const BATCH_BYTES = 2 * 1024 * 1024

/**
 * Copies all rows with their numbers and seals as they stand. `onProgress` hears how many rows of how
 * many are done.
 */
export async function copyRows(
  source: CopySource,
  target: CopyTarget,
  tables: CopiedTable[],
  onProgress: (done: number, total: number) => void = () => undefined,
): Promise<CopyCounts> {
  let total = 0
  for (const table of tables) total += await source.countRows(table)
  const counts: Record<string, number> = {}
  let done = 0
  for (const table of tables) {
    counts[table.name] = 0
    for await (const rows of source.readRows(table)) {
      await target.writeRows(table, rows)
      counts[table.name] = (counts[table.name] ?? 0) + rows.length
      done += rows.length
      onProgress(done, total)
    }
  }
  await target.writeLastNumbers(await source.readLastNumbers())
  return { rows: done, tables: counts, ends: await source.read(readEnds()) }
}

function* readEnds(): Reading<Ends> {
  const [ledger = { seq: 0, hash: '' }] = yield* list<Ends['ledger']>(LAST_CHARGE)
  const [seals = null] = yield* list<NonNullable<Ends['seals']>>(LAST_SEAL)
  return { ledger, seals }
}

const LAST_CHARGE = 'select seq, hash from ledger where hash is not null order by seq desc limit 1'
const LAST_SEAL = 'select n, seal from seal_log order by n desc limit 1'

/** Selects a column so that whole numbers of 64 bits come as they are: as texts. */
export const selectCopied = ({ name, type }: Column): string =>
  type === 'INTEGER' ? `cast("${name}" as text) as "${name}"` : `"${name}"`

/** Returns the value of a column that was selected so. */
export const parseCopied = ({ type }: Column, value: string | number | null): CopiedValue => {
  if (value === null || type === 'TEXT') return value
  return type === 'INTEGER' ? BigInt(value) : Number(value)
}
