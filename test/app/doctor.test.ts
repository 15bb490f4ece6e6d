import type { Database } from 'bun:sqlite'
import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { examineGateway, examineSandboxes } from '../../src/app/doctor.ts'
import { type Gateway, openGateway } from '../../src/app/gateway.ts'
import { markEnds, verifyLedgerEnd } from '../../src/engine/recover.ts'
import { hashLedgerRow, type LedgerRow } from '../../src/limits/chain.ts'
import { SEALED_TABLES } from '../../src/store/sql/seals.ts'
import { MIGRATIONS } from '../../src/store/sqlite/migrations.ts'
import { runCommand as run } from '../support/commands.ts'
import { openDatabase } from '../support/database.ts'
import { createCountedIds, TestClock } from '../support/gateway.ts'
import { buildGeneration, buildRecordEntry, buildStepCharge, PAYER } from '../support/generation.ts'
import { createSeededRandom, LONG, SEED } from '../support/random.ts'
import { openIdentityProvider } from '../support/scim.ts'

const root = mkdtempSync(join(tmpdir(), 'gateway-doctor-'))
afterAll(() => rmSync(root, { recursive: true, force: true }))

const DAY = 86_400_000
let directories = 0

/** A data directory with thirty charged calls of two keys on three days, closed. */
async function charged(): Promise<string> {
  const data = join(root, String(++directories))
  const gateway = await opened(data)
  for (let i = 0; i < 30; i++) {
    const settled = new Date(Date.parse('2026-03-04T12:00:00Z') + Math.floor(i / 10) * DAY)
    const byok = i % 7 === 0
    const nanos = BigInt(1000 + i)
    await gateway.store.generations.record([
      {
        generation: buildGeneration({
          id: `gen-${i}`,
          settled_at: settled.toISOString(),
          upstream_inference_cost: nanos,
          is_byok: byok,
        }),
        charge: buildStepCharge({
          id: `gen-${i}`,
          key_hash: `k${i % 2}`,
          day: Math.floor(settled.getTime() / DAY),
          settled_at: settled.toISOString(),
          byok,
          nanos,
        }),
      },
    ])
  }
  await markEnds(gateway)
  await gateway.close()
  return data
}

const opened = (data: string): Promise<Gateway> =>
  openGateway({ data, clock: new TestClock('2026-03-07T12:00:00.000Z'), ids: createCountedIds() })

/** Returns the checks that fail after this change of the database behind the gateway's back. */
async function wrongAfter(tampering: string): Promise<string[]> {
  const data = await charged()
  const db = openDatabase(data)
  db.run(tampering)
  db.close()
  const gateway = await opened(data)
  const wrong = (await examineGateway(gateway)).data.filter(({ ok }) => !ok)
  await gateway.close()
  return wrong.map(({ check }) => check)
}

const TAMPERINGS: [what: string, sql: string, checks: string[]][] = [
  [
    'a changed amount',
    'update ledger set nanos = nanos + 1 where seq = 12',
    ['chain', 'counters', 'calls'],
  ],
  [
    'a changed amount with its counter',
    "update spend set nanos = nanos + 1 where key_hash = 'k1'",
    ['counters'],
  ],
  ['a missing counter', "delete from spend where key_hash = 'k1' and day = 20517", ['counters']],
  ['an invented counter', "insert into spend values ('k9', 'u', 'w', 20517, 0, 5)", ['counters']],
  ['a changed owner', "update ledger set user_id = 'somebody' where seq = 3", ['chain']],
  ['a deleted row', 'delete from ledger where seq = 12', ['chain', 'counters', 'calls']],
  ['the last row', 'delete from ledger where seq = 30', ['counters', 'end', 'calls']],
  ['a missing hash', 'update ledger set hash = null where seq = 12', ['chain']],
  ['a changed step', 'update ledger set step = 2 where seq = 3', ['chain']],
  [
    'an invented step',
    "insert into ledger select 31, 'gen-5', settled_at, key_hash, user_id, workspace_id, byok, " +
      '1, source, hash, 2, 1, 0 from ledger where seq = 30',
    ['chain', 'counters', 'calls'],
  ],
  [
    'a charge that is there twice',
    'drop trigger ledger_charges_once; ' +
      'insert into ledger select 31, id, settled_at, key_hash, user_id, workspace_id, byok, ' +
      'nanos, source, hash, 1, 0, 31 from ledger where seq = 30',
    ['schema', 'chain', 'counters', 'calls'],
  ],
  [
    'a call whose record is missing',
    "delete from generations where id = 'gen-5'",
    ['calls', 'records'],
  ],
  [
    'a call with another cost',
    "update generations set upstream_inference_cost = 1 where id = 'gen-5'",
    ['calls', 'records'],
  ],
]

