import { expect, test } from 'bun:test'
import { createHmac, hkdfSync } from 'node:crypto'
import { openFingerprint } from '../../src/base/fingerprint.ts'

const secret = new Uint8Array(32).fill(7)
const fingerprint = openFingerprint(secret)

test('equal secrets have equal fingerprints, different secrets different ones', () => {
  expect(fingerprint('sk-1')).toBe(openFingerprint(secret)('sk-1'))
  expect(fingerprint('sk-1')).not.toBe(fingerprint('sk-2'))
  expect(fingerprint('')).toMatch(/^hmac-sha256:[0-9a-f]{64}$/)
})

test('cannot be computed without the secret of the gateway', () => {
  expect(fingerprint('sk-1')).not.toContain(
    new Bun.CryptoHasher('sha256').update('sk-1').digest('hex'),
  )
  expect(fingerprint('sk-1')).not.toContain(
    createHmac('sha256', secret).update('sk-1').digest('hex'),
  )
  expect(fingerprint('sk-1')).not.toBe(openFingerprint(new Uint8Array(32).fill(8))('sk-1'))
})

test('is HMAC-SHA-256 with its own HKDF key', () => {
  const key = Buffer.from(hkdfSync('sha256', secret, '', 'fingerprint', 32))
  expect(fingerprint('sk-1')).toBe(
    `hmac-sha256:${createHmac('sha256', key).update('sk-1').digest('hex')}`,
  )
})
