import { describe, expect, test } from 'bun:test'
import type { SequenceEnding } from '../../src/base/iterate.ts'
import { withCleanup } from '../../src/engine/infer.ts'

interface Told {
  seen: number[]
  endings: SequenceEnding[]
  closed: number
}

/** Creates a sequence that may end in a failure, and records what its hooks see. */
function watched(
  first: number,
  rest: number[] | null,
  { fails, last }: { fails?: Error; last?: number } = {},
) {
  const told: Told = { seen: [], endings: [], closed: 0 }
  const steps = rest?.values()
  const source: AsyncIterator<number> | null = steps
    ? {
        async next() {
          const step = steps.next()
          if (step.done && fails) throw fails
          return step
        },
        async return() {
          told.closed += 1
          return { done: true, value: undefined }
        },
      }
    : null
  const sequence = withCleanup(
    { first, rest: source },
    {
      onItem: item => void told.seen.push(item),
      onEnd: async ending => {
        told.endings.push(ending)
        return last
      },
    },
  )
  return { sequence, told }
}

describe('withCleanup', () => {
  test('who leaves while a failure is handled waits until it is', async () => {
    const { promise: handled, resolve } = Promise.withResolvers<undefined>()
    const failing = { next: () => Promise.reject(new Error('gone')) }
    const hooks = { onItem: () => undefined, onEnd: () => handled }
    const sequence = withCleanup<number>({ first: 1, rest: failing }, hooks)
    await sequence.next()
    const reading = sequence.next()
    const order: string[] = []
    const leaving = Promise.resolve()
      .then(() => sequence.return?.())
      .then(() => order.push('left'))
    setImmediate(() => {
      order.push('handled')
      resolve(undefined)
    })
    await Promise.all([reading, leaving])
    expect(order).toEqual(['handled', 'left'])
  })

  test('returns every item, passes each to the hook, and reports the end once', async () => {
    const { sequence, told } = watched(1, [2, 3])
    expect(await Array.fromAsync(sequence)).toEqual([1, 2, 3])
    expect(told).toEqual({ seen: [1, 2, 3], endings: [{ type: 'completed' }], closed: 0 })
  })

  test('the first item may be the only one', async () => {
    const { sequence, told } = watched(1, null)
    expect(await Array.fromAsync(sequence)).toEqual([1])
    expect(told.endings).toEqual([{ type: 'completed' }])
  })

  test('the last item of the hook comes after all others and is not passed to it', async () => {
    const { sequence, told } = watched(1, [2], { last: 99 })
    expect(await Array.fromAsync(sequence)).toEqual([1, 2, 99])
    expect(told.seen).toEqual([1, 2])
  })

  test('an item reaches the hook before its reader, and only when requested', async () => {
    const { sequence, told } = watched(1, [2])
    expect(told.seen).toEqual([])
    await sequence.next()
    expect(told.seen).toEqual([1])
  })

  test('a failure is reported and ends the sequence with the last item', async () => {
    const thrown = new Error('broken')
    const { sequence, told } = watched(1, [2], { fails: thrown, last: 99 })
    expect(await Array.fromAsync(sequence)).toEqual([1, 2, 99])
    expect(told.endings).toEqual([{ type: 'failed', thrown }])
  })

  test('a hook that throws ends the sequence as failed', async () => {
    const endings: SequenceEnding[] = []
    const thrown = new Error('not mine')
    const sequence = withCleanup<number>(
      { first: 1, rest: null },
      {
        onItem: () => {
          throw thrown
        },
        onEnd: async ending => void endings.push(ending),
      },
    )
    expect(await Array.fromAsync(sequence)).toEqual([])
    expect(endings).toEqual([{ type: 'failed', thrown }])
  })

  test('leaving before the first read closes the source and reports the end once', async () => {
    const { sequence, told } = watched(1, [2, 3])
    expect(await sequence.return?.()).toEqual({ done: true, value: undefined })
    expect(told).toEqual({ seen: [], endings: [{ type: 'abandoned' }], closed: 1 })
  })

  test('leaving in the middle, even twice, reports the end once', async () => {
    const { sequence, told } = watched(1, [2, 3], { last: 99 })
    for await (const _ of sequence) break
    await sequence.return?.()
    expect(await sequence.next()).toEqual({ done: true, value: undefined })
    expect(told).toEqual({ seen: [1], endings: [{ type: 'abandoned' }], closed: 1 })
  })

  test('leaving after the end reports nothing more', async () => {
    const { sequence, told } = watched(1, [])
    await Array.fromAsync(sequence)
    await sequence.return?.()
    expect(told).toEqual({ seen: [1], endings: [{ type: 'completed' }], closed: 0 })
  })

  test('leaving during a read ends that read, and its late result is dropped', async () => {
    const told: Told = { seen: [], endings: [], closed: 0 }
    const { promise, resolve } = Promise.withResolvers<IteratorResult<number>>()
    const rest: AsyncIterator<number> = {
      next: () => promise,
      return: async () => {
        told.closed += 1
        resolve({ done: false, value: 2 })
        return { done: true, value: undefined }
      },
    }
    const sequence = withCleanup(
      { first: 1, rest },
      {
        onItem: item => void told.seen.push(item),
        onEnd: async ending => void told.endings.push(ending),
      },
    )
    await sequence.next()
    const waiting = sequence.next()
    await sequence.return?.()
    expect(await waiting).toEqual({ done: true, value: undefined })
    expect(told).toEqual({ seen: [1], endings: [{ type: 'abandoned' }], closed: 1 })
  })

  test('a source that fails because its reader left does not count as failed', async () => {
    const endings: SequenceEnding[] = []
    const { promise, reject } = Promise.withResolvers<IteratorResult<number>>()
    const rest: AsyncIterator<number> = {
      next: () => promise,
      return: async () => {
        reject(new Error('aborted'))
        return { done: true, value: undefined }
      },
    }
    const sequence = withCleanup(
      { first: 1, rest },
      { onItem: () => undefined, onEnd: async ending => void endings.push(ending) },
    )
    await sequence.next()
    const waiting = sequence.next()
    await sequence.return?.()
    expect(await waiting).toEqual({ done: true, value: undefined })
    expect(endings).toEqual([{ type: 'abandoned' }])
  })
})