describe('gateway doctor', () => {
  test('finds no problem in an intact directory', async () => {
    const gateway = await opened(await charged())
    expect((await examineGateway(gateway)).data.filter(({ ok }) => !ok)).toEqual([])
    await verifyLedgerEnd(gateway)
    await gateway.close()
  })

  test('says how much of the ledger is estimated, and which rows have no seals', async () => {
    const gateway = await opened(await charged())
    const charge = { id: 'gen-est', nanos: 2_000_000_000n, source: 'estimated' as const }
    await gateway.store.generations.record([
      {
        generation: buildGeneration({ id: 'gen-est', upstream_inference_cost: charge.nanos }),
        charge: buildStepCharge(charge),
      },
    ])
    const { data } = await examineGateway(gateway)
    const read = (name: string) => data.find(({ check }) => check === name)?.found
    expect(read('chain')).toContain('1 of them, $2 together, are estimated')
    for (const noun of ['batches', 'files', 'idempotency', 'videos'])
      expect(read('seals')).toMatch(new RegExp(`; those of .*\\b${noun}\\b.* are not$`))
    await gateway.close()
  })

  for (const [what, sql, checks] of TAMPERINGS) {
    test(`finds ${what}`, async () => {
      expect(await wrongAfter(sql)).toEqual(checks)
    })
  }

  test('finds one flipped bit in any amount', async () => {
    for (let bit = 0; bit < 40; bit += 13) {
      expect(
        await wrongAfter(
          `update ledger set nanos = (nanos | ${2 ** bit}) - (nanos & ${2 ** bit}) ` +
            `where seq = ${1 + (bit % 30)}`,
        ),
      ).toContain('chain')
    }
  })

  test('continues a chain that another process wrote, and counts running calls', async () => {
    const data = await charged()
    const [one, other] = [await opened(data), await opened(data)]
    await one.store.generations.record([buildRecordEntry('gen-a', { day: 20_516 })])
    await other.store.generations.record([buildRecordEntry('gen-b', { day: 20_516 })])
    const call = {
      id: 'gen-c',
      request_id: 'r',
      created_at: 'now',
      api_type: 'completions',
      model: 'm',
      streamed: true,
      step: 1,
      nanos: 5n,
      spent: 1n,
    }
    await one.journal.holds.append({ ...PAYER, byok: false, ...call }).written
    expect((await examineGateway(other)).data.filter(({ ok }) => !ok)).toEqual([])
    expect(
      (await examineGateway(other)).data.find(({ check }) => check === 'holds')?.found,
    ).toContain('1 running')
    await Promise.all([one.close(), other.close()])
  })

  test('reports by its exit code, and as JSON on request', async () => {
    const data = await charged()
    const fine = await run(['doctor', '--data', data, '--json'])
    expect(fine.code).toBe(0)
    expect((JSON.parse(fine.stdout).data as { ok: boolean }[]).every(({ ok }) => ok)).toBe(true)
    const db = openDatabase(data)
    db.run('update ledger set nanos = 7 where seq = 12')
    db.close()
    const wrong = await run(['doctor', '--data', data])
    expect(wrong.code).toBe(1)
    expect(wrong.stdout).toContain('row 12 (gen-11) was changed after it was written')
  })
})

