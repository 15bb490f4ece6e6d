import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { computeBounds, Quality } from '../../../src/engine/health.ts'

const HOUR = 3_600_000

const judged = (ok: number, failed: number, at = 0, quality = new Quality()) => {
  for (let i = 0; i < ok + failed; i++) quality.add(at, i < ok)
  return quality
}

describe('the bounds of a share', () => {
  test('are those of Wilson’s interval in textbooks', () => {
    expect(computeBounds({ ok: 20, failed: 0 })?.lower).toBeCloseTo(0.8389, 4)
    expect(computeBounds({ ok: 0, failed: 20 })?.upper).toBeCloseTo(0.1611, 4)
    expect(computeBounds({ ok: 50, failed: 50 })).toEqual({
      lower: expect.closeTo(0.4038, 4),
      upper: expect.closeTo(0.5962, 4),
    })
  })

  test('are null for fewer than twenty', () => {
    expect(computeBounds({ ok: 19, failed: 0 })).toBeNull()
    expect(computeBounds({ ok: 0, failed: 19 })).toBeNull()
    expect(computeBounds({ ok: 19, failed: 1 })).not.toBeNull()
  })

  test('contain the share, lie between 0 and 1, and rise with every good answer', () => {
    fc.assert(
      fc.property(fc.nat(5_000), fc.nat(5_000), (ok, failed) => {
        fc.pre(ok + failed >= 20)
        const bounds = computeBounds({ ok, failed })
        const better = computeBounds({ ok: ok + 1, failed })
        if (!bounds || !better) return false
        const share = ok / (ok + failed)
        const inOrder = [0, bounds.lower, share, bounds.upper, 1].every(
          (value, i, all) => i === 0 || value >= (all[i - 1] ?? 0) - 1e-12,
        )
        return inOrder && better.lower > bounds.lower && better.upper >= bounds.upper - 1e-12
      }),
    )
  })
})

describe('the quality of an endpoint', () => {
  test('covers a day and is forgotten hour by hour', () => {
    const quality = judged(0, 20)
    judged(20, 0, 12 * HOUR, quality)
    expect(quality.getBounds(12 * HOUR)).toEqual(computeBounds({ ok: 20, failed: 20 }))
    expect(quality.getBounds(25 * HOUR)).toEqual(computeBounds({ ok: 20, failed: 0 }))
    expect(quality.getBounds(40 * HOUR)).toBeNull()
  })

  test('is up to date as soon as an answer is judged', () => {
    const quality = judged(19, 0)
    expect(quality.getBounds(0)).toBeNull()
    quality.add(0, false)
    expect(quality.getBounds(0)).toEqual(computeBounds({ ok: 19, failed: 1 }))
  })
})
