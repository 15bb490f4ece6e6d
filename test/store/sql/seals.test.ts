import { Database } from 'bun:sqlite'
import { describe, expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { Glob } from 'bun'
import { assert, bigInt, double, option, property, record, string } from 'fast-check'
import {
  DummyDriver,
  Kysely,
  SqliteAdapter,
  SqliteIntrospector,
  SqliteQueryCompiler,
  sql,
} from 'kysely'
import {
  type Column,
  DEPENDENTS,
  noteChanges,
  renderRow,
  SEALED_TABLES,
  type SelectedRow,
} from '../../../src/store/sql/seals.ts'
import type { Tables } from '../../../src/store/sql/tables.ts'
import { check, follow, prepare, type Statement } from '../../../src/store/sql/write.ts'
import { readRows } from '../../../src/store/sqlite/seals/tables.ts'

const STORE = join(import.meta.dir, '../../../src/store')

const kysely = new Kysely<Tables>({
  dialect: {
    createAdapter: () => new SqliteAdapter(),
    createDriver: () => new DummyDriver(),
    createIntrospector: db => new SqliteIntrospector(db),
    createQueryCompiler: () => new SqliteQueryCompiler(),
  },
})

const KEY: Column[] = [{ name: 'hash', type: 'TEXT', pk: 1 }]
const note = (...statements: Statement[]) =>
  noteChanges(
    {
      ...{ kysely, selections: new Map(), columns: new Map([['keys', KEY]]) },
      note: () => undefined,
    },
    statements,
  )

const owner = { name: 'a', value: 'b' }
const removal = kysely.deleteFrom('keys').where('hash', '=', 'a')

test.each<[string, Statement]>([
  ['a text', prepare('update keys set disabled = 1')],
  ['a text in other letters', prepare(' DELETE FROM "keys"')],
  ['a text that replaces', prepare('insert or replace into meta values (1, 2)')],
  ['a raw statement of Kysely', { compile: () => sql`delete from keys`.compile(kysely) }],
  ['what replaces a row', kysely.replaceInto('meta').values(owner)],
  [
    'what changes the row that is there',
    kysely
      .insertInto('meta')
      .values(owner)
      .onConflict(on => on.column('name').doUpdateSet(owner)),
  ],
  ['what is followed', follow(removal.returning('hash'), () => [])],
  ['what is judged', check(removal.returning('hash'), () => undefined)],
  ['what replaces a row otherwise', kysely.insertInto('meta').orReplace().values(owner)],
  ['a removal of some of the rows', removal.limit(1)],
  ['a removal by another table', removal.using('workspaces')],
  ['a change of some of the rows', kysely.updateTable('keys').set('disabled', 1).limit(1)],
  ['a change by another table', kysely.updateTable('keys').from('members').set('disabled', 1)],
  ['a change under another name', kysely.updateTable('keys as k').set('k.disabled', 1)],
  ['a removal under another name', kysely.deleteFrom('keys as k')],
  [
    'a removal within what reads',
    kysely
      .with('gone', () => removal)
      .selectFrom('outbox')
      .selectAll(),
  ],
  [
    'what merges',
    kysely
      .mergeInto('keys')
      .using('workspaces', 'workspaces.id', 'keys.workspace_id')
      .whenMatched()
      .thenDelete(),
  ],
])('a change of a sealed table is refused where it is not known: %s', (_, statement) => {
  expect(() => note(statement)).toThrow('is not noted')
})

test('what reads, and what changes other tables, stays as it is', () => {
  const statements: Statement[] = [
    prepare('delete from outbox where sequence = ?', 1),
    kysely.deleteFrom('outbox').where('sequence', '=', 1),
    kysely.selectFrom('keys').select('hash'),
  ]
  expect(note(...statements)).toEqual(statements)
})

test('what steps ask for is noted too, and rows that go with others before these', () => {
  const [later] = note({ later: () => [removal] })
  const steps = later && 'later' in later ? later.later() : []
  const texts = steps.map(step => ('query' in step ? step.query.compile().sql : ''))
  expect(texts).toEqual([
    'delete from "guardrail_keys" where "key_hash" in ' +
      '(select "hash" from "keys" where "hash" = ?) returning ',
    'delete from "keys" where "hash" = ? returning "hash" as "hash"',
  ])
})

test('every sealed table whose rows go with those of another is known', () => {
  const schema = readFileSync(join(STORE, 'sqlite/schema.sql'), 'utf8')
  const found: typeof DEPENDENTS = {}
  for (const [, table = '', body = ''] of schema.matchAll(
    /CREATE TABLE (\w+) \(([\s\S]*?)\) strict/g,
  ))
    for (const line of body.split('\n')) {
      const [, column = '', from = '', to = ''] =
        /^\s*(\w+) .*references (\w+) \((\w+)\) on delete (?:cascade|set)/.exec(line) ?? []
      if (SEALED_TABLES.includes(table) && column)
        found[from] = [...(found[from] ?? []), { table, column, to }]
    }
  const sort = (dependents: typeof DEPENDENTS) =>
    Object.entries(dependents)
      .flatMap(([from, list]) => list.map(one => [from, one.table, one.column, one.to].join(' ')))
      .sort()
  expect(sort(found)).toEqual(sort(DEPENDENTS))
})

/** They write to data of an earlier version, or seal every row anew behind what they change. */
const SEAL_ALL = new Set(['sql/seals/resealing.ts', 'sqlite/migrations.ts'])

test('no text changes a sealed table: the writer notes only what Kysely builds', () => {
  const change = new RegExp(
    `(insert (or \\w+ )?into|update|delete from) "?(${SEALED_TABLES.join('|')})\\b`,
    'i',
  )
  const found = [...new Glob('**/*.ts').scanSync(STORE)].filter(
    file => !SEAL_ALL.has(file) && change.test(readFileSync(join(STORE, file), 'utf8')),
  )
  expect(found).toEqual([])
})

describe('a row', () => {
  const columns: Column[] = [
    { name: 'id', type: 'TEXT', pk: 2 },
    { name: 'n', type: 'INTEGER', pk: 1 },
    { name: 'Text', type: 'TEXT', pk: 0 },
    { name: 'money', type: 'INTEGER', pk: 0 },
    { name: 'rate', type: 'REAL', pk: 0 },
  ]
  const text = () => string({ unit: 'binary', maxLength: 9 }).map(one => one.toWellFormed())
  const whole = () => bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n })

  test('is rendered as SQLite renders it, whatever is in it (seed 20261129)', () => {
    const db = new Database(':memory:', { strict: true })
    db.run(
      'create table some (id text, n integer, "Text" text, money integer, rate real, ' +
        'primary key (n, id)) strict',
    )
    const insert = db.query('insert into some values (?, ?, ?, ?, ?)')
    const rate = double({ min: -1_000, max: 1_000, noNaN: true })
    assert(
      property(
        record({
          id: text(),
          n: whole(),
          Text: option(text()),
          money: option(whole()),
          rate: option(rate),
        }),
        row => {
          db.run('delete from some')
          insert.run(row.id, row.n, row.Text, row.money, row.rate)
          const wide = (value: bigint | null) => (value === null ? null : String(value))
          const selected: SelectedRow = { ...row, n: wide(row.n), money: wide(row.money) }
          expect([{ noun: 'some', ...renderRow(columns, selected) }]).toEqual([
            ...readRows(db, 'some'),
          ])
        },
      ),
      { seed: 20261129, numRuns: 100 },
    )
    db.close()
  })
})
