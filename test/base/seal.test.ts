import { expect, test } from 'bun:test'
import { openSeal } from '../../src/base/seal.ts'

const secret = new Uint8Array(32).fill(7)
const nonce = (last: number) => new Uint8Array(12).fill(last, 11)
const seal = openSeal(secret, 'byok')

test('a sealed text opens in its own context, complete', () => {
  for (const text of ['sk-1', '', 'ключ “𝄞”', 'x'.repeat(10_000)])
    expect(seal.open(seal.seal(text, 'a', nonce(1)), 'a')).toBe(text)
})

test('X-14 it opens with no other context, secret or purpose', () => {
  const sealed = seal.seal('sk-1', 'a', nonce(1))
  expect(seal.open(sealed, 'b')).toBeUndefined()
  expect(openSeal(new Uint8Array(32).fill(8), 'byok').open(sealed, 'a')).toBeUndefined()
  expect(openSeal(secret, 'else').open(sealed, 'a')).toBeUndefined()
})

test('X-14 a seal with any changed byte does not open, nor does other text', () => {
  const bytes = Buffer.from(seal.seal('sk-1', 'a', nonce(1)), 'base64url')
  for (let i = 0; i < bytes.length; i++) {
    const changed = Buffer.from(bytes)
    changed[i] = (changed[i] ?? 0) ^ 1
    expect(seal.open(changed.toString('base64url'), 'a')).toBeUndefined()
  }
  for (const text of ['', 'x', '!!', bytes.subarray(0, 20).toString('base64url')])
    expect(seal.open(text, 'a')).toBeUndefined()
})

test('two nonces give two seals of one text, and neither reveals it', () => {
  const [one, two] = [seal.seal('sk-canary', 'a', nonce(1)), seal.seal('sk-canary', 'a', nonce(2))]
  expect(one).not.toBe(two)
  expect(Buffer.from(one, 'base64url').toString('latin1')).not.toContain('canary')
})