describe('S-21 gateway doctor changes nothing', () => {
  /** Every file of a directory, with its bytes. Those that SQLite makes to read are none. */
  const readAll = (data: string) =>
    readdirSync(data)
      .filter(name => !/-(wal|shm)$/.test(name))
      .toSorted()
      .map(name => [name, Bun.hash(readFileSync(join(data, name)))])

  test.each<[string, string, (data: string) => Record<string, string>]>([
    [
      'where the secret is missing',
      'secret',
      data => {
        rmSync(join(data, 'secret.key'))
        return {}
      },
    ],
    ['under another secret', 'secret', () => ({ GATEWAY_SECRET: 'x'.repeat(40) })],
    [
      'over the data of an earlier program',
      'schema',
      data => {
        const db = openDatabase(data)
        db.run('pragma user_version = 30')
        db.close()
        return {}
      },
    ],
  ])('%s, and finds that one thing', async (_, check, prepare) => {
    const data = await charged()
    const env = prepare(data)
    const before = readAll(data)
    const { code, stdout } = await run(['doctor', '--data', data, '--json'], { env })
    expect([code, JSON.parse(stdout).data]).toEqual([
      1,
      [{ check, ok: false, found: expect.stringContaining('nothing else was looked at') }],
    ])
    expect(readAll(data)).toEqual(before)
  })

  test.each(TAMPERINGS)('over %s, which it finds only with the secret', async (_, sql, checks) => {
    const data = await charged()
    const db = openDatabase(data)
    db.run(sql)
    db.close()
    const find = async () => {
      const before = readAll(data)
      const { code, stdout } = await run(['doctor', '--data', data, '--json'])
      expect([code, readAll(data)]).toEqual([1, before])
      const found: { check: string; ok: boolean }[] = JSON.parse(stdout).data
      return found.filter(({ ok }) => !ok).map(({ check }) => check)
    }
    expect(await find()).toEqual(checks)
    rmSync(join(data, 'secret.key'))
    expect(await find()).toEqual(['secret'])
  })
})

describe('a ledger whose end is missing', () => {
  test('is not served', async () => {
    const data = await charged()
    const db = openDatabase(data)
    db.run('delete from ledger where seq > 20')
    db.close()
    const { code, stderr } = await run(['serve', '--data', data, '--port', '0'])
    expect(code).toBe(1)
    expect(stderr).toContain('rows are missing at the end: 30 were written, the last is 20')
  })

  const ALTERATIONS: [what: string, alter: (path: string) => void, state: string][] = [
    ['missing', path => rmSync(path), 'missing'],
    ['garbled', path => writeFileSync(path, 'nonsense\n'), 'altered'],
    ['empty', path => writeFileSync(path, ''), 'altered'],
    [
      'that names an earlier row',
      path => writeFileSync(path, readFileSync(path, 'utf8').replace('"seq":30', '"seq":29')),
      'altered',
    ],
  ]
  for (const [what, alter, state] of ALTERATIONS)
    test(`S-07 a ledger.head ${what} is not served, and no command writes over it`, async () => {
      const data = await charged()
      const path = join(data, 'ledger.head')
      alter(path)
      const before = existsSync(path) ? readFileSync(path, 'utf8') : null
      const { code, stderr } = await run(['serve', '--data', data, '--port', '0'])
      expect(code).toBe(1)
      expect(stderr).toContain(`ledger.head is ${state}: the end is not known`)
      expect(stderr).toContain('gateway doctor --accept --reason')
      const found = await run(['doctor', '--data', data])
      expect([found.code, found.stdout.includes(`ledger.head is ${state}`)]).toEqual([1, true])
      expect(existsSync(path) ? readFileSync(path, 'utf8') : null).toBe(before)
    })

  test('is accepted by the operator, who says why, and on record', async () => {
    const data = await charged()
    rmSync(join(data, 'ledger.head'))
    const unexplained = await run(['doctor', '--accept', '--yes', '--data', data])
    expect([unexplained.code, unexplained.stderr]).toEqual([
      2,
      expect.stringContaining('reason: expected'),
    ])
    const flags = ['--reason', 'a wrong rm', '--yes', '--data', data]
    const accepted = await run(['doctor', '--accept', ...flags])
    expect(accepted.stdout).toContain('This is accepted: ledger.head is missing')
    expect(accepted.code).toBe(0)
    const trail = await run([
      'audit',
      'list',
      '--action',
      'ledger.accept',
      '--json',
      '--data',
      data,
    ])
    expect(JSON.parse(trail.stdout).data).toMatchObject([{ after: { reason: 'a wrong rm' } }])
    const again = await run(['doctor', '--accept', ...flags])
    expect([again.code, again.stderr]).toEqual([4, expect.stringContaining('nothing to accept')])
  })
})

