import { describe, expect, test } from 'bun:test'
import {
  Admission,
  type LargeAnswer,
  LargeAnswers,
  Supply,
  Turns,
} from '../../../src/engine/traffic/admission.ts'
import { createSeededRandom } from '../../support/random.ts'

const MIB = 1024 * 1024

/** Takes one at a time as long as it can. Returns how many it got. */
function takeAll(supply: Supply, key: string, most = 10_000): number {
  let taken = 0
  while (taken < most && supply.take(key, 1)) taken += 1
  return taken
}

describe('a supply', () => {
  test('leaves a tenth of it to others than a key that takes all that it can', () => {
    const supply = new Supply(() => 1_000)
    expect(takeAll(supply, 'greedy')).toBe(900)
    expect(takeAll(supply, 'other')).toBe(90)
    expect(takeAll(supply, 'third')).toBe(9)
  })

  test('O-05 is shared equally by keys that call again and again', () => {
    const supply = new Supply(() => 1_000)
    const held = new Map(['greedy', 'a', 'b'].map(key => [key, 0]))
    held.set('greedy', takeAll(supply, 'greedy'))
    // Each call that ends is followed by one of each key.
    for (let round = 0; round < 20_000; round++) {
      const [key] = [...held].toSorted((a, b) => b[1] - a[1])[0] as [string, number]
      supply.giveBack(key, 1)
      held.set(key, (held.get(key) ?? 0) - 1)
      for (const one of held.keys())
        if (supply.take(one, 1)) held.set(one, (held.get(one) ?? 0) + 1)
    }
    const shares = [...held.values()]
    expect(Math.max(...shares) - Math.min(...shares)).toBeLessThanOrEqual(10)
  })

  test('keeps a reserve for those who manage the gateway', () => {
    const supply = new Supply(() => 160, 1 / 16)
    for (const key of ['a', 'b', 'c', 'd', 'e']) takeAll(supply, key)
    expect(supply.used).toBeLessThanOrEqual(150)
    expect(supply.takeReserved('management', 10)).toBe(true)
    expect(supply.takeReserved('management', 10)).toBe(false)
  })

  test('lets what is larger than all of it be taken alone', () => {
    const supply = new Supply(() => 10)
    expect([supply.take('a', 100), supply.take('b', 1)]).toEqual([true, false])
    supply.giveBack('a', 100)
    expect(supply.take('b', 1)).toBe(true)
  })

  test('follows a limit that changes', () => {
    let limit = 1
    const supply = new Supply(() => limit)
    expect(takeAll(supply, 'a')).toBe(1)
    limit = 100
    expect(takeAll(supply, 'a')).toBe(89)
  })
})

describe('large answers', () => {
  /** Answers that grow until their end. Returns which of them may be read on. */
  function createAnswers(limit: number) {
    const memory = new Supply(() => limit)
    const answers = new LargeAnswers(memory)
    const begun: string[] = []
    const grow = (answer: LargeAnswer, bytes: number) =>
      void answers.grow(answer, bytes).then(() => begun.push(answer.key))
    const end = (answer: LargeAnswer) => {
      const { key } = answer
      memory.giveBack(key, answers.end(answer))
      answers.wake()
    }
    return { memory, answers, begun, grow, end }
  }

  test('wait for the memory of those before them, in their order', async () => {
    const { memory, answers, begun, grow, end } = createAnswers(100)
    const [a, b, c] = ['a', 'b', 'c'].map(key => answers.begin(key, {})) as [
      LargeAnswer,
      LargeAnswer,
      LargeAnswer,
    ]
    grow(a, 80)
    grow(b, 30)
    grow(c, 10)
    await Promise.resolve()
    // The third would fit. But many that are small must not keep a large one out.
    expect(begun).toEqual(['a'])
    end(a)
    await Promise.resolve()
    expect([begun, memory.used]).toEqual([['a', 'b', 'c'], 40])
  })

  test('end some time, however many of unknown length grow at once', async () => {
    const { memory, answers, begun, grow, end } = createAnswers(100)
    const open = Array.from({ length: 20 }, (_, i) => answers.begin(`${i}`, {}))
    for (const answer of open) grow(answer, 5)
    await Promise.resolve()
    expect(begun).toHaveLength(20)
    for (const answer of open) grow(answer, 40)
    for (let ended = 0; ended < 20; ended++) {
      await Promise.resolve()
      const done = open.find(({ bytes }) => bytes === 40)
      if (!done) throw new Error('None is read on')
      end(done)
    }
    expect(memory.used).toBe(0)
  })

  test('that have ended take nothing when there is memory for them', async () => {
    const { memory, answers, begun, grow, end } = createAnswers(100)
    const [a, b] = [answers.begin('a', {}), answers.begin('b', {})]
    grow(a, 100)
    grow(b, 100)
    end(b)
    end(a)
    await Promise.resolve()
    expect([begun, memory.used]).toEqual([['a', 'b'], 0])
  })
})

