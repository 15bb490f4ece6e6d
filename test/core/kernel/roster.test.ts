import { edenGC, fullGC, heapStats } from 'bun:jsc'
import { describe, expect, test } from 'bun:test'
import { Roster } from '../../../src/core/kernel/roster.ts'

describe('a roster', () => {
  test('has what came and has not gone, whatever the order', () => {
    const roster = new Roster<string>()
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

  test('lets go once: a second time does nothing, also when another stands there', () => {
    const roster = new Roster<string>()
    const leave = roster.add('a')
    leave()
    roster.add('b')
    leave()
    expect([...roster]).toEqual(['b'])
  })

  test('has the same one as often as it came', () => {
    const roster = new Roster<string>()
    const leave = roster.add('a')
    roster.add('a')
    leave()
    expect([roster.size, [...roster]]).toEqual([1, ['a']])
  })

  test('does not keep alive what has gone', () => {
    const roster = new Roster<Thing>()
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

/** Ten are there at a time. */
function comeAndGo(roster: Roster<Thing>, times: number): void {
  const leaving = Array.from({ length: 10 }, () => roster.add(new Thing()))
  for (let i = 0; i < times; i++) {
    leaving[i % 10]?.()
    leaving[i % 10] = roster.add(new Thing())
  }
  for (const leave of leaving) leave()
}

const living = (): number => heapStats().objectTypeCounts.Date ?? 0
