import { afterEach, beforeEach, describe, expect, spyOn, test } from 'bun:test'
import fc from 'fast-check'
import type { Gateway } from '../../../src/app/gateway.ts'
import type { Cancellation } from '../../../src/base/cancellation.ts'
import { systemClock } from '../../../src/base/clock.ts'
import { GatewayError, unavailable } from '../../../src/base/errors.ts'
import { infer } from '../../../src/engine/infer.ts'
import type { Block } from '../../../src/language/message.ts'
import type { IncomingResponse, OutgoingRequest } from '../../../src/network/egress.ts'
import { type Actor, getOperator } from '../../../src/resources/actor.ts'
import { createKey } from '../../../src/resources/keys.ts'
import { buildTextCall } from '../../support/call.ts'
import { testGateway } from '../../support/gateway.ts'
import { decodeOutgoing } from '../../support/outgoing.ts'
import { deltaObject, eventText, usage } from '../../support/upstream.ts'

const NAMES = ['first', 'second', 'third']
const PRICES = { first: 1, second: 10, third: 100 }

const CONFIG = {
  routing: { choice: 'listed', failures: 0 },
  providers: Object.fromEntries(
    NAMES.map(name => [
      name,
      {
        protocol: 'openai-chat',
        base_url: `http://${name}.example/v1`,
        api_key: 'mock',
        fetches_urls: true,
      },
    ]),
  ),
  models: [
    {
      id: 'acme/small',
      context_length: 1_000,
      endpoints: Object.entries(PRICES).map(([provider, price]) => ({
        provider,
        model: 'm',
        usd_per_million_tokens: { prompt: price, completion: price },
      })),
    },
  ],
}

/** How one endpoint treats one call: when it answers, with what, and when it goes on. */
interface Fate {
  after: number | Promise<void>
  says: 'words' | 'role only' | 200 | 400 | 429 | 500
  pace: number
}

/** One request as its provider saw it. */
interface Hit {
  fate: Fate
  isOpen: boolean
  isCancelled: boolean
}

/**
 * Providers with predetermined behaviour for each call, in the order of `NAMES`. The user of a call
 * identifies it.
 */
class World {
  readonly hits = new Map<string, Hit[]>()
  mostOpen = 0
  fates: Fate[][] = []
  picture: Fate = { after: 0, says: 500, pace: 0 }

  egress = async (
    { url, body }: Pick<OutgoingRequest, 'url' | 'body'>,
    cancellation: Cancellation,
  ): Promise<IncomingResponse> => {
    const name = new URL(url).hostname.replace('.example', '')
    const call = body ? (JSON.parse(decodeOutgoing(body)) as { user: string }).user : 'picture'
    const fate = body ? this.fates[Number(call)]?.[NAMES.indexOf(name)] : this.picture
    const hit: Hit = {
      fate: fate ?? { after: 0, says: 'words', pace: 0 },
      isOpen: true,
      isCancelled: false,
    }
    this.hits.set(call, [...this.of(call), hit])
    this.mostOpen = Math.max(this.mostOpen, this.of(call).filter(({ isOpen }) => isOpen).length)
    return this.#answer(hit, cancellation)
  }

  of(call: string): Hit[] {
    return this.hits.get(call) ?? []
  }

  async #answer(hit: Hit, cancellation: Cancellation): Promise<IncomingResponse> {
    const gone = Promise.withResolvers<never>()
    gone.promise.catch(() => undefined)
    const ends = () => {
      hit.isOpen = false
    }
    cancellation.listen(reason => {
      hit.isCancelled = hit.isOpen
      ends()
      gone.reject(reason)
    })
    const pause = (time: Fate['after']) =>
      Promise.race([typeof time === 'number' && time > 0 ? Bun.sleep(time) : time, gone.promise])
    const { after, says, pace } = hit.fate
    await pause(after)
    if (typeof says === 'number') ends()
    const events = eventsOf(says)
    return {
      status: typeof says === 'number' ? says : 200,
      header: name =>
        name === 'content-type'
          ? typeof says === 'number'
            ? 'application/json'
            : 'text/event-stream'
          : null,
      text: () => '{}',
      read: async () => {
        await pause(events.length === 3 ? 0 : pace)
        const next = events.shift()
        if (events.length === 0) ends()
        return next === undefined ? null : Buffer.from(next)
      },
    }
  }
}

function eventsOf(says: Fate['says']): string[] {
  const role = eventText(deltaObject({ role: 'assistant', content: '' }))
  if (says !== 'words') return [role, role]
  return [
    eventText(deltaObject('Hello')),
    eventText(deltaObject({}, 'stop', { usage: usage(10, 5) })),
    eventText('[DONE]'),
  ]
}

let gateway: Gateway
let world: World
let actor: Actor

beforeEach(async () => {
  world = new World()
  gateway = await testGateway({ config: CONFIG, clock: systemClock, egress: world.egress })
  const { data } = await createKey(gateway, getOperator(gateway), { name: 'k', limit: 1_000 })
  actor = { ...getOperator(gateway), kind: 'inference', key_hash: data.hash }
})

afterEach(() => gateway.close())