/** Turns of an event loop that the test ends itself. */
function createLoop() {
  let now = 0
  const ends: (() => void)[] = []
  const turns = new Turns({ now: () => now, onTurnEnd: next => void ends.push(next) })
  const endTurn = (milliseconds: number) => {
    now += milliseconds
    for (const end of ends.splice(0)) end()
  }
  return { turns, endTurn }
}

describe('turns', () => {
  test('let calls begin at once while few come', () => {
    const { turns, endTurn } = createLoop()
    for (let turn = 0; turn < 100; turn++) {
      expect(Array.from({ length: 32 }, () => turns.enter()).every(one => one === null)).toBe(true)
      endTurn(1)
    }
  })

  test('let the others begin in the order in which they came', async () => {
    const { turns, endTurn } = createLoop()
    const begun: number[] = []
    for (let call = 0; call < 2_000; call++) {
      const turn = turns.enter()
      if (turn === null) begun.push(call)
      else void turn.then(() => begun.push(call))
    }
    expect([begun.length, turns.size]).toEqual([32, 1_968])
    while (turns.size > 0) endTurn(5)
    await Promise.resolve()
    expect(begun).toEqual(Array.from({ length: 2_000 }, (_, call) => call))
  })

  test('O-02 have fewer calls once they take long, and more again', () => {
    const { turns, endTurn } = createLoop()
    const begin = (length: number) => {
      const before = turns.size
      endTurn(length)
      return before - turns.size
    }
    for (let call = 0; call < 5_000; call++) void turns.enter()
    expect(Array.from({ length: 5 }, () => begin(30))).toEqual([16, 8, 4, 4, 4])
    expect(Array.from({ length: 3 }, () => begin(10))).toEqual([12, 20, 28])
  })

  test('tell how long the first waits, without the time for which the process stood still', () => {
    const { turns, endTurn } = createLoop()
    for (let call = 0; call < 500; call++) void turns.enter()
    for (let turn = 0; turn < 4; turn++) endTurn(30)
    expect(turns.wait).toBe(120)
    endTurn(3_600_000)
    expect(turns.wait).toBe(620)
    endTurn(30)
    expect(turns.wait).toBe(650)
  })

  test('go on while many are refused in each of them', () => {
    const { turns, endTurn } = createLoop()
    for (let call = 0; call < 500; call++) void turns.enter()
    for (let turn = 0; turn < 9; turn++) {
      for (let refused = 0; refused < 1_000; refused++) turns.refuse()
      endTurn(500)
    }
    expect(turns.size).toBe(0)
  })
})

function createAdmission(limits: { memory?: number; in_flight?: number }) {
  const published: string[] = []
  let collected = 0
  const memory = { resident: 100 * MIB }
  const admission = new Admission({
    readLimits: () => limits,
    events: {
      publish: (name, value) => void published.push(`${name} ${JSON.stringify(value)}`),
    },
    collect: () => {
      collected += 1
      memory.resident = 100 * MIB
    },
    readResident: () => memory.resident,
    turns: { now: () => 0, onTurnEnd: () => undefined },
  })
  return { admission, published, memory, countCollections: () => collected }
}

const refusalOf = (work: () => unknown): unknown => {
  try {
    work()
    return null
  } catch (thrown) {
    const { status, retryAfter, metadata } = thrown as {
      status: number
      retryAfter: number
      metadata: object
    }
    return { status, retryAfter, ...metadata }
  }
}