/** Returns the checks that fail. */
const listWrong = async (gateway: Gateway): Promise<string[]> =>
  (await examineGateway(gateway)).data.filter(({ ok }) => !ok).map(({ check }) => check)

/** Copies a data directory whose gateway is closed. */
function copyData(data: string): string {
  const copy = join(root, String(++directories))
  cpSync(data, copy, { recursive: true })
  return copy
}

/** Changes the database of a closed gateway, as someone with an SQLite shell would. */
function tamper(data: string, sql: string): void {
  const db = openDatabase(data)
  runAll(db, sql)
  db.close()
}

function runAll(db: Database, sql: string): void {
  // The body of a trigger has a semicolon of its own.
  for (const statement of sql.startsWith('create trigger') ? [sql] : sql.split('; '))
    db.run(statement)
}

/** Recomputes the hashes of the ledger as far as that is possible without the secret. */
function recomputeChain(db: Database): void {
  const rows = db
    .query('select *, cast(nanos as text) as nanos from ledger order by seq')
    .all() as (Omit<LedgerRow, 'byok' | 'nanos'> & { byok: number; nanos: string })[]
  let hash = ''
  for (const row of rows) {
    hash = hashLedgerRow(hash, { ...row, byok: row.byok === 1, nanos: BigInt(row.nanos) })
    db.query('update ledger set hash = ? where seq = ?').run(hash, row.seq)
  }
}

const listTriggers = (db: Database): string[] =>
  db
    .query<{ name: string }, []>("select name from sqlite_schema where type = 'trigger'")
    .all()
    .map(({ name }) => name)

interface Column {
  name: string
  type: string
}

/**
 * Changes one value, removes one row, or adds one, in any sealed table, in the ledger or among the
 * seals. Returns what it did, and how it is undone.
 */
function changeSomething(db: Database, random: () => number): { what: string; undo(): void } {
  const tables = [...SEALED_TABLES, 'ledger', 'seals'].filter(name => countRows(db, name) > 0)
  const pick = <T>(list: T[]): T => list[Math.floor(random() * list.length)] as T
  const table = pick(tables)
  // `several` only says which index has a row.
  const columns = db.query<Column, []>(`pragma table_info(${table})`).all()
  const column = pick(columns.filter(({ name }) => name !== 'several'))
  const kind = pick(['change', 'remove', 'replace', 'remove with its seal'])
  const saved = ['seals', table].map(name => ({
    name,
    rows: db.query(`select * from ${name}`).all(),
  }))
  const at = Math.floor(random() * countRows(db, table))
  const row = db.query(`select * from ${table} limit 1 offset ${at}`).get() as Record<
    string,
    unknown
  >
  const keys = db
    .query<Column & { pk: number }, []>(`pragma table_info(${table})`)
    .all()
    .filter(({ pk }) => pk > 0)
  const where = keys.map(({ name }) => `"${name}" = ?`).join(' and ')
  const values = keys.map(({ name }) => row[name]) as string[]
  const addition =
    column.type === 'TEXT'
      ? `coalesce("${column.name}", '') || 'x'`
      : `coalesce("${column.name}", 0) + 1`
  if (kind.startsWith('remove')) db.query(`delete from ${table} where ${where}`).run(...values)
  else if (kind === 'change')
    db.query(`update or replace ${table} set "${column.name}" = ${addition} where ${where}`).run(
      ...values,
    )
  else {
    const names = Object.keys(row).map(name => `"${name}"`)
    const selected = names.map(name => (name === `"${column.name}"` ? addition : name))
    db.query(
      `insert or replace into ${table} (${names}) select ${selected} from ${table} where ${where}`,
    ).run(...values)
  }
  if (kind === 'remove with its seal')
    db.query('delete from seals where noun = ? and id = ?').run(table, values.join(' '))
  const undo = () => {
    for (const { name, rows } of saved.reverse()) {
      db.run(`delete from ${name}`)
      for (const each of rows as Record<string, unknown>[]) {
        const names = Object.keys(each)
        db.query(
          `insert into ${name} (${names.map(one => `"${one}"`)}) values (${names.map(() => '?')})`,
        ).run(...(Object.values(each) as string[]))
      }
    }
  }
  return { what: `${kind} ${table}.${column.name} of ${values.join(' ')}`, undo }
}

