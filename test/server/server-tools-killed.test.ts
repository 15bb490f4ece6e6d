import { afterEach, beforeEach, describe, expect, test } from 'bun:test'
import { LONG } from '../support/random.ts'
import { buildLocalConfig } from '../support/server.ts'
import {
  ADVICE,
  type Charges,
  callingAll,
  KilledGateway,
  TURN,
  WAITING,
} from '../support/server-tools/killing.ts'
import { PRICE } from '../support/server-tools/price.ts'
import { type Script, startUpstream, type Upstream } from '../support/upstream.ts'

let upstream: Upstream
let killed: KilledGateway
beforeEach(async () => {
  upstream = await startUpstream()
  killed = await KilledGateway.create(buildLocalConfig(upstream.url))
})
afterEach(async () => {
  await upstream.close()
  killed.remove()
})

const calling = callingAll({ name: 'priced', arguments: '{}' })
const asking = { name: 'advisor', arguments: '{"prompt":"What now?"}' }

/** Calls a gateway and kills it once the loop is there. */
async function killAt(at: string, hits?: number): Promise<void> {
  const waited = { 'in the first turn': 1, 'in the second turn': 2 }[at] ?? hits
  await killed.killAt({
    at,
    body: {
      max_tokens: 100,
      messages: [{ role: 'user', content: 'Hi' }],
      tools: [{ type: 'gateway:priced' }, { type: 'gateway:advisor' }],
    },
    ...(waited === undefined ? {} : { reached: () => upstream.hit(waited) }),
  })
}

/** Whether a kill, which takes a second, is of the normal run: others are on the way to it. */
const isTried = ([at]: readonly [string, ...unknown[]]): boolean =>
  LONG || !['before a turn', 'in the first turn', 'in a turn within a call'].includes(at)

const KILLS: [at: string, calls: number, charges: Charges][] = [
  ['before a turn', 0, []],
  ['in the first turn', 1, [[1, 'its prompt']]],
  ['before a tool', 1, [[1, TURN]]],
  [
    'in a tool',
    1,
    [
      [1, TURN],
      [2, PRICE],
    ],
  ],
  [
    'after a tool',
    1,
    [
      [1, TURN],
      [2, PRICE],
    ],
  ],
  [
    'in the second turn',
    1,
    [
      [1, TURN],
      [2, PRICE],
      [3, 'its prompt'],
    ],
  ],
]

describe.each(KILLS.filter(isTried))('a gateway that is killed %s', (at, calls, charges) => {
  test('has charged each step once, however often it restarts', async () => {
    if (at === 'in the first turn') upstream.plan(WAITING)
    else upstream.plan(calling, WAITING)
    await killAt(at)
    await killed.expectCharges(calls, charges)
  })
})

const KILLS_WITHIN: [at: string, scripts: [Script, ...Script[]], charges: Charges][] = [
  [
    'in a turn within a call',
    [callingAll(asking), WAITING],
    [
      [1, TURN],
      [2, 'its prompt'],
    ],
  ],
  [
    'in two of them at once',
    [callingAll(asking, asking), WAITING, WAITING],
    [
      [1, TURN],
      [2, 'its prompt'],
      [3, 'its prompt'],
    ],
  ],
  [
    'in one of them, while another has ended',
    [callingAll(asking, asking), ADVICE, WAITING],
    [
      [1, TURN],
      [2, expect.anything()],
      [3, expect.anything()],
    ],
  ],
  [
    'in a turn after one within the call',
    [callingAll(asking), ADVICE, WAITING],
    [
      [1, TURN],
      [2, TURN],
      [3, 'its prompt'],
    ],
  ],
]

describe.each(KILLS_WITHIN.filter(isTried))(
  'a gateway that is killed %s',
  (at, scripts, charges) => {
    test('has charged each step once, however often it restarts', async () => {
      upstream.plan(...scripts)
      await killAt(at, scripts.length)
      await killed.expectCharges(1, charges)
    })
  },
)

describe.each([
  ['before a tool', [callingAll(asking)], [[1, TURN]]],
  [
    'after a tool',
    [callingAll(asking), ADVICE],
    [
      [1, TURN],
      [2, TURN],
    ],
  ],
] as [string, [Script, ...Script[]], Charges][])(
  'a gateway that is killed %s that asks a model',
  (at, scripts, charges) => {
    test('has charged each step once, however often it restarts', async () => {
      upstream.plan(...scripts)
      await killAt(at)
      await killed.expectCharges(1, charges)
    })
  },
)
