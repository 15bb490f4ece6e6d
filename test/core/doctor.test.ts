import { Database } from 'bun:sqlite'
import { afterAll, describe, expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { examineGateway } from '../../src/core/doctor.ts'
import { type Gateway, openGateway } from '../../src/core/gateway.ts'
import { markLedgerEnd, verifyLedgerEnd } from '../../src/core/inference/recover.ts'
import { createCountedIds, TestClock } from '../support/gateway.ts'
import { buildGeneration, buildRecordEntry, buildStepCharge, PAYER } from '../support/generation.ts'
import { runGateway as run } from '../support/server.ts'

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
  await markLedgerEnd(gateway)
  await gateway.close()
  return data
}

const opened = (data: string): Promise<Gateway> =>
  openGateway({ data, clock: new TestClock('2026-03-07T12:00:00.000Z'), ids: createCountedIds() })

/** Returns the checks that fail after this change of the database behind the gateway's back. */
async function wrongAfter(tampering: string): Promise<string[]> {
  const data = await charged()
  const db = new Database(join(data, 'gateway.db'))
  db.run(tampering)
  db.close()
  const gateway = await opened(data)
  const wrong = (await examineGateway(gateway)).data.filter(({ ok }) => !ok)
  await gateway.close()
  return wrong.map(({ check }) => check)
}

describe('gateway doctor', () => {
  test('finds no problem in an intact directory', async () => {
    const gateway = await opened(await charged())
    expect((await examineGateway(gateway)).data.filter(({ ok }) => !ok)).toEqual([])
    await verifyLedgerEnd(gateway)
    await gateway.close()
  })

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
    ['the last row', 'delete from ledger where seq = 30', ['end', 'counters', 'calls']],
    ['a missing hash', 'update ledger set hash = null where seq = 12', ['chain']],
    ['a changed step', 'update ledger set step = 2 where seq = 3', ['chain']],
    [
      'an invented step',
      "insert into ledger select 31, 'gen-5', settled_at, key_hash, user_id, workspace_id, byok, " +
        '1, source, hash, 2, 1 from ledger where seq = 30',
      ['chain', 'counters', 'calls'],
    ],
    ['a call whose record is missing', "delete from generations where id = 'gen-5'", ['calls']],
    [
      'a call with another cost',
      "update generations set upstream_inference_cost = 1 where id = 'gen-5'",
      ['calls'],
    ],
  ]
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
    const db = new Database(join(data, 'gateway.db'))
    db.run('update ledger set nanos = 7 where seq = 12')
    db.close()
    const wrong = await run(['doctor', '--data', data])
    expect(wrong.code).toBe(1)
    expect(wrong.stdout).toContain('row 12 (gen-11) was changed after it was written')
  })
})

describe('a ledger whose end is missing', () => {
  test('is not served', async () => {
    const data = await charged()
    const db = new Database(join(data, 'gateway.db'))
    db.run('delete from ledger where seq > 20')
    db.close()
    const { code, stderr } = await run(['serve', '--data', data, '--port', '0'])
    expect(code).toBe(1)
    expect(stderr).toContain('The ledger ends at row 20, but 30 were written')
  })
})

describe('spending from before the chain', () => {
  test('is counted, starts the chain, and cannot be changed either', async () => {
    const data = await charged()
    const db = new Database(join(data, 'gateway.db'))
    db.run('delete from ledger')
    db.run(
      'insert into ledger (id, settled_at, key_hash, user_id, workspace_id, byok, nanos, source) ' +
        "select 'opening-' || key_hash || day || byok, " +
        "date(day * 86400, 'unixepoch') || 'T00:00:00.000Z', " +
        "key_hash, user_id, workspace_id, byok, nanos, 'opening' from spend",
    )
    db.close()
    rmSync(join(data, 'ledger.head'))
    const gateway = await opened(data)
    expect((await examineGateway(gateway)).data.filter(({ ok }) => !ok)).toEqual([])
    const settled_at = '2026-03-04T13:00:00.000Z'
    await gateway.store.generations.record([
      {
        generation: buildGeneration({ id: 'gen-new', settled_at }),
        charge: buildStepCharge({ id: 'gen-new', settled_at }),
      },
    ])
    await gateway.close()
    const tampered = new Database(join(data, 'gateway.db'))
    tampered.run("update ledger set user_id = 'somebody' where seq = 2")
    tampered.close()
    const after = await opened(data)
    expect(
      (await examineGateway(after)).data.filter(({ ok }) => !ok).map(({ check }) => check),
    ).toContain('chain')
    await after.close()
  })
})
