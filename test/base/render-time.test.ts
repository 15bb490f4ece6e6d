import { expect, test } from 'bun:test'
import fc from 'fast-check'
import { renderTime } from '../../src/base/clock.ts'

test('a moment is rendered as toISOString does, whatever was rendered before it', () => {
  const moments = fc.date({ noInvalidDate: true })
  const near = fc.integer({ min: -2_500, max: 2_500 })
  fc.assert(
    fc.property(moments, fc.array(near), (moment, offsets) => {
      for (const offset of [0, ...offsets]) {
        const other = new Date(moment.getTime() + offset)
        if (!Number.isNaN(other.getTime())) expect(renderTime(other)).toBe(other.toISOString())
      }
    }),
  )
})

test('what is no moment is refused, and changes nothing', () => {
  const moment = new Date('2026-11-22T17:40:20.007Z')
  expect(renderTime(moment)).toBe('2026-11-22T17:40:20.007Z')
  expect(() => renderTime(new Date(Number.NaN))).toThrow(RangeError)
  expect(renderTime(moment)).toBe('2026-11-22T17:40:20.007Z')
})
