import { describe, expect, test } from 'bun:test'
import { includesAddress, isAddressRange } from '../../src/base/address-ranges.ts'
import { createSeededRandom, LONG, SEED } from '../support/random.ts'

const CASES = LONG ? 100_000 : 5_000

test.each(['10.0.0.1', '10.0.0.0/8', '0.0.0.0/0', '1.2.3.4/32', '::1', 'fd00::/8', '::/0'])(
  '%s is a range',
  range => expect(isAddressRange(range)).toBe(true),
)

test.each([
  ...['', '/', '10.0.0.1/', '10.0.0.1/33', '::1/129', '10.0.0.1/-1', '10.0.0.1/8/8', '10.0.0/8'],
  ...['10.0.0.1/ 8', 'localhost', '*', '10.*', '[::1]', 'fe80::1%eth0', '010.0.0.1', '1.2.3.4/8.0'],
])('%p is no range', range => expect(isAddressRange(range)).toBe(false))

test.each([
  ['10.255.0.1', ['10.0.0.0/8'], true],
  ['::ffff:10.255.0.1', ['10.0.0.0/8'], true],
  ['11.0.0.0', ['10.0.0.0/8'], false],
  ['10.0.0.1', [], false],
  ['10.0.0.1', ['::1', '10.0.0.1'], true],
  ['::1', ['127.0.0.1'], false],
  ['fe80::1%eth0', ['fe80::/10'], true],
  ['', ['0.0.0.0/0'], false],
  ['here', ['0.0.0.0/0', '::/0'], false],
])('%p in %p: %p', (address, ranges, expected) => {
  expect(includesAddress(ranges, address)).toBe(expected)
})

describe(`${CASES} addresses and ranges (seed ${SEED})`, () => {
  test('an address is in a range exactly if their first bits agree', () => {
    const random = createSeededRandom(SEED)
    const pickByte = () => Math.floor(random() * 256)
    const toBits = (bytes: number[]) =>
      bytes.map(byte => byte.toString(2).padStart(8, '0')).join('')
    for (let i = 0; i < CASES; i++) {
      const range = Array.from({ length: 4 }, pickByte)
      const bits = Math.floor(random() * 33)
      // Most addresses would differ in the first bits already.
      const shared = Math.floor(random() * 33)
      const flipped = toBits(range)
        .split('')
        .map((bit, at) => (at === shared ? (bit === '1' ? '0' : '1') : at > shared ? '1' : bit))
        .join('')
      const address = [0, 8, 16, 24].map(at => Number.parseInt(flipped.slice(at, at + 8), 2))
      expect([
        range,
        bits,
        address,
        includesAddress([`${range.join('.')}/${bits}`], address.join('.')),
      ]).toEqual([range, bits, address, shared >= bits])
    }
  })
})

test('every form of an address is the same', () => {
  for (const form of ['fd00::1', 'FD00:0:0:0:0:0:0:1', 'fd00:0::0.0.0.1', 'fd00::0001'])
    expect([form, includesAddress(['fd00::1'], form)]).toEqual([form, true])
  expect(includesAddress(['1:2:3:4:5:6:7:8'], '1:2:3:4:5:6:7:8')).toBe(true)
  expect(includesAddress(['::/0'], '1:2:3:4:5:6:7:8')).toBe(true)
  expect(includesAddress(['::1/128'], '::2')).toBe(false)
})
