import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { Descriptors } from '../../../src/server/descriptors.ts'
import { LONG } from '../../support/random.ts'

/*
 * However connections and calls come, no call takes a descriptor that is needed for `/health`: some
 * are left after each call that was admitted, unless connections alone have taken them.
 */

const RUNS = LONG ? 10_000 : 300

type Gate = Pick<Descriptors, 'look' | 'admitCall'>
type CreateGate = (limit: number, findLowestFree: () => number) => Gate

const create: CreateGate = (limit, find) => new Descriptors(undefined, limit, find)

const LOOK = 0
/** So many calls at once, of clients that are connected, or none for a regular look. */
const events = fc.array(fc.oneof(fc.constant(LOOK), fc.integer({ min: 1, max: 80 })), {
  minLength: 1,
  maxLength: 60,
})
const worlds = fc.record({
  limit: fc.integer({ min: 64, max: 2_000 }),
  events,
  // How many of the calls admitted so far have opened their connection when the next one comes.
  opened: fc.double({ min: 0, max: 1, noNaN: true }),
})

/** Returns the case in which a call took the last descriptor; null if there is none. */
function findOverrun(createGate: CreateGate): number | null {
  const property = fc.property(worlds, ({ limit, events, opened }) => {
    let [open, running] = [8, 0]
    const gate = createGate(limit, () => open)
    gate.look()
    for (const count of events) {
      // Every call has opened its connection by the time of the next regular look.
      if (count === LOOK) {
        open += running
        running = 0
        gate.look()
      }
      for (let i = 0; i < count; i++) {
        if (!gate.admitCall(running + 1)) continue
        running += 1
        if (open + running >= limit) throw new Error('No descriptor is left')
        if (i / count < opened) [open, running] = [open + 1, running - 1]
      }
    }
  })
  const { failed, numRuns } = fc.check(property, { numRuns: RUNS, seed: 71, endOnFailure: true })
  return failed ? numRuns : null
}

/** What a gate may get wrong. */
const PLANTS: Record<string, CreateGate> = {
  'it looks only now and then': (limit, find) => {
    const gate = create(limit, find)
    let isAdmitted = true
    return {
      look: () => {
        gate.look()
        isAdmitted = gate.admitCall(1)
      },
      admitCall: () => isAdmitted,
    }
  },
  'it knows nothing of calls without a connection yet': (limit, find) => ({
    look: () => {},
    admitCall: () => find() < limit - Math.min(64, limit / 4),
  }),
  'it keeps nothing': (limit, find) => create(Math.ceil((4 * limit) / 3) + 64, find),
}

describe('the reserve of descriptors', () => {
  test(`is not for calls, however they come (${RUNS} cases, seed 71)`, () => {
    expect(findOverrun(create)).toBeNull()
  })

  test.each(Object.keys(PLANTS))('a planted bug is found: %s', bug => {
    expect(findOverrun(PLANTS[bug] ?? create)).not.toBeNull()
  })
})
