import { afterAll, expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { examineGateway, redateSpend } from '../../../src/app/doctor.ts'
import { openGateway } from '../../../src/app/gateway.ts'
import { getOperator } from '../../../src/resources/actor.ts'
import { runCommand } from '../../support/commands.ts'
import { createCountedIds, TestClock } from '../../support/gateway.ts'
import { buildGeneration, buildStepCharge } from '../../support/generation.ts'

const data = mkdtempSync(join(tmpdir(), 'gateway-redate-'))
afterAll(() => rmSync(data, { recursive: true, force: true }))

const open = (now: string) =>
  openGateway({ data, clock: new TestClock(now), ids: createCountedIds() })

test('A-13 spending of a future that never came is dated on today, on record', async () => {
  const settled_at = '2027-03-04T05:06:08.000Z'
  const ahead = await open(settled_at)
  await ahead.store.generations.record([
    {
      generation: buildGeneration({ settled_at }),
      charge: buildStepCharge({ settled_at, day: 20_881 }),
    },
  ])
  await ahead.close()

  const gateway = await open('2026-03-04T12:00:00.000Z')
  const readClock = async () => {
    const { data: findings } = await examineGateway(gateway)
    expect(findings.filter(({ ok }) => !ok)).toEqual([])
    return findings.find(({ check }) => check === 'clock')?.found
  }
  expect(await readClock()).toBe(
    'on days that have not come: $0.0000045 of key k on 2027-03-04 (--redate)',
  )
  const change = (approve: () => boolean) =>
    redateSpend(
      gateway,
      getOperator(gateway),
      { reason: 'a wrong clock' },
      {
        system_user: 'root',
        approve,
      },
    )
  expect(await change(() => false).catch(({ message }) => message)).toBe('Nothing was changed')
  await change(() => true)
  expect(await readClock()).toBe('nothing was spent after today')
  expect(gateway.ledger.getSpent('key k', 'daily', false)).toBe(4_500n)
  expect(gateway.ledger.getSpent('key k', null, false)).toBe(4_500n)
  expect(await change(() => true).catch(({ message }) => message)).toContain('no spending')
  await gateway.close()

  const tomorrow = await open('2026-03-05T12:00:00.000Z')
  expect(tomorrow.ledger.getSpent('key k', 'daily', false)).toBe(0n)
  expect(tomorrow.ledger.getSpent('key k', null, false)).toBe(4_500n)
  await tomorrow.close()
  const trail = await runCommand([
    'audit',
    'list',
    '--action',
    'ledger.redate',
    '--json',
    '--data',
    data,
  ])
  expect(JSON.parse(trail.stdout).data).toMatchObject([{ after: { reason: 'a wrong clock' } }])
})
