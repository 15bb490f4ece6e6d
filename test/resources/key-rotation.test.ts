import { beforeEach, expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { examineGateway } from '../../src/app/doctor.ts'
import { type Gateway, openGateway } from '../../src/app/gateway.ts'
import { toDayNumber } from '../../src/base/clock.ts'
import { authenticate, getOperator } from '../../src/resources/actor.ts'
import { listAudit } from '../../src/resources/audit.ts'
import { rotateKey } from '../../src/resources/keys/rotation.ts'
import { createKey, getKey, updateKey } from '../../src/resources/keys.ts'
import { openDatabase } from '../support/database.ts'
import { TestClock, testGateway } from '../support/gateway.ts'
import { buildPayer } from '../support/ledger.ts'

const HOUR = 3_600

let clock: TestClock
let gateway: Gateway
let first: string
let hash: string

beforeEach(async () => {
  clock = new TestClock()
  gateway = await testGateway({ clock })
  const created = await createKey(gateway, getOperator(gateway), { name: 'ci', limit: 5 })
  first = created.key
  hash = created.data.hash
})

const rotate = (overlap_seconds: number) =>
  rotateKey(gateway, getOperator(gateway), hash, { overlap_seconds })
const hashOf = (secret: string) => authenticate(gateway, `Bearer ${secret}`).key_hash
const isValid = (secret: string) => {
  try {
    return hashOf(secret) === hash
  } catch {
    return false
  }
}

test('both secrets are one key until the overlap ends, by comparing times', async () => {
  const { key, previous_valid_until } = await rotate(HOUR)
  expect([isValid(first), isValid(key)]).toEqual([true, true])
  expect(previous_valid_until).toBe(new Date(clock.now().getTime() + HOUR * 1000).toISOString())
  clock.pass(HOUR * 1000 - 1)
  expect(isValid(first)).toBe(true)
  clock.pass(1)
  expect([isValid(first), isValid(key)]).toEqual([false, true])
})

test('without an overlap the secret so far is invalid at once', async () => {
  const { key, previous_valid_until } = await rotate(0)
  expect([isValid(first), isValid(key), previous_valid_until]).toEqual([false, true, null])
})

test('a second rotation ends what the first one left', async () => {
  const second = (await rotate(HOUR)).key
  const third = (await rotate(HOUR)).key
  expect([first, second, third].map(isValid)).toEqual([false, true, true])
})

test('limits, spending and name stay, and the label is the new secret’s', async () => {
  gateway.ledger.charge({
    ...buildPayer({ key_hash: hash }),
    day: toDayNumber(clock.now()),
    byok: false,
    nanos: 2_000_000_000n,
  })
  const { key } = await rotate(HOUR)
  expect(getKey(gateway, getOperator(gateway), hash).data).toMatchObject({
    hash,
    name: 'ci',
    usage: 2,
    limit: 5,
    limit_remaining: 3,
    label: `${key.slice(0, 9)}...${key.slice(-3)}`,
  })
})

test('a disabled key stays disabled with either secret', async () => {
  const { key } = await rotate(HOUR)
  await updateKey(gateway, getOperator(gateway), hash, { disabled: true })
  expect([isValid(first), isValid(key)]).toEqual([false, false])
})

test('an unknown key is 404, an expired one 409', async () => {
  const operator = getOperator(gateway)
  await expect(rotateKey(gateway, operator, 'x', { overlap_seconds: 0 })).rejects.toMatchObject({
    type: 'not_found',
  })
  const expires_at = new Date(clock.now().getTime() + 1000).toISOString()
  const { data } = await createKey(gateway, operator, { name: 'short', expires_at })
  clock.pass(1000)
  await expect(
    rotateKey(gateway, operator, data.hash, { overlap_seconds: 0 }),
  ).rejects.toMatchObject({ type: 'conflict' })
})

test('the trail has it without a secret', async () => {
  const { key } = await rotate(HOUR)
  const { data } = await listAudit(gateway, getOperator(gateway), { action: 'keys.rotate' })
  expect(data).toMatchObject([{ resource_id: hash, action: 'keys.rotate' }])
  expect(data[0]?.changed).toContain('label')
  for (const secret of [key, first]) expect(JSON.stringify(data)).not.toContain(secret)
})

test('it is sealed, and outlives a restart', async () => {
  const data = mkdtempSync(join(tmpdir(), 'gateway-rotation-'))
  const before = await openGateway({ data, clock })
  const created = await createKey(before, getOperator(before), { name: 'kept' })
  const rotated = await rotateKey(before, getOperator(before), created.data.hash, {
    overlap_seconds: HOUR,
  })
  await before.close()
  const after = await openGateway({ data, clock })
  const find = (secret: string) => authenticate(after, `Bearer ${secret}`).key_hash
  expect([find(created.key), find(rotated.key)]).toEqual([created.data.hash, created.data.hash])
  expect((await examineGateway(after)).data.filter(({ ok }) => !ok)).toEqual([])
  await after.close()
  const db = openDatabase(data)
  db.run("update keys set previous_secret_until = '2999-01-01T00:00:00.000Z' where name = 'kept'")
  db.close()
  const changed = await openGateway({ data, clock })
  expect((await examineGateway(changed)).data.filter(({ ok }) => !ok)).not.toEqual([])
  await changed.close()
  rmSync(data, { recursive: true })
})

test('of two rotations at the same moment one is refused, and no secret outlives the other', async () => {
  const both = await Promise.allSettled([rotate(0), rotate(HOUR)])
  expect(isValid(first)).toBe(false)
  expect(both.map(({ status }) => status)).toEqual(['fulfilled', 'rejected'])
  expect(both[1]).toMatchObject({ reason: { type: 'conflict' } })
  const [done] = both.flatMap(one => (one.status === 'fulfilled' ? one.value.key : []))
  expect(isValid(done ?? '')).toBe(true)
})