const countRows = (db: Database, table: string): number =>
  (db.query(`select count(*) as n from ${table}`).get() as { n: number }).n

describe('a directory from before the seals', () => {
  /** Returns the directory of a version without seals, with three opening rows and one charge. */
  async function openOld(): Promise<string> {
    const data = join(root, String(++directories))
    mkdirSync(data)
    const db = openDatabase(data, { create: true })
    for (const migration of MIGRATIONS.slice(0, 12)) db.run(migration)
    db.run('pragma user_version = 12')
    db.run("insert into spend values ('k', 'u', 'w', 20516, 0, 5), ('k', 'u', 'w', 20517, 0, 7)")
    db.run(
      'insert into ledger (id, settled_at, key_hash, user_id, workspace_id, byok, nanos, source) ' +
        "select 'opening-' || key_hash || day || byok, " +
        "date(day * 86400, 'unixepoch') || 'T00:00:00.000Z', " +
        "key_hash, user_id, workspace_id, byok, nanos, 'opening' from spend",
    )
    db.run(
      "insert into audit values (1, 'a1', '', 'terminal', 'u', null, null, 'keys.create', 'k', " +
        "null, '{}')",
    )
    db.run(
      "insert into workspaces (id, name, slug, is_default, created_by, created_at) values ('w', '', 'w', 0, 'u', '')",
    )
    db.run(
      "insert into presets values ('p', 'w', 'p', 'p', null, 'active', null, null, 'v', '', '')",
    )
    db.run(`insert into preset_versions values ('v', 'p', 1, 'u', null, '${OLD_CONFIG}', '', '')`)
    db.close()
    return data
  }
  const OLD_CONFIG = '{"tools":[{"headers":{"x-key":"in clear"}}]}'

  test('has the credentials of its presets encrypted', async () => {
    const data = await openOld()
    const gateway = await opened(data)
    const [preset] = await gateway.store.presets.all()
    expect(preset?.designated_version.config).toEqual(JSON.parse(OLD_CONFIG))
    await gateway.close()
    const db = openDatabase(data)
    expect(JSON.stringify(db.query('select * from preset_versions').all())).not.toContain(
      'in clear',
    )
    db.close()
  })

  test('is sealed as it stands: its rows stay valid, and can no longer be changed', async () => {
    const data = await openOld()
    const gateway = await opened(data)
    expect(await listWrong(gateway)).toEqual([])
    const settled_at = '2026-03-04T13:00:00.000Z'
    await gateway.store.generations.record([
      {
        generation: buildGeneration({ id: 'gen-new', settled_at }),
        charge: buildStepCharge({ id: 'gen-new', settled_at }),
      },
    ])
    expect(await listWrong(gateway)).toEqual([])
    await gateway.close()
    for (const change of [
      "update ledger set user_id = 'somebody' where seq = 2",
      'drop trigger audit_is_not_changed; update audit set user_id = 1',
    ]) {
      const copy = copyData(data)
      tamper(copy, change)
      const after = await opened(copy)
      expect(await listWrong(after)).toContain(change.startsWith('drop') ? 'audit' : 'chain')
      await after.close()
    }
  })
})

