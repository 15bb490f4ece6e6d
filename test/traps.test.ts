import { describe, expect, test } from 'bun:test'
import { join } from 'node:path'

/*
 * The 102 known mistakes in the translation of one provider's dialect into another, by number. Each
 * has a test named after it (`trap 21: …`) where it belongs in the suite, or a reason below why it
 * cannot happen.
 */

const TRAPS = 102

/** Those that do not apply, with the reason. */
const CANNOT_HAPPEN: Record<number, string> = {
  63: 'it is about events of the Responses API for clients, and no client speaks that here',
}

const tests = await Promise.all(
  [...new Bun.Glob('**/*.test.ts').scanSync(import.meta.dir)].map(path =>
    Bun.file(join(import.meta.dir, path)).text(),
  ),
)

/** The numbers in test titles: `trap 7`, `traps 3 and 4`, `traps 38–41`. */
const named = new Set(
  tests.flatMap(text =>
    [...text.matchAll(/\btraps? ((?:\d+(?:\s*(?:,|and|–|-)\s*)?)+)/g)].flatMap(([, list = '']) =>
      numbersIn(list),
    ),
  ),
)

function numbersIn(list: string): number[] {
  return list.split(/,|and/).flatMap(part => {
    const [first = 0, last = first] = part.split(/[–-]/).map(Number)
    return Array.from({ length: last - first + 1 }, (_, i) => first + i)
  })
}

describe('translation traps', () => {
  for (let trap = 1; trap <= TRAPS; trap++) {
    const reason = CANNOT_HAPPEN[trap]
    test(`${trap} ${reason ? `cannot happen: ${reason}` : 'has a test named after it'}`, () => {
      expect(named.has(trap)).toBe(reason === undefined)
    })
  }
})
