import { Database } from 'bun:sqlite'
import { closeSync } from 'node:fs'
import type { Seal } from '../../base/seal.ts'
import {
  BATCH_BYTES,
  type CopiedTable,
  type CopiedValue,
  type CopySource,
  type CopyTarget,
  type LastNumbers,
  NUMBERED,
  parseCopied,
  selectCopied,
  WITH_ROWID,
} from '../copy.ts'
import { openDataFile } from '../data-files.ts'
import type { Spool } from '../spool.ts'
import { BlockReader } from '../sql/outbox/blocks.ts'
import type { BundleRow } from '../sql/outbox/bundles.ts'
import type { Column } from '../sql/seals.ts'
import { createEmpty, SCHEMA } from './migrations.ts'
import { renderPayload } from './outbox/messages.ts'
import { createStepper } from './reader.ts'
import { openCreated } from './seals/schema.ts'
import { nameDatabase } from './write.ts'

/** Lists the tables of a store, those first that others refer to. What processes tell one another stays. */
export function listCopiedTables(): CopiedTable[] {
  using db = openCreated(SCHEMA)
  const columns = db
    .query<Column & { table: string }, []>(
      `select s.name as "table", c.name, c.type, c.pk from sqlite_schema s
        join pragma_table_info(s.name) c
        where s.type = 'table' and s.name not like 'sqlite\\_%' escape '\\' and s.name <> 'changes'
        order by s.rowid, c.cid`,
    )
    .all()
  return [...Map.groupBy(columns, ({ table }) => table)].map(([name, own]) => {
    const described = own.map(({ table: _, ...column }) => column)
    if (!WITH_ROWID.has(name)) {
      const key = described.filter(({ pk }) => pk > 0).sort((a, b) => a.pk - b.pk)
      return { name, columns: described, order: key.map(column => column.name) }
    }
    return {
      ...{ name, order: ['rowid'] },
      columns: [{ name: 'rowid', type: 'INTEGER', pk: 0 }, ...described],
    }
  })
}

const listNames = ({ columns }: CopiedTable): string =>
  columns.map(({ name }) => `"${name}"`).join(', ')

/** Where the messages are that wait outside the database. */
interface Waiting {
  spool: Spool
  seal: () => Seal
}

/** Reads a store at one moment, and from its spool what waits there. */
export async function readSqlite<Result>(
  path: string,
  waiting: Waiting,
  use: (source: CopySource) => Promise<Result>,
): Promise<Result> {
  const db = nameDatabase(path, () => new Database(path, { readonly: true, strict: true }))
  try {
    db.run('pragma busy_timeout = 5000')
    db.run('begin')
    return await use({
      name: path,
      read: reading => createStepper(db).readAtOnce(reading),
      countRows: async ({ name }) =>
        db.query<{ n: number }, []>(`select count(*) as n from ${name}`).get()?.n ?? 0,
      readRows: table => readRows(db, table, waiting),
      readLastNumbers: async () => readLastNumbers(db),
    })
  } finally {
    db.close()
  }
}

type Row = Record<string, string | number | null>

async function* readRows(
  db: Database,
  table: CopiedTable,
  waiting: Waiting,
): AsyncGenerator<CopiedValue[][]> {
  const order = table.order.length === 0 ? '' : `order by t.${table.order.join(', t.')}`
  const columns = table.columns.map(selectCopied).join(', ')
  const rows = db.prepare<Row, []>(`select ${columns} from ${table.name} t ${order}`)
  const reader = new BlockReader(waiting.spool, waiting.seal)
  let batch: CopiedValue[][] = []
  let size = 0
  try {
    for (const row of rows.iterate()) {
      const own = table.name === 'outbox' ? fetchPayload(db, row, reader, waiting) : row
      batch.push(
        table.columns.map(column => {
          const value = own[column.name] ?? null
          size += typeof value === 'string' ? value.length + 3 : 12
          return parseCopied(column, value)
        }),
      )
      if (size < BATCH_BYTES) continue
      yield batch
      batch = []
      size = 0
    }
    if (batch.length > 0) yield batch
  } finally {
    rows.finalize()
  }
}

/** Returns a row of the outbox with what waits for it in the spool. */
function fetchPayload(db: Database, row: Row, reader: BlockReader, { seal }: Waiting): Row {
  if (row.segment === null) return row
  const find = db.query<BundleRow, [number]>('select * from outbox where sequence = ?')
  const bundle = find.get(Number(row.sequence))
  const payload = bundle && renderPayload(bundle, reader, seal())
  return { ...row, payload: payload ?? '', segment: null, start: null, length: null, first: null }
}

/** Reads the last numbers: SQLite notes them where they outlive their rows. */
function readLastNumbers(db: Database): LastNumbers {
  const noted = db
    .query<{ name: string; last: string }, []>(
      'select name, cast(seq as text) as last from sqlite_sequence',
    )
    .all()
  const numbers = new Map(noted.map(({ name, last }) => [name, BigInt(last)]))
  for (const [table, column] of Object.entries(NUMBERED)) {
    const found = db.query<{ last: string | null }, []>(
      `select cast(max(${column}) as text) as last from ${table}`,
    )
    const { last } = found.get() ?? { last: null }
    if (!numbers.has(table) && last !== null) numbers.set(table, BigInt(last))
  }
  return numbers
}

/**
 * Makes a store in a new file, fills it in one transaction, and writes it through to the disk. What
 * is left of one that failed is not a whole database.
 */
export async function fillSqlite<Result>(
  path: string,
  fill: (target: CopyTarget) => Promise<Result>,
): Promise<Result> {
  // For its owner alone from the beginning.
  closeSync(openDataFile(path, 'create'))
  const db = nameDatabase(path, () => new Database(path, { readwrite: true, strict: true }))
  try {
    db.run('pragma journal_mode = off')
    db.run('pragma synchronous = off')
    createEmpty(db)
    // What was counted and refused once is not again.
    const triggers = db
      .query<{ name: string; sql: string }, []>(
        "select name, sql from sqlite_schema where type = 'trigger' order by rowid",
      )
      .all()
    db.run('begin')
    for (const { name } of triggers) db.run(`drop trigger ${name}`)
    db.run('delete from transcript_use')
    const result = await fill(createTarget(db))
    for (const { sql } of triggers) db.run(sql)
    db.run('commit')
    return result
  } finally {
    db.close()
  }
}

const createTarget = (db: Database): CopyTarget => ({
  async writeRows(table, rows) {
    const places = table.columns.map(() => '?').join(', ')
    const insert = db.query(`insert into ${table.name} (${listNames(table)}) values (${places})`)
    for (const row of rows) insert.run(...(row as never[]))
  },
  async writeLastNumbers(numbers) {
    const noted = db
      .query<{ name: string }, []>(
        "select name from sqlite_schema where sql like '%autoincrement%'",
      )
      .all()
    for (const { name } of noted) {
      const last = numbers.get(name)
      db.query('delete from sqlite_sequence where name = ?').run(name)
      if (last !== undefined)
        db.query('insert into sqlite_sequence (name, seq) values (?, ?)').run(name, last)
    }
  },
})
