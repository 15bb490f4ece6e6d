import { expect, test } from 'bun:test'
import fc from 'fast-check'
import {
  type ByteSource,
  readWhole,
  toBase64Source,
  toByteSource,
} from '../../src/base/byte-source.ts'

/** A source that gives at most so many bytes at once. */
const slow = (bytes: Uint8Array, most: number): ByteSource => ({
  size: bytes.length,
  read: async (position, length) => bytes.slice(position, position + Math.min(length, most)),
})

/** Reads a source piece by piece, as a connection does. */
async function gather(source: ByteSource, length: number): Promise<Buffer> {
  const pieces: Uint8Array[] = []
  for (let at = 0; at < source.size; at += pieces.at(-1)?.length ?? 0)
    pieces.push(await source.read(at, length))
  return Buffer.concat(pieces)
}

test('bytes are read as they are, in pieces that may be given back', async () => {
  const bytes = Buffer.from('hello there')
  const source = toByteSource(bytes)
  expect((await gather(source, 4)).toString()).toBe('hello there')
  ;(await source.read(0, 5)).fill(0)
  expect(bytes.toString()).toBe('hello there')
  expect(await source.read(11, 5)).toHaveLength(0)
})

test('base64 is that of all bytes, however they are read', async () => {
  const bytes = fc.uint8Array({ maxLength: 300 })
  const lengths = fc.integer({ min: 1, max: 50 })
  await fc.assert(
    fc.asyncProperty(bytes, lengths, lengths, async (all, groups, most) => {
      const source = toBase64Source(slow(all, most))
      const text = Buffer.from(all).toString('base64')
      expect(source.size).toBe(text.length)
      expect((await gather(source, 4 * groups)).toString()).toBe(text)
    }),
  )
})

test('base64 of a large source has no padding in its middle', async () => {
  const all = Buffer.alloc(200_001, 7)
  const text = await gather(toBase64Source(toByteSource(all)), 256 * 1024)
  expect(text.toString()).toBe(all.toString('base64'))
})

test('so many bytes are read whole, and fewer at the end', async () => {
  const source = slow(Buffer.from('0123456789'), 3)
  expect(Buffer.from(await readWhole(source, 2, 7)).toString()).toBe('2345678')
  expect(Buffer.from(await readWhole(source, 8, 7)).toString()).toBe('89')
  expect(await readWhole(source, 20, 7)).toHaveLength(0)
})
