import { afterAll, describe, expect, test } from 'bun:test'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { examineGateway } from '../../../src/app/doctor.ts'
import { type Gateway, openGateway } from '../../../src/app/gateway.ts'
import { rollUp } from '../../../src/observability/rollups.ts'
import { openDatabase } from '../../support/database.ts'
import { createCountedIds, TestClock } from '../../support/gateway.ts'
import { buildGeneration, buildStepCharge } from '../../support/generation.ts'

const root = mkdtempSync(join(tmpdir(), 'gateway-records-'))
afterAll(() => rmSync(root, { recursive: true, force: true }))

let directories = 0

const openData = (data: string): Promise<Gateway> =>
  openGateway({ data, clock: new TestClock('2026-03-07T12:00:00.000Z'), ids: createCountedIds() })

/** A data directory with so many charged calls, ten to a transaction; its gateway is open. */
async function openRecorded(calls = 30): Promise<{ data: string; gateway: Gateway }> {
  const data = join(root, String(++directories))
  const gateway = await openData(data)
  const ids = Array.from({ length: calls }, (_, i) => `gen-${String(i).padStart(3, '0')}`)
  for (let i = 0; i < calls; i += 10)
    await gateway.store.generations.record(
      ids.slice(i, i + 10).map(id => ({
        generation: buildGeneration({ id, user_agent: 'half a pair \ud83d' }),
        charge: buildStepCharge({ id }),
      })),
    )
  return { data, gateway }
}

/** Changes the database as another program would. */
function tamper(data: string, sql: string): void {
  const db = openDatabase(data)
  db.run(sql)
  db.close()
}

/** Removes the table of changes, and what notes them there. */
function dropFeed(data: string): void {
  const db = openDatabase(data)
  const notes = `select name from sqlite_master
    where type = 'trigger' and (sql like '%into changes%' or tbl_name = 'changes')`
  for (const { name } of db.query<{ name: string }, []>(notes).all()) db.run(`drop trigger ${name}`)
  db.run('drop table changes')
  db.close()
}

/** Returns what `doctor` finds wrong, by check. */
async function listWrong(gateway: Gateway): Promise<Record<string, string>> {
  const { data } = await examineGateway(gateway)
  return Object.fromEntries(data.filter(({ ok }) => !ok).map(one => [one.check, one.found]))
}