/** Makes a call and reads it to the end. Returns its cost in nano-dollars, or how it failed. */
async function ask(
  user: string,
  after_ms: number,
  signal = new AbortController().signal,
  blocks: Block[] = [{ type: 'text', text: 'Hi' }],
): Promise<bigint | GatewayError> {
  const call = buildTextCall({
    id: `gen-1-${user}`,
    stream: true,
    params: { max_tokens: 5 },
    user,
    messages: [{ role: 'user', blocks }],
    routing: { hedge: { after_ms } },
  })
  try {
    const { parts } = await infer(gateway, actor, 'text', call, signal)
    const last = (await parts.collect()).flat()
    const failure = last.find(part => part.type === 'error')
    const receipt = last.find(part => part.type === 'receipt')
    return failure?.error ?? receipt?.receipt.cost ?? 0n
  } catch (thrown) {
    return GatewayError.from(thrown)
  }
}

/** What no call may leave behind. */
async function expectNothingLeft(): Promise<void> {
  await gateway.recorder.flush()
  expect(gateway.traffic.calls.size).toBe(0)
  expect(gateway.ledger.getHeld(`key ${actor.key_hash}`, true)).toBe(0n)
  expect([...world.hits.values()].flat().filter(({ isOpen }) => isOpen)).toEqual([])
  let places = 0
  while (gateway.traffic.retryBudget.tryAcquire('hedge')) places += 1
  expect(places).toBe(10)
  for (; places > 0; places--) gateway.traffic.retryBudget.release('hedge', false)
}

const words = (after: Fate['after']): Fate => ({ after, says: 'words', pace: 0 })

describe('at random', () => {
  const fate = fc.record({
    after: fc.integer({ min: 0, max: 20 }),
    says: fc.constantFrom<Fate['says'][]>(
      'words',
      'words',
      'words',
      'role only',
      200,
      400,
      429,
      500,
    ),
    pace: fc.integer({ min: 0, max: 5 }),
  })
  const call = fc.record({
    fates: fc.tuple(fate, fate, fate),
    after_ms: fc.integer({ min: 0, max: 12 }),
    leaves: fc.option(fc.integer({ min: 0, max: 25 }), { freq: 5 }),
  })

  test('one endpoint answers and is paid or none is, and at most two run at once', async () => {
    const charged = new Map<string, bigint | null>()
    gateway.events.on('generation.finished', ({ id, total_cost }) => charged.set(id, total_cost))
    const answered = new Set<bigint>()
    let round = 0
    const seen = new Set<string>()
    await fc.assert(
      fc.asyncProperty(fc.array(call, { minLength: 1, maxLength: 6 }), async calls => {
        world.hits.clear()
        const first = 1_000 * ++round
        for (const [i, { fates }] of calls.entries()) world.fates[first + i] = fates
        const ends = await Promise.all(
          calls.map(({ after_ms, leaves }, i) => ask(String(first + i), after_ms, leaving(leaves))),
        )
        await expectNothingLeft()
        for (const [i, end] of ends.entries()) {
          const hits = world.of(String(first + i))
          const whole = hits.filter(hit => !hit.isCancelled && hit.fate.says === 'words')
          const isAnswered = typeof end === 'bigint'
          expect(whole).toHaveLength(isAnswered ? 1 : 0)
          expect(hits.length).toBeLessThanOrEqual(3)
          // A call that an endpoint answers fails only if its client leaves or the request is
          // refused.
          const isRefused = hits.some(hit => hit.fate.says === 400)
          if (!isAnswered && calls[i]?.leaves === null && !isRefused)
            expect(hits.map(hit => hit.fate.says)).not.toContain('words')
          if (calls[i]?.leaves === null)
            expect(charged.get(`gen-1-${first + i}`)).toBe(isAnswered ? end : 0n)
          if (isAnswered) answered.add(end)
          const others = hits.some(hit => hit.isCancelled) ? 'with one given up' : 'alone'
          seen.add(`${isAnswered ? 'answered' : 'failed'} ${others}`)
        }
        expect(world.mostOpen).toBeLessThanOrEqual(2)
      }),
      { numRuns: 60 },
    )
    // All of it happened, or nothing has been proven.
    expect(answered).toContain(BigInt(15 * PRICES.first * 1_000))
    expect(answered).toContain(BigInt(15 * PRICES.second * 1_000))
    expect([...seen].sort()).toEqual([
      'answered alone',
      'answered with one given up',
      'failed alone',
      'failed with one given up',
    ])
  })

  function leaving(after: number | null): AbortSignal {
    return after === null ? new AbortController().signal : AbortSignal.timeout(after)
  }
})

test('the winner’s price is charged, whichever endpoint wins', async () => {
  world.fates = [
    [words(5_000), words(0)],
    [words(15), words(5_000)],
  ]
  expect(await ask('0', 5)).toBe(BigInt(15 * PRICES.second * 1_000))
  expect(await ask('1', 5)).toBe(BigInt(15 * PRICES.first * 1_000))
  expect(gateway.ledger.getSpent(`key ${actor.key_hash}`, null, false)).toBe(
    BigInt(15 * (PRICES.first + PRICES.second) * 1_000),
  )
  await expectNothingLeft()
})

