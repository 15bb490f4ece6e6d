import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { Descriptors } from '../../../src/server/connections.ts'
import { LONG } from '../../support/random.ts'

/*
 * However connections and calls come, no call takes a descriptor that is needed for `/health`: some
 * are left after each call that was admitted, unless connections alone have taken them.
 */
const RUNS = LONG ? 10_000 : 300

type Gate = Pick<Descriptors, 'look' | 'admitCall' | 'startCall'>

/** What a gate can find out: the lowest free descriptor, and the calls without a connection. */
interface Sight {
  limit: number
  findLowestFree: () => number
  countUnconnected: () => number
}

type CreateGate = (sight: Sight) => Gate

const create: CreateGate = sight => new Descriptors(sight)

const LOOK = 0

/** So many calls at once, of clients that are connected, or none for a regular look. */
const events = fc.array(fc.oneof(fc.constant(LOOK), fc.integer({ min: 1, max: 80 })), {
  minLength: 1,
  maxLength: 60,
})

const share = fc.double({ min: 0, max: 1, noNaN: true })
const worlds = fc.record({
  limit: fc.integer({ min: 64, max: 2_000 }),
  events,
  // How many of the waiting calls have been read, and of the running ones have opened their
  // connection, when the next event comes: all, none or some.
  read: share,
  opened: share,
})

/** Returns the case in which a call took the last descriptor; null if there is none. */
function findOverrun(createGate: CreateGate): number | null {
  const property = fc.property(worlds, ({ limit, events, read, opened }) => {
    let [open, waiting, unconnected] = [8, 0, 0]
    const gate = createGate({
      limit,
      findLowestFree: () => open,
      countUnconnected: () => unconnected,
    })
    gate.look()
    for (const count of events) {
      if (count === LOOK) gate.look()
      for (let i = 0; i < count; i++) {
        if (!gate.admitCall()) continue
        waiting += 1
        if (open + waiting + unconnected >= limit) throw new Error('No descriptor is left')
      }
      const started = Math.round(waiting * read)
      for (let i = 0; i < started; i++) gate.startCall()
      ;[waiting, unconnected] = [waiting - started, unconnected + started]
      const connected = Math.round(unconnected * opened)
      ;[unconnected, open] = [unconnected - connected, open + connected]
    }
  })
  const { failed, numRuns } = fc.check(property, { numRuns: RUNS, seed: 71, endOnFailure: true })
  return failed ? numRuns : null
}

/** What a gate may get wrong. */
const PLANTS: Record<string, CreateGate> = {
  'it looks only now and then': sight => {
    const gate = create(sight)
    let isAdmitted = true
    return {
      look: () => {
        gate.look()
        isAdmitted = gate.admitCall()
        if (isAdmitted) gate.startCall()
      },
      admitCall: () => isAdmitted,
      startCall: () => {},
    }
  },
  'it knows nothing of calls whose bodies are read': sight => {
    const gate = create(sight)
    const admitCall = () => {
      const isAdmitted = gate.admitCall()
      if (isAdmitted) gate.startCall()
      return isAdmitted
    }
    return { look: () => gate.look(), admitCall, startCall: () => {} }
  },
  'it knows nothing of calls without a connection yet': sight =>
    create({ ...sight, countUnconnected: () => 0 }),
  'it keeps nothing': sight => create({ ...sight, limit: Math.ceil((4 * sight.limit) / 3) + 64 }),
}

describe('the reserve of descriptors', () => {
  test(`is not for calls, however they come (${RUNS} cases, seed 71)`, () => {
    expect(findOverrun(create)).toBeNull()
  })

  test.each(Object.keys(PLANTS))('a planted bug is found: %s', bug => {
    expect(findOverrun(PLANTS[bug] ?? create)).not.toBeNull()
  })
})
