import { expect, test } from 'bun:test'
import fc from 'fast-check'
import { readWavHead, writeWavHead } from '../../src/base/wav.ts'

test('a head that is written is read again, with further chunks before the sound', () => {
  const more = Buffer.concat([Buffer.from('LIST'), Buffer.from([4, 0, 0, 0]), Buffer.from('INFO')])
  for (const size of [0, 48_000, null])
    for (const chunks of [Buffer.alloc(0), more])
      expect(readWavHead(writeWavHead(24_000, size, chunks))).toEqual({
        encoding: 1,
        channels: 1,
        rate: 24_000,
        byteRate: 48_000,
        bits: 16,
        offset: 44 + chunks.length,
        size,
      })
})

test('a head that is cut needs more bytes, wherever it is cut', () => {
  const head = writeWavHead(24_000, 2)
  for (let length = 0; length < head.length; length++)
    expect([length, readWavHead(head.subarray(0, length))]).toEqual([length, 'more'])
})

test('chunks of odd sizes end at even places', () => {
  const head = writeWavHead(8_000, 2)
  const odd = Buffer.concat([Buffer.from('note'), Buffer.from([1, 0, 0, 0]), Buffer.from('x\0')])
  const file = Buffer.concat([head.subarray(0, 36), odd, head.subarray(36)])
  expect(readWavHead(file)).toMatchObject({ rate: 8_000, offset: 54 })
})

test('what is no such file is none, whatever its bytes are', () => {
  for (const text of ['<!DOCTYPE html><html>', 'RIFF0000AVI LIST', 'PK zip file 123'])
    expect(readWavHead(Buffer.from(text))).toBeUndefined()
  const head = writeWavHead(24_000, 2)
  expect(readWavHead(Buffer.concat([head.subarray(0, 12), head.subarray(36)]))).toBeUndefined()
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 200 }), bytes => {
      const file = Buffer.concat([head.subarray(0, 12), bytes])
      const read = readWavHead(file)
      if (typeof read === 'object') expect(read.offset).toBeLessThanOrEqual(file.length)
    }),
  )
})