describe('collect', () => {
  test('returns everything at once, with the same hooks as single reads', async () => {
    const { sequence, told } = watched(1, [2, 3], { last: 99 })
    expect(await sequence.collect()).toEqual([1, 2, 3, 99])
    expect(told).toEqual({ seen: [1, 2, 3], endings: [{ type: 'completed' }], closed: 0 })
  })

  test('returns the only item of a sequence and the last item of the hook', async () => {
    const { sequence, told } = watched(1, null, { last: 99 })
    expect(await sequence.collect()).toEqual([1, 99])
    expect(told).toEqual({ seen: [1], endings: [{ type: 'completed' }], closed: 0 })
    expect(await sequence.next()).toEqual({ done: true, value: undefined })
    await sequence.return?.()
    expect(told.endings).toHaveLength(1)
  })

  test('returns the remaining items after some reads, and nothing after leaving', async () => {
    const { sequence } = watched(1, [2, 3])
    await sequence.next()
    expect(await sequence.collect()).toEqual([2, 3])
    const { sequence: left } = watched(1, null)
    await left.return?.()
    expect(await left.collect()).toEqual([])
  })

  test('reports a hook that throws on the only item', async () => {
    const endings: SequenceEnding[] = []
    const thrown = new Error('not mine')
    const onItem = () => {
      throw thrown
    }
    const sequence = withCleanup<number>(
      { first: 1, rest: null },
      { onItem, onEnd: async ending => void endings.push(ending) },
    )
    await sequence.collect().catch(() => undefined)
    expect(endings).toEqual([{ type: 'failed', thrown }])
  })
})

test('who leaves while the end runs waits until it has run', async () => {
  const { promise: ended, resolve: end } = Promise.withResolvers<undefined>()
  const rest = { next: () => Promise.reject(new Error('cut')) }
  const sequence = withCleanup<number>(
    { first: 1, rest },
    { onItem: () => undefined, onEnd: () => ended },
  )
  await sequence.next()
  const step = sequence.next()
  await Promise.resolve()
  await Promise.resolve()
  let hasLeft = false
  const leaving = sequence.return?.().then(() => {
    hasLeft = true
  })
  await Bun.sleep(0)
  expect(hasLeft).toBe(false)
  end(undefined)
  await Promise.all([leaving, step])
})
