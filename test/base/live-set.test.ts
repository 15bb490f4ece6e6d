import { edenGC, fullGC, heapStats } from 'bun:jsc'
import { describe, expect, test } from 'bun:test'
import { LiveSet } from '../../src/base/live-set.ts'

describe('a live set', () => {
  test('contains items that were added and not removed, in any order', () => {
    const roster = new LiveSet<string>()
    const [a, b, c, d] = ['a', 'b', 'c', 'd'].map(one => roster.add(one))
    b?.()
    expect([roster.size, [...roster].sort()]).toEqual([3, ['a', 'c', 'd']])
    d?.()
    a?.()
    roster.add('e')
    expect([roster.size, [...roster].sort()]).toEqual([2, ['c', 'e']])
    c?.()
    expect([...roster]).toEqual(['e'])
  })

  test('removes an item once, even when the slot is taken again', () => {
    const roster = new LiveSet<string>()
    const leave = roster.add('a')
    leave()
    roster.add('b')
    leave()
    expect([...roster]).toEqual(['b'])
  })

  test('contains an item as often as it was added', () => {
    const roster = new LiveSet<string>()
    const leave = roster.add('a')
    roster.add('a')
    leave()
    expect([roster.size, [...roster]]).toEqual([1, ['a']])
  })

  test('does not keep removed items alive', () => {
    const roster = new LiveSet<Thing>()
    comeAndGo(roster, 2_000)
    fullGC()
    const before = living()
    comeAndGo(roster, 2_000)
    edenGC()
    expect(living() - before).toBeLessThan(100)
  })
})

class Thing {
  readonly made = new Date()
}

/** Keeps ten items at a time. */
function comeAndGo(roster: LiveSet<Thing>, times: number): void {
  const leaving = Array.from({ length: 10 }, () => roster.add(new Thing()))
  for (let i = 0; i < times; i++) {
    leaving[i % 10]?.()
    leaving[i % 10] = roster.add(new Thing())
  }
  for (const leave of leaving) leave()
}

const living = (): number => heapStats().objectTypeCounts.Date ?? 0
