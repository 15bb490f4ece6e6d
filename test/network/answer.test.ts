import { describe, expect, test } from 'bun:test'
import { Cancellation } from '../../src/base/cancellation.ts'
import { Deadline, parseRetryAfter, parseRetryAfterMs } from '../../src/network/answer.ts'
import { ConnectionFailed } from '../../src/network/egress.ts'

const NOW = Date.parse('2026-03-04T05:06:07Z')
const after = (value: string) => parseRetryAfter(value, NOW)

describe('parseRetryAfter', () => {
  test('returns the provider’s seconds', () => {
    expect(after('7')).toBe(7)
    expect(after(' 7 ')).toBe(7)
  })

  test('rounds fractions of seconds up', () => {
    expect(after('1.5')).toBe(2)
    expect(after('0.001')).toBe(1)
    expect(after('-0.5')).toBe(0)
    expect(after('299.5')).toBe(300)
    expect(after('300.5')).toBe(300)
  })

  test('returns the seconds until the provider’s date, rounded up', () => {
    expect(after('Wed, 04 Mar 2026 05:06:17 GMT')).toBe(10)
    expect(parseRetryAfter('Wed, 04 Mar 2026 05:06:17 GMT', NOW + 500)).toBe(10)
  })

  test('is never negative or above five minutes', () => {
    expect(after('-5')).toBe(0)
    expect(after('0')).toBe(0)
    expect(after('Wed, 04 Mar 2026 05:00:00 GMT')).toBe(0)
    expect(after('301')).toBe(300)
    expect(after('99999999999999999999')).toBe(300)
    expect(after('Thu, 05 Mar 2026 05:06:07 GMT')).toBe(300)
  })

  test('is undefined without a value, or with an invalid one', () => {
    expect(parseRetryAfter(null, NOW)).toBeUndefined()
    expect(after('soon')).toBeUndefined()
    for (const nonsense of [
      '',
      '1,5',
      '1.',
      '.5',
      '5s',
      '1e3',
      '0x10',
      '1 2',
      'May 5',
      '1/2',
      'Infinity',
    ])
      expect(after(nonsense)).toBeUndefined()
  })
})

describe('parseRetryAfterMs', () => {
  test('converts the provider’s milliseconds to whole seconds, within the same bounds', () => {
    const given = ['1', '999', '1000', '1000.5', ' 2500 ', '0', '-5', '9999999999']
    expect(given.map(parseRetryAfterMs)).toEqual([1, 1, 1, 2, 3, 0, 0, 300])
  })

  test('is undefined without a value, or with an invalid one', () => {
    expect(
      [null, '', 'soon', '1,5', '1e3', 'Wed, 04 Mar 2026 05:06:17 GMT'].map(parseRetryAfterMs),
    ).toEqual(Array(6).fill(undefined))
  })
})

test.each([
  ['ENOTFOUND', 'name not found'],
  ['EAI_AGAIN', 'name not found'],
  ['ECONNREFUSED', 'connection refused'],
  ['ETIMEDOUT', 'no connection in time'],
  ['EHOSTUNREACH', 'host unreachable'],
  ['ENETUNREACH', 'host unreachable'],
  ['DEPTH_ZERO_SELF_SIGNED_CERT', 'TLS failed'],
  ['UNABLE_TO_VERIFY_LEAF_SIGNATURE', 'TLS failed'],
  ['ERR_TLS_CERT_ALTNAME_INVALID', 'TLS failed'],
  ['HOSTNAME_MISMATCH', 'TLS failed'],
  ['EPROTO', 'TLS failed'],
  ['ECONNRESET', 'connection lost'],
  ['EPIPE', 'connection lost'],
  ['toString', 'connection lost'],
])('a connection that failed with %s says why: %s', (code, cause) => {
  const deadline = new Deadline(new Cancellation(), { firstByte: 1_000, idle: 1_000, total: 1_000 })
  expect(deadline.toGatewayError(new ConnectionFailed(code))).toMatchObject({
    type: 'provider_unavailable',
    message: `Provider returned error: ${cause}`,
    metadata: { cause },
    reason: { code, message: cause },
  })
  deadline.close()
})