test.each(['its money cannot be asked for', 'the disk does not take its entry'])(
  'the first goes on alone where there can be no hedge, as %s',
  async reason => {
    const { promise: refused, resolve } = Promise.withResolvers<void>()
    world.fates = [[words(refused), words(0)]]
    const away = unavailable('The database does not answer')
    const { counters } = gateway.traffic
    const { take } = counters
    counters.take = claim => {
      if (!claim.money || claim.to || reason !== 'its money cannot be asked for') return take(claim)
      resolve()
      return Promise.reject(away)
    }
    const { holds } = gateway.journal
    const append = holds.append.bind(holds)
    holds.append = held => {
      if (!held.inner) return append(held)
      resolve()
      return { written: Promise.reject(away), forget: () => undefined }
    }
    expect(await ask('0', 5)).toBe(BigInt(15 * PRICES.first * 1_000))
    expect(world.of('0')).toHaveLength(1)
    await expectNothingLeft()
  },
)

test.each<[string, Fate['says'], number]>([
  ['answers', 'words', 1],
  ['fails', 500, 2],
])(
  'an endpoint that %s while a hedge is written down is not asked beside another',
  async (_, says, hits) => {
    const outcome = Promise.withResolvers<void>()
    world.fates = [[{ after: outcome.promise, says, pace: 0 }, words(0)]]
    const hedges: string[] = []
    gateway.events.on('hedge.started', ({ endpoint }) => hedges.push(endpoint.provider.name))
    const { holds } = gateway.journal
    const append = holds.append.bind(holds)
    holds.append = held => {
      const entry = append(held)
      if (!held.inner) return entry
      outcome.resolve()
      // The disk is slower than the endpoint, which has its outcome in the next turns.
      return { ...entry, written: Bun.sleep(20).then(() => entry.written) }
    }
    expect(await ask('0', 5)).toBe(
      BigInt(15 * (says === 'words' ? PRICES.first : PRICES.second) * 1_000),
    )
    expect(hedges).toEqual([])
    expect(world.of('0')).toHaveLength(hits)
    await expectNothingLeft()
  },
)

describe('no timer is left', () => {
  const DELAY = 54_321
  /** Longer than these tests wait for anything. */
  const LONG = 10_000
  const both = (fate: Fate) => [fate, fate]

  test.each<[name: string, fates: () => Fate[], leaves: number | null, delay?: number]>([
    ['if the first answers', () => [words(0)], null],
    [
      'if the first fails and another answers',
      () => [{ after: 0, says: 500, pace: 0 }, words(0)],
      null,
    ],
    ['if the first refuses', () => [{ after: 0, says: 400, pace: 0 }], null],
    ['if the client leaves', () => [words(5_000)], 10],
    ['if the second is faster', () => [words(5_000), words(0)], null, 5],
    ['if both answer in the same moment', () => both(words(Bun.sleep(30))), null, 5],
  ])('%s', async (_, fates, leaves, delay = DELAY) => {
    const set = spyOn(globalThis, 'setTimeout')
    const cleared = spyOn(globalThis, 'clearTimeout')
    try {
      world.fates = [fates()]
      await ask('0', delay, leaves === null ? undefined : AbortSignal.timeout(leaves))
      const timers = set.mock.calls.flatMap(([, delay = 0], i) =>
        delay > LONG ? [set.mock.results[i]?.value] : [],
      )
      expect(timers.length).toBeGreaterThan(0)
      expect(timers.every(timer => cleared.mock.calls.some(([one]) => one === timer))).toBe(true)
    } finally {
      set.mockRestore()
      cleared.mockRestore()
    }
    await expectNothingLeft()
  })
})

describe('an image that only the hedge’s provider cannot fetch itself', () => {
  const picture = 'http://pictures.example/a.png'

  /**
   * The first answers after a while, and fetches images itself. The image arrives late and is
   * invalid.
   */
  async function asked(pictureAfter: number): Promise<bigint | GatewayError> {
    const { first, second } = CONFIG.providers
    const config = {
      ...CONFIG,
      providers: { ...CONFIG.providers, first, second: { ...second, protocol: 'gemini' } },
    }
    await gateway.close()
    gateway = await testGateway({
      config,
      clock: systemClock,
      egress: world.egress,
      resolve: async () => ['93.184.216.34'],
    })
    actor = getOperator(gateway)
    world.fates = [[words(60), words(0)]]
    world.picture = { after: pictureAfter, says: 500, pace: 0 }
    return ask('0', 5, undefined, [{ type: 'image', url: picture }])
  }

  test.each([
    ['is abandoned when the first has answered', 5_000, true],
    ['does not count against the first if it cannot be fetched', 0, false],
  ])('%s', async (_, after, isLeft) => {
    expect(await asked(after)).toBe(BigInt(15 * PRICES.first * 1_000))
    expect(world.of('picture').map(({ isCancelled }) => isCancelled)).toEqual([isLeft])
    expect(world.of('0')).toHaveLength(1)
    await expectNothingLeft()
  })
})
