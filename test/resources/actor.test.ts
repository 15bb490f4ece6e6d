import { beforeEach, describe, expect, test } from 'bun:test'
import type { Gateway } from '../../src/app/gateway.ts'
import { GatewayError } from '../../src/base/errors.ts'
import { authenticate, getOperator } from '../../src/resources/actor.ts'
import { createKey, deleteKey, updateKey } from '../../src/resources/keys.ts'
import { createTestKeys, TestClock, testGateway } from '../support/gateway.ts'

let clock: TestClock
let gateway: Gateway
let keys: Awaited<ReturnType<typeof createTestKeys>>

beforeEach(async () => {
  clock = new TestClock()
  gateway = await testGateway({ clock })
  keys = await createTestKeys(gateway)
})

/** Returns the refusal’s status, type and sentence, or undefined for a valid key. */
function refusalOf(authorization: string | null): [number, string, string] | undefined {
  try {
    authenticate(gateway, authorization)
    return undefined
  } catch (thrown) {
    const { status, type, message } = GatewayError.from(thrown)
    return [status, type, message]
  }
}

const MISSING: [number, string, string] = [401, 'authentication', 'Missing Authentication header']
const INVALID: [number, string, string] = [401, 'authentication', 'Invalid API key']

describe('authenticate', () => {
  test('a valid key is an actor with its kind, its workspace and its user', () => {
    expect(authenticate(gateway, `Bearer ${keys.inference}`)).toEqual({
      kind: 'inference',
      user_id: gateway.memory.owner.user_id,
      workspace_id: gateway.memory.owner.workspace_id,
      key_hash: keys.hash,
    })
    expect(authenticate(gateway, `Bearer ${keys.management}`).kind).toBe('management')
  })

  test('the scheme is accepted in any case and with any number of spaces', () => {
    for (const scheme of ['bearer ', 'BEARER ', 'Bearer   '])
      expect(refusalOf(scheme + keys.inference)).toBeUndefined()
    expect(refusalOf(`Bearer ${keys.inference}  `)).toBeUndefined()
  })

  test('a request without the header gets an error that says so', () => {
    expect(refusalOf(null)).toEqual(MISSING)
    expect(refusalOf('')).toEqual(MISSING)
  })

  test('X-11 all other failures get the same sentence', () => {
    const wrong = [
      'Bearer',
      'Bearer ',
      'Bearer x',
      `Basic ${keys.inference}`,
      keys.inference,
      `Bearer ${keys.inference}x`,
      `Bearer ${keys.inference.toUpperCase()}`,
      `Bearer ${keys.inference} ${keys.inference}`,
      `Bearer ${keys.hash}`,
      `Bearer\t${keys.inference}`,
      `Bearer ${'x'.repeat(100_000)}`,
    ]
    for (const authorization of wrong) expect(refusalOf(authorization)).toEqual(INVALID)
  })

  test('X-12 no part of a key is one, however long, and no key that differs in one sign', () => {
    const { inference } = keys
    for (let length = 1; length < inference.length; length++)
      expect(refusalOf(`Bearer ${inference.slice(0, length)}`)).toEqual(INVALID)
    for (let at = 6; at < inference.length; at++) {
      const other = inference[at] === '0' ? '1' : '0'
      const key = inference.slice(0, at) + other + inference.slice(at + 1)
      expect(refusalOf(`Bearer ${key}`)).toEqual(INVALID)
    }
    expect(refusalOf(`Bearer ${inference}`)).toBeUndefined()
  })

  test('X-05 a disabled key is refused until it is enabled again', async () => {
    await updateKey(gateway, getOperator(gateway), keys.hash, { disabled: true })
    expect(refusalOf(`Bearer ${keys.inference}`)).toEqual(INVALID)
    await updateKey(gateway, getOperator(gateway), keys.hash, { disabled: false })
    expect(refusalOf(`Bearer ${keys.inference}`)).toBeUndefined()
  })

  test('X-05 a deleted key is refused', async () => {
    await deleteKey(gateway, getOperator(gateway), keys.hash)
    expect(refusalOf(`Bearer ${keys.inference}`)).toEqual(INVALID)
  })

  test('X-05 a key is refused from the moment it expires', async () => {
    const { key } = await createKey(gateway, getOperator(gateway), {
      name: 'short',
      expires_at: '2026-03-04T05:06:08Z',
    })
    clock.pass(999)
    expect(refusalOf(`Bearer ${key}`)).toBeUndefined()
    clock.pass(1)
    expect(refusalOf(`Bearer ${key}`)).toEqual(INVALID)
  })
})