describe('what an attacker changes in the database', () => {
  /** A data directory with keys, limits, credits and their audit trail, closed. */
  async function filled(): Promise<string> {
    const data = await charged()
    const command = (...args: string[]) => run([...args, '--data', data])
    await command('keys', 'create', '--name', 'poor', '--limit', '1')
    await command('keys', 'create', '--name', 'rich', '--limit', '100')
    await command('credits', 'add', '--amount', '5')
    await command('guardrails', 'create', '--name', 'strict', '--limit', '1', '--reset', 'daily')
    return data
  }
  let original: string
  beforeAll(async () => {
    original = await filled()
  })

  async function wrongAfterChange(change: (db: Database, data: string) => void) {
    const data = copyData(original)
    const db = openDatabase(data)
    change(db, data)
    db.close()
    const gateway = await opened(data)
    const wrong = await listWrong(gateway)
    await gateway.close()
    const again = await opened(data)
    expect(await listWrong(again)).toEqual(wrong)
    await again.close()
    return wrong
  }

  test('nothing: the doctor finds no fault', async () => {
    expect(await wrongAfterChange(() => undefined)).toEqual([])
  })

  const ATTACKS: [what: string, sql: string, checks: string[]][] = [
    ['a raised limit', `update keys set "limit" = 1000000000000 where name = 'poor'`, ['rules']],
    ['a key that was enabled', "update keys set disabled = 1 where name = 'poor'", ['rules']],
    ['a deleted guardrail', 'delete from guardrails', ['rules']],
    [
      'a deleted guardrail with its seal',
      "delete from guardrails; delete from seals where noun = 'guardrails'",
      ['seals'],
    ],
    [
      'INSERT OR REPLACE into the audit trail',
      'insert or replace into audit select sequence, id, created_at, actor, ' +
        "'someone else', key_hash, workspace_id, action, resource_id, before, after from audit",
      ['audit'],
    ],
    ['a dropped trigger', 'drop trigger audit_is_not_changed', ['schema']],
    [
      'a trigger that forgives spending',
      'create trigger forgive after insert on spend begin update spend set nanos = 0; end',
      ['schema'],
    ],
    [
      'an emptied audit trail',
      'drop trigger audit_is_not_removed; delete from audit',
      ['schema', 'audit'],
    ],
    [
      'an emptied audit trail without its seals',
      'drop trigger audit_is_not_removed; delete from audit; ' +
        "delete from seals where noun = 'audit'",
      ['schema', 'seals'],
    ],
    [
      'an emptied audit trail, its seals and their log',
      'drop trigger audit_is_not_removed; delete from audit; ' +
        "delete from seals where noun = 'audit'; delete from seal_log where n > 1",
      ['schema', 'end', 'seals'],
    ],
    ['invented credits', "insert into credits values (9, 'x', '', 1, null, 'u')", ['rules']],
    ['another owner', "update meta set value = 'somebody' where name = 'user_id'", ['rules']],
    ['a changed entry of the log of seals', 'update seal_log set sum = 0 where n = 2', ['seals']],
    ['a log of seals without its opening', 'delete from seal_log where n = 1', ['seals']],
  ]
  test.each(ATTACKS)('%s: is found, and stays found', async (_, sql, checks) => {
    expect(await wrongAfterChange(db => runAll(db, sql))).toEqual(checks)
  })

  describe('among what an identity provider has sent', () => {
    let provisioned: string
    beforeAll(async () => {
      provisioned = copyData(original)
      const gateway = await openGateway({ data: provisioned })
      const provider = await openIdentityProvider(gateway)
      const [ann, bob, eve] = await Promise.all(
        ['ann', 'bob', 'eve'].map(name => provider.user(name, { emails: [{ value: name }] })),
      )
      const group = await provider.group('Admins', ann as string, bob as string)
      await provider.group('Guests', eve as string)
      await provider.ask('DELETE', `/Users/${bob}`)
      await provider.patch(`/Groups/${group}`, { op: 'replace', path: 'displayName', value: 'A' })
      expect(await listWrong(gateway)).toEqual([])
      await gateway.close()
    })

    test.each([
      ['a changed user', `update scim_users set resource = '{"userName":"root"}'`],
      ['a deleted user', 'delete from scim_users'],
      [
        'an added user',
        "insert into scim_users select 'x', id, 'x' || id, null, '{}', 1, '', '' from members " +
          'where id not in (select user_id from scim_users) limit 1',
      ],
      ['a changed group', "update scim_groups set external_id = 'x'"],
      ['an added group', "insert into scim_groups values ('x', 'X', 'x', null, 1, '', '')"],
      ['a deleted group', "delete from scim_groups where display_name = 'Guests'"],
      [
        'a user raised into a group',
        'insert or ignore into scim_group_members select g.id, u.id from scim_groups g, scim_users u',
      ],
      ['a user removed from a group', 'delete from scim_group_members'],
      ['an added job', "insert into scim_sync_jobs values ('x', 'queued', 0, 0, '', '', '', '')"],
    ])('%s is found', async (_, sql) => {
      const data = copyData(provisioned)
      tamper(data, sql)
      const gateway = await opened(data)
      expect(await listWrong(gateway)).toEqual(['rules'])
      await gateway.close()
    })
  })

  test('a recomputed chain: is found, also where its counters and calls were changed too', async () => {
    const wrong = await wrongAfterChange(db => {
      runAll(
        db,
        'update ledger set nanos = 0; update spend set nanos = 0; update generations set upstream_inference_cost = 0',
      )
      recomputeChain(db)
    })
    expect(wrong).toContain('chain')
  })

  test('an earlier state of the whole database: is found by the file beside it', async () => {
    const data = copyData(original)
    await run(['keys', 'create', '--name', 'later', '--data', data])
    for (const end of ['', '-wal', '-shm']) rmSync(join(data, `gateway.db${end}`), { force: true })
    cpSync(join(original, 'gateway.db'), join(data, 'gateway.db'))
    const gateway = await opened(data)
    expect(await listWrong(gateway)).toEqual(['end'])
    await gateway.close()
  })

  test('a raised limit stays found after the owner changes the same key', async () => {
    const data = copyData(original)
    tamper(data, `update keys set "limit" = 1000000000000 where name = 'poor'`)
    const { stdout } = await run(['keys', 'list', '--json', '--data', data])
    const key = (JSON.parse(stdout).data as { name: string; hash: string }[]).find(
      ({ name }) => name === 'poor',
    )
    await run(['keys', 'update', key?.hash ?? '', '--name', 'renamed', '--data', data])
    const gateway = await opened(data)
    expect(await listWrong(gateway)).toEqual(['rules'])
    await gateway.close()
  })

  const cases = LONG ? 10_000 : 40
  test(`${cases} single changes of any value, row or seal (seed ${SEED})`, async () => {
    const random = createSeededRandom(SEED)
    const data = copyData(original)
    const gateway = await opened(data)
    const db = openDatabase(data)
    db.run('pragma ignore_check_constraints = on')
    for (const trigger of listTriggers(db)) db.run(`drop trigger ${trigger}`)
    for (let i = 0; i < cases; i++) {
      db.run('begin immediate')
      const change = changeSomething(db, random)
      db.run('commit')
      const wrong = (await listWrong(gateway)).filter(check => check !== 'schema')
      expect([change.what, wrong.length > 0]).toEqual([change.what, true])
      change.undo()
      if (i % 50 === 0)
        expect((await listWrong(gateway)).filter(check => check !== 'schema')).toEqual([])
    }
    db.close()
    await gateway.close()
  }, 1_800_000)
})

test.each([
  ['first', false, 'first is enabled: first is missing, needs a kernel; second holds'],
  ['second', true, 'second is enabled: first is missing, needs a kernel; second holds'],
  [false, true, 'none is enabled (sandbox.kind): first is missing, needs a kernel; second holds'],
])('only the sandbox that is chosen has to hold: %p', async (kind, ok, found) => {
  const sandboxes = [
    { name: 'first', missing: 'needs a kernel', findObstacle: async () => 'is missing' },
    { name: 'second', missing: null, findObstacle: async () => null },
  ]
  const world = { config: { sandbox: { kind } }, sandboxes } as unknown as Gateway
  expect(await examineSandboxes(world)).toEqual({ check: 'sandbox', ok, found })
})
