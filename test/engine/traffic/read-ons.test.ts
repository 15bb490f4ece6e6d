import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { ReadOns } from '../../../src/engine/traffic/read-ons.ts'
import { LONG } from '../../support/random.ts'

/*
 * However many calls a key abandons, the calls of others are read on: a key is refused a place only
 * while nobody has two more than it has.
 */

const RUNS = LONG ? 10_000 : 300
const PLACES = 64

/** The keys' answers as a client of the places sees them. */
class Answers {
  readonly readOns = new ReadOns()
  /** How many are read on, by key. */
  readonly running = new Map<string, number>()
  readonly #ends: { key: string; end: () => void }[] = []

  get size(): number {
    return this.#ends.length
  }

  /** Adds one, which gives its place back when it is cut. Returns whether it got a place. */
  add(key: string): boolean {
    const answer = { cut: () => answer.end(), end: () => {} }
    const remove = this.readOns.tryAdd(key, answer)
    if (!remove) return false
    const entry = { key, end: () => answer.end() }
    answer.end = () => {
      const at = this.#ends.indexOf(entry)
      if (at === -1) return
      this.#ends.splice(at, 1)
      this.#count(key, -1)
      remove()
    }
    this.#ends.push(entry)
    this.#count(key, 1)
    return true
  }

  end(which: number): void {
    this.#ends[which % this.#ends.length]?.end()
  }

  countOf(key: string): number {
    return this.running.get(key) ?? 0
  }

  #count(key: string, more: number): void {
    this.running.set(key, this.countOf(key) + more)
  }
}

describe('a key that abandons its calls', () => {
  test('takes no place from others, who get their share of the places', () => {
    const answers = new Answers()
    for (let i = 0; i < 1_000; i++) answers.add('greedy')
    expect(answers.countOf('greedy')).toBe(PLACES)
    for (let i = 0; i < 1_000; i++) answers.add('other')
    expect([answers.countOf('greedy'), answers.countOf('other')]).toEqual([32, 32])
    for (let i = 0; i < 62; i++) expect(answers.add(`key ${i}`)).toBe(true)
    expect([...answers.running.values()]).toEqual(new Array(PLACES).fill(1))
    expect(answers.add('one more')).toBe(false)
  })

  test('has all places while nobody else needs one', () => {
    const answers = new Answers()
    for (let i = 0; i < PLACES; i++) expect(answers.add('greedy')).toBe(true)
    expect(answers.add('greedy')).toBe(false)
    answers.end(3)
    expect(answers.add('greedy')).toBe(true)
  })

  test(`whatever comes and goes, is refused only when it has its share (${RUNS} cases, seed 51)`, () => {
    const event = fc.tuple(fc.nat(9), fc.nat(6), fc.nat(40))
    fc.assert(
      fc.property(fc.array(event, { maxLength: 60 }), events => {
        const answers = new Answers()
        for (const [kind, key, count] of events)
          for (let i = 0; i < count; i++) {
            if (kind > 6) answers.end(key * 7 + i)
            else if (!answers.add(`${key}`)) {
              expect(answers.size).toBe(PLACES)
              const most = Math.max(...answers.running.values())
              expect(most - answers.countOf(`${key}`)).toBeLessThan(2)
            }
            expect(answers.size).toBeLessThanOrEqual(PLACES)
          }
      }),
      { numRuns: RUNS, seed: 51 },
    )
  })

  test('at the end nobody gets a place, and all are cut', () => {
    const answers = new Answers()
    for (let i = 0; i < 100; i++) answers.add(`${i % 3}`)
    answers.readOns.cutAll()
    expect(answers.size).toBe(0)
    expect(answers.add('late')).toBe(false)
  })
})