describe('admission', () => {
  test('refuses calls above the limit, until one has ended', () => {
    const { admission } = createAdmission({ in_flight: 2 })
    const passes = [admission.admit('a', 10), admission.admit('b', 10)]
    expect(refusalOf(() => admission.admit('c', 10))).toEqual({
      status: 503,
      retryAfter: 1,
      overload: 'in_flight',
    })
    passes[0]?.end()
    passes[0]?.end()
    expect(refusalOf(() => admission.admit('c', 10))).toBeNull()
    expect(admission.calls.used).toBe(2)
  })

  test('refuses a body that does not fit with its copies, and keeps nothing of it', () => {
    const { admission } = createAdmission({ memory: 100 })
    const pass = admission.admit('a', 10 * MIB)
    expect(admission.memory.used).toBe(40 * MIB)
    expect(refusalOf(() => admission.admit('a', 20 * MIB))).toMatchObject({ overload: 'memory' })
    expect([admission.calls.used, admission.memory.used]).toEqual([1, 40 * MIB])
    pass.end()
    expect([admission.calls.used, admission.memory.used]).toEqual([0, 0])
  })

  test('takes more for a body without a length as it comes', () => {
    const { admission } = createAdmission({ memory: 100 })
    const [pass, other] = [admission.admit('a', Number.NaN), admission.admit('b', 10 * MIB)]
    for (const size of [0.1, 1, 8]) pass.take(size * MIB)
    expect(admission.memory.used).toBe(72 * MIB)
    expect(refusalOf(() => pass.take(16 * MIB))).toMatchObject({ overload: 'memory' })
    pass.end()
    other.end()
    expect(admission.memory.used).toBe(0)
  })

  test('has the memory of large bodies collected, and not that of small ones', () => {
    const { admission, memory, countCollections } = createAdmission({ memory: 1_000 })
    for (let call = 0; call < 1_000; call++) admission.admit('a', 1_000).end()
    expect(countCollections()).toBe(0)
    for (let call = 0; call < 26; call++) {
      memory.resident += 40 * MIB
      admission.admit('a', 10 * MIB).end()
    }
    expect(countCollections()).toBe(6)
  })

  test('has nothing collected where the process does not grow', () => {
    const { admission, memory, countCollections } = createAdmission({ memory: 1_000 })
    for (let call = 0; call < 40; call++) admission.admit('a', 10 * MIB).end()
    expect(countCollections()).toBe(1)
    memory.resident += 63 * MIB
    for (let call = 0; call < 40; call++) admission.admit('a', 10 * MIB).end()
    expect(countCollections()).toBe(1)
    memory.resident += MIB
    for (let call = 0; call < 4; call++) admission.admit('a', 10 * MIB).end()
    expect(countCollections()).toBe(2)
  })

  test('tells when an overload begins and when it is over', () => {
    const { admission, published } = createAdmission({ in_flight: 1 })
    admission.admit('a', 1)
    for (let call = 0; call < 3; call++) refusalOf(() => admission.admit('b', 1))
    admission.look()
    admission.look(performance.now() + 60_000)
    admission.look(performance.now() + 60_000)
    expect(published).toEqual([
      'overload.began {"reason":"in_flight"}',
      ...Array.from({ length: 3 }, () => 'call.shed {"reason":"in_flight"}'),
      'overload.ended {"refused":3}',
    ])
  })

  test('has given everything back once all calls have ended, whatever they took', () => {
    const random = createSeededRandom(7)
    const { admission } = createAdmission({ memory: 200, in_flight: 20 })
    const running: { end(): void; take(bytes: number): void }[] = []
    for (let step = 0; step < 20_000; step++) {
      const key = 'abcd'.charAt(Math.floor(random() * 4))
      const size = Math.floor(random() * 8 * MIB)
      if (random() < 0.5)
        refusalOf(() => running.push(admission.admit(key, random() < 0.2 ? Number.NaN : size)))
      else if (random() < 0.3) refusalOf(() => running.at(-1)?.take(size))
      else running.splice(Math.floor(random() * running.length), 1)[0]?.end()
      expect(admission.calls.used).toBe(running.length)
      expect(admission.calls.used).toBeLessThanOrEqual(20)
      expect(admission.memory.used).toBeLessThanOrEqual(200 * MIB)
    }
    for (const pass of running) pass.end()
    expect([admission.calls.used, admission.memory.used]).toEqual([0, 0])
  })
})
