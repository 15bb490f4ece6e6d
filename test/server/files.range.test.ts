import { expect, test } from 'bun:test'
import { readRange } from '../../src/server/routes/files.ts'

test.each([
  [null, undefined],
  ['bytes=0-4', { start: 0, length: 5 }],
  ['bytes=2-', { start: 2, length: 8 }],
  ['bytes=-3', { start: 7, length: 3 }],
  ['bytes=-99', { start: 0, length: 10 }],
  ['bytes=9-99', { start: 9, length: 1 }],
  ['bytes=10-', undefined],
  ['bytes=4-2', undefined],
  ['bytes=-0', undefined],
  ['bytes=-', undefined],
  ['bytes=0-1,3-4', undefined],
  ['bytes=a-b', undefined],
  ['bytes=1e1-', undefined],
  ['bytes=-1-2', undefined],
  ['lines=0-1', undefined],
  ['bytes=99999999999999999999-', undefined],
])('%p of ten bytes is %j', (header, range) => {
  expect(readRange(header, 10)).toEqual(range)
})
