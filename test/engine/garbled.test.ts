import { afterAll, describe, expect, test } from 'bun:test'
import { mkdtempSync, readFileSync, renameSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { examineGateway } from '../../src/app/doctor.ts'
import { type Gateway, openGateway } from '../../src/app/gateway.ts'
import { keepUnrecorded, recoverCalls } from '../../src/engine/recover.ts'
import type { HeldCall } from '../../src/limits/ledger.ts'
import type { RecorderEntry } from '../../src/observability/generations/store.ts'
import { getOperator } from '../../src/resources/actor.ts'
import { createKey } from '../../src/resources/keys.ts'
import { createCountedIds, TestClock } from '../support/gateway.ts'
import { buildGeneration, buildStepCharge, PAYER } from '../support/generation.ts'
import { changeLog, listLogFiles } from '../support/log.ts'

const root = mkdtempSync(join(tmpdir(), 'gateway-garbled-'))
afterAll(() => rmSync(root, { recursive: true, force: true }))

const openData = (data: string): Promise<Gateway> =>
  openGateway({ data, clock: new TestClock('2026-03-04T12:00:00.000Z'), ids: createCountedIds() })

const ID = 'gen-1772625967-01234567890123456789'
const REQUEST = 'gen-1772625967-98765432109876543210'

/** A data directory with a key, and a call of it in the journal whose process has died. */
async function leaveCall(more: Partial<HeldCall> = {}): Promise<{ data: string; hash: string }> {
  const data = mkdtempSync(join(root, 'data-'))
  const gateway = await openData(data)
  const { data: key } = await createKey(gateway, getOperator(gateway), { name: 'one' })
  await gateway.journal.holds.append({
    ...{ key_hash: key.hash, user_id: gateway.memory.owner.user_id, id: ID, request_id: REQUEST },
    ...{ workspace_id: gateway.memory.owner.workspace_id, created_at: '2026-03-04T12:00:00.000Z' },
    ...{ api_type: 'completions', model: 'acme/small', streamed: true, step: 1, byok: false },
    ...{ nanos: 5_000n, spent: 700n },
    ...more,
  }).written
  await gateway.close()
  return { data, hash: key.hash }
}

/** Changes the journal, then starts there as a server does. */
async function recoverAfter(data: string, change: (line: string) => string) {
  changeLog(data, change)
  const gateway = await openData(data)
  const found = (await examineGateway(gateway)).data.find(({ check }) => check === 'holds')
  const recovery = await recoverCalls(gateway)
  const spent = gateway.ledger.getSpent('all', null, false)
  const wrong = (await examineGateway(gateway)).data.filter(({ ok }) => !ok)
  await gateway.close()
  return { found, recovery, spent, wrong }
}

describe('a garbled line of the journal', () => {
  const CHANGES: [what: string, change: (line: string) => string, spent: bigint][] = [
    ['a changed model', line => line.replace('acme/small', 'acme/smalm'), 700n],
    ['a larger amount, which is not believed', line => line.replace('"700"', '"99700"'), 5_000n],
    ['an amount that is none', line => line.replace('"700"', '"7x0"'), 5_000n],
    ['a lost checksum', line => 'x'.repeat(8) + line.slice(8), 700n],
  ]
  for (const [what, change, spent] of CHANGES)
    test(`with ${what} is counted, said and charged at its estimate`, async () => {
      const { data } = await leaveCall()
      const result = await recoverAfter(data, change)
      expect(result.found).toMatchObject({ ok: false })
      expect(result.recovery).toEqual({
        calls: 0,
        garbled: { lines: 1, charged: 1, unknown: 0 },
      })
      const evidence = { check: 'logs', ok: false, found: expect.stringContaining('log was') }
      expect([result.spent, result.wrong]).toEqual([spent, [evidence]])
      expect(readFileSync(join(data, 'log.garbled'), 'utf8')).toContain('acme')
    })

  test('is each one in segments that were exchanged, which the first command names', async () => {
    const { data, hash } = await leaveCall()
    const second = await openData(data)
    const [held] = second.journal.holds.listCalls()
    const other = { id: ID.replace('0123', '0124'), request_id: REQUEST.replace('9', '8') }
    if (held) await second.journal.holds.append({ ...held, ...other, key_hash: hash }).written
    await second.close()
    const [one = '', two = ''] = listLogFiles(data)
    for (const [from, to] of [
      [one, `${one}.aside`],
      [two, one],
      [`${one}.aside`, two],
    ] as const)
      renameSync(from, to)
    const { found, recovery, wrong } = await recoverAfter(data, log => log)
    expect(found).toMatchObject({ ok: false, found: expect.stringContaining('2') })
    expect(recovery).toEqual({ calls: 0, garbled: { lines: 2, charged: 2, unknown: 0 } })
    expect(wrong).toMatchObject([{ check: 'logs' }])
  })

  test('that names no call or no key is counted as unknown', async () => {
    for (const [field, form] of [
      ['id', /"id":"[^"]*"/],
      ['key_hash', /"key_hash":"[^"]*"/],
    ] as const) {
      const { data } = await leaveCall()
      const result = await recoverAfter(data, line => line.replace(form, `"${field}":"?"`))
      expect(result.recovery.garbled).toEqual({ lines: 1, charged: 0, unknown: 1 })
      expect(result.spent).toBe(0n)
    }
  })

  test('of a call on record is charged once, even where one of its ids is garbled', async () => {
    for (const change of [
      (line: string) => line.replace('acme', 'bcme'),
      (line: string) => line.replace(ID, ID.replace('0123', '0124')),
    ]) {
      const { data, hash } = await leaveCall()
      const gateway = await openData(data)
      await gateway.recorder.record({
        generation: buildGeneration({ id: ID, request_id: REQUEST, key_hash: hash }),
        charge: buildStepCharge({ id: ID, key_hash: hash }),
      })
      await gateway.close()
      const { recovery, spent } = await recoverAfter(data, change)
      expect(recovery.garbled).toEqual({ lines: 1, charged: 0, unknown: 0 })
      expect(spent).toBe(4_500n)
    }
  })
})

describe('what a store has not taken when its server ends', () => {
  /** Ends a server with these entries unrecorded, and returns what the next one charges. */
  async function endWith(
    entries: RecorderEntry[],
    inner?: Pick<HeldCall, 'inner' | 'step'>,
  ): Promise<bigint> {
    const { data } = await leaveCall({ ...PAYER })
    const gateway = await openData(data)
    const [call] = gateway.journal.holds.listCalls()
    if (inner && call) await gateway.journal.holds.append({ ...call, ...inner }).written
    keepUnrecorded({
      journal: gateway.journal,
      recorder: { ...gateway.recorder, listPending: () => entries },
    })
    await gateway.close()
    const next = await openData(data)
    await recoverCalls(next)
    const spent = next.ledger.getSpent('all', null, false)
    expect((await examineGateway(next)).data.filter(({ ok }) => !ok)).toEqual([])
    await next.close()
    return spent
  }

  const step = (n: number, nanos: bigint): RecorderEntry => ({
    generation: null,
    charge: buildStepCharge({ id: ID, step: n, nanos }),
  })

  test('is charged with what it had really come to', async () => {
    const generation = buildGeneration({ id: ID, request_id: REQUEST })
    const last = { generation, charge: buildStepCharge({ id: ID, nanos: 900n }) }
    expect(await endWith([last])).toBe(900n)
  })

  test('is charged with every step, also where its end is not known', async () => {
    expect(await endWith([step(1, 800n)])).toBe(800n)
    expect(await endWith([step(1, 800n), step(2, 60n)])).toBe(860n)
  })

  test('is charged once with what a tool within it cost', async () => {
    const inner = { generation: null, charge: buildStepCharge({ id: ID, step: 2, nanos: 30n }) }
    expect(await endWith([step(1, 800n), inner], { inner: true, step: 2 })).toBe(830n)
  })

  test('is charged with its steps where the end itself cost nothing', async () => {
    const end = { generation: buildGeneration({ id: ID, request_id: REQUEST }), charge: null }
    expect(await endWith([step(1, 800n), end])).toBe(800n)
  })
})