describe('the records of calls', () => {
  test('are sealed by transaction: none was changed', async () => {
    const { gateway } = await openRecorded()
    const { data } = await examineGateway(gateway)
    expect(data.filter(({ ok }) => !ok)).toEqual([])
    expect(data.find(({ check }) => check === 'records')?.found).toBe('30 records, none changed')
    await gateway.close()
  })

  const CHANGES: [what: string, sql: string, found: string][] = [
    [
      'a changed record',
      "update generations set model = 'acme/dearer' where id = 'gen-012'",
      'record rows 11 to 20 (gen-010 to gen-019) are not as written',
    ],
    [
      'a text in place of none',
      "update generations set title = null where id = 'gen-012'",
      'record rows 11 to 20 (gen-010 to gen-019) are not as written',
    ],
    [
      'a removed seal',
      'delete from record_seals where n = 3',
      'seals of records are missing before row 21',
    ],
    [
      'the removed first seal',
      'delete from record_seals where n = 1',
      'the first seal of records is missing, or of another secret',
    ],
    [
      'the first seal of another secret',
      "update record_seals set seal = 'x' where n = 1",
      'the first seal of records is missing, or of another secret',
    ],
    [
      'a seal of more records than any transaction writes',
      "insert into record_seals values (5, 31, 100000, 41, 'x'); " +
        'update generations set rowid = 100000 where rowid = 30',
      'record rows 31 to 100000: no transaction writes so many under one seal',
    ],
    [
      'a removed end of the seals',
      'delete from record_seals where n = 4',
      'record row 21 (gen-020) was added by another program; ' +
        'record row 22 (gen-021) was added by another program; ' +
        'record row 23 (gen-022) was added by another program; and 7 more',
    ],
  ]
  for (const [what, sql, found] of CHANGES)
    test(`${what} is found`, async () => {
      const { data, gateway } = await openRecorded()
      tamper(data, sql)
      expect((await listWrong(gateway)).records).toStartWith(found)
      await gateway.close()
    })

  test('that are removed by another program are missed, one by one and from the first on', async () => {
    for (const condition of ["id = 'gen-015'", "id < 'gen-010'"]) {
      const { data, gateway } = await openRecorded()
      await rollUp(gateway)
      tamper(data, `delete from generations where ${condition}`)
      const wrong = await listWrong(gateway)
      expect(wrong.records).toContain('some are missing')
      expect(wrong['roll-ups']).toContain('they have 30 calls, and the records')
      await gateway.close()
    }
  })

  test('that were removed by their age are not missed', async () => {
    const { gateway } = await openRecorded()
    await rollUp(gateway)
    const { generations } = gateway.store
    await generations.record([
      {
        generation: buildGeneration({ id: 'gen-late', settled_at: '2026-03-06T00:00:00.000Z' }),
        charge: null,
      },
    ])
    await rollUp(gateway)
    expect(await generations.evictBefore('2026-03-06T00:00:00.000Z', 'now')).toBe(30)
    const wrong = await listWrong(gateway)
    expect(wrong.records).toBeUndefined()
    await gateway.close()
  })

  test('of an earlier version have no seal, and the next ones do', async () => {
    const { data, gateway } = await openRecorded()
    await gateway.close()
    dropFeed(data)
    tamper(
      data,
      `alter table sign_ins drop column key_hash; alter table sign_ins drop column issuer;
       alter table sign_ins drop column subject; alter table sign_ins drop column sid; drop table call_spend; drop table mcp_logins; drop table alert_notices; drop table alerts; alter table guardrails drop column mcp;
       alter table guardrails drop column budgets;
       alter table guardrails drop column requests_per_minute;
       alter table guardrails drop column tokens_per_minute;
       alter table guardrails drop column concurrent_requests;
       alter table budgets drop column soft; alter table videos drop column credential;
       drop index outbox_by_segment;
       alter table outbox drop column segment; alter table outbox drop column start;
       alter table outbox drop column length; alter table outbox drop column first;
       alter table outbox drop column sizes;
       drop table response_items; drop table responses;
       drop index files_by_expiry; alter table files drop column expires_at;
       alter table batches drop column output_expires_after;
       alter table files drop column sha256; alter table container_files drop column sha256;
       alter table outbox drop column calls; alter table deliveries drop column calls;
       drop trigger ledger_charges_once; drop index ledger_of_calls;
       alter table ledger drop column again;
       alter table evicted_days drop column corrections;
       drop table record_seals; pragma user_version = 30`,
    )
    const upgraded = await openData(data)
    await upgraded.store.generations.record([
      { generation: buildGeneration({ id: 'gen-new' }), charge: null },
    ])
    const { data: findings } = await examineGateway(upgraded)
    expect(findings.find(({ check }) => check === 'records')?.found).toBe(
      '31 records, none changed; 30 of them have no seal that can be checked',
    )
    tamper(data, "update generations set model = 'x' where id = 'gen-new'")
    expect((await listWrong(upgraded)).records).toBe('record row 31 (gen-new) is not as written')
    await upgraded.close()
  })
})

describe('one record that cannot be read', () => {
  test('with a garbled list is named, and no start, list, sum or check ends with it', async () => {
    for (const column of ['provider_responses', 'contentFilters', 'steps']) {
      const { data, gateway } = await openRecorded()
      await gateway.close()
      tamper(data, `update generations set ${column} = '{garbled' where id = 'gen-007'`)
      const next = await openData(data)
      expect(await next.store.generations.list({}, 100)).toHaveLength(30)
      await rollUp(next)
      expect((await listWrong(next)).records).toBe(
        `record row 8 (gen-007) of ${join(data, 'gateway.db')}: ${column} is garbled`,
      )
      await next.close()
    }
  })

  test('S-08 on a damaged page is named with its file, and the others are read', async () => {
    const { data, gateway } = await openRecorded(100)
    await gateway.close()
    tamper(data, 'pragma wal_checkpoint(truncate)')
    damagePage(join(data, 'gateway.db'), 'gen-050')
    const next = await openData(data)
    const wrong = await listWrong(next)
    expect(wrong.records).toMatch(
      /^record rows? \d+.* of .*gateway\.db cannot be read \(database disk image is malformed\)$/,
    )
    expect(wrong.store).toBeDefined()
    expect(wrong.chain).toBeUndefined()
    await next.close()
  })
})

/** Overwrites the header of the page that has the record of a call. */
function damagePage(path: string, id: string): void {
  const bytes = readFileSync(path)
  const size = bytes.readUInt16BE(16)
  for (let start = 0; start < bytes.length; start += size) {
    const page = bytes.subarray(start, start + size)
    if (page[0] === 13 && page.includes(id) && page.includes('chatcmpl-1')) page.fill(0xff, 0, 8)
  }
  writeFileSync(path, bytes)
}
