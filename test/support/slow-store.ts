import { yieldToEventLoop } from '../../src/base/clock.ts'
import { replaceMethods } from '../../src/store/methods.ts'
import { openSqlite } from '../../src/store/sqlite.ts'
import { TEST_SECRET, TEST_SECRETS } from './ledger.ts'
import { createSeededIntegers } from './random.ts'

/**
 * Opens a store in SQLite where nothing resolves at once, as a part of a gateway: each method takes
 * some turns of the event loop before its work, and some before it resolves. The seed determines how
 * many, so that the second of two calls may be done first. Several can be open at one path, like
 * processes.
 */
export async function openSlowStore({ path = ':memory:', seed = 1 } = {}) {
  const store = await openSqlite({
    ...{ path, durability: 'normal', busyTimeout: 0, secrets: TEST_SECRETS },
  })
  slowDown(store, createSeededIntegers(seed))
  return { store, secret: TEST_SECRET }
}

/** Slows the methods of a noun, and of those that are part of it. */
function slowDown(noun: object, integers: (below: number) => number): void {
  for (const part of Object.values(noun)) if (typeof part === 'object') slowDown(part, integers)
  replaceMethods(noun, (name, method) => {
    // It reads nothing.
    if (name === 'under') return method
    return async (...parameters) => {
      await pass(1 + integers(3))
      const result = await method(...parameters)
      await pass(integers(3))
      return result
    }
  })
}

async function pass(turns: number): Promise<void> {
  for (let i = 0; i < turns; i++) await yieldToEventLoop()
}
