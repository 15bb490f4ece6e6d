import { describe, expect, test } from 'bun:test'
import { createRandomIds } from '../../src/base/ids.ts'

const NOW = new Date('2026-03-04T05:06:07.089Z')
const drawn = <T>(count: number, draw: () => T) => Array.from({ length: count }, draw)

describe('ids', () => {
  const ids = createRandomIds()

  test('a generation’s id is its second and 20 letters or digits (wire reference C.5)', () => {
    for (const id of drawn(1_000, () => ids.generation(NOW)))
      expect(id).toMatch(/^gen-1772600767-[0-9A-Za-z]{20}$/)
  })

  test('a hundred thousand of them all differ', () => {
    const made = drawn(100_000, () => ids.generation(NOW))
    expect(new Set(made).size).toBe(made.length)
  })

  test('later ids sort after earlier ones', () => {
    const made = [0, 1, 9, 10, 99, 100, 910, 911, 5_000].map(later =>
      ids.generation(new Date(NOW.getTime() + later)),
    )
    expect(made.toSorted()).toEqual(made)
  })

  test('a secret is 64 hexadecimal digits, never the same', () => {
    const secrets = drawn(1_000, () => ids.secret())
    for (const secret of secrets) expect(secret).toMatch(/^[0-9a-f]{64}$/)
    expect(new Set(secrets).size).toBe(secrets.length)
  })

  test('ids stay in order while the clock is set back, and after it returned', () => {
    let now = NOW.getTime()
    const own = createRandomIds(() => now)
    const made: [string, string][] = []
    for (const time of [0, 5, -3_600_000, -3_599_999, -3_599_999, 4, 5, 6, 900])
      for (let i = 0; i < 50; i++) {
        now = NOW.getTime() + time
        made.push([own.uuid(), own.generation(new Date(now))])
      }
    const [uuids, generations] = [0, 1].map(i => made.map(pair => pair[i] as string))
    expect(uuids?.toSorted()).toEqual(uuids as string[])
    expect(generations?.map(id => id.slice(0, 17)).toSorted()).toEqual(
      generations?.map(id => id.slice(0, 17)) as string[],
    )
    expect(new Set(generations).size).toBe(made.length)
  })

  test('uuids sort by creation', () => {
    const made = drawn(1_000, () => ids.uuid())
    expect(made.toSorted()).toEqual(made)
  })
})
