import { afterEach, describe, expect, test } from 'bun:test'
import { GatewayError } from '../../src/base/errors.ts'
import { openEvents } from '../../src/base/events.ts'
import type { GenerationStore, RecorderEntry } from '../../src/observability/generations/store.ts'
import { openRecorder, type Recorder } from '../../src/observability/recorder.ts'
import { TestClock } from '../support/gateway.ts'
import { buildGeneration, buildRecordEntry } from '../support/generation.ts'
import { TestTimers } from '../support/timers.ts'

/** A store of which only `record` is used. */
const storeOf = (record: (batch: RecorderEntry[]) => Promise<void>): GenerationStore => ({
  record: async batch => {
    await record(batch)
    return []
  },
  keep: async () => [],
  flush: async () => undefined,
  evictBefore: async () => 0,
  byId: async () => undefined,
  list: async () => [],
  listIds: async () => [],
  filterRecorded: async () => new Set<string>(),
  countFreeCalls: async () => 0,
})

/**
 * Creates a recorder over a store that refuses while `fault` is set and takes as long as `answers`
 * say, one for each batch. Collects all published events.
 */
function bench({ clock }: { clock?: TestClock } = {}) {
  const state = {
    fault: null as Error | null,
    answers: [] as Promise<void>[],
    begun: [] as string[][],
    batches: [] as string[][],
    tries: 0,
    failures: 0,
  }
  const store = storeOf(async (batch: RecorderEntry[]) => {
    state.tries += 1
    if (state.fault) throw state.fault
    const ids = batch.map(({ generation }) => generation?.id ?? '')
    state.begun.push(ids)
    await state.answers.shift()
    state.batches.push(ids)
  })
  const events = openEvents()
  events.on('store.failing', () => {
    state.failures += 1
  })
  const ticks = clock ? clock.ticks : () => performance.now()
  opened = openRecorder(store, events, ticks)
  return { state, recorder: opened }
}

let opened: Recorder | undefined

afterEach(async () => {
  await opened?.flush()
  expect([opened?.healthy, opened?.listPending()]).toEqual([true, []])
})

const locked = new Error('database is locked')

describe('recorder', () => {
  test('a resolved record is in the store', async () => {
    const { state, recorder } = bench()
    await recorder.record(buildRecordEntry('a'))
    expect(state.batches).toEqual([['a']])
  })

  test('a text that a client or a provider wrote is text for every store and receiver', async () => {
    const { recorder } = bench()
    const no = 'a\0b\ud800c\ufffed😀'
    const generation = {
      ...buildGeneration(),
      ...{ session_id: no, user_agent: no, title: no, upstream_id: no, native_finish_reason: no },
      service_tier: no,
    }
    await recorder.record({ generation, charge: null })
    const text = 'a\ufffdb\ufffdc\ufffdd😀'
    expect(generation).toMatchObject({
      ...{ session_id: text, user_agent: text, title: text },
      ...{ upstream_id: text, native_finish_reason: text, service_tier: text },
    })
  })

  test('a record right after a written one is written too', async () => {
    const { state, recorder } = bench()
    await recorder.record(buildRecordEntry('a'))
    await recorder.record(buildRecordEntry('b'))
    expect(state.batches.flat()).toEqual(['a', 'b'])
  })

  test('calls that finish together share a batch, in their order', async () => {
    const { state, recorder } = bench()
    const ids = Array.from({ length: 300 }, (_, i) => `g${i}`)
    await Promise.all(ids.map(id => recorder.record(buildRecordEntry(id))))
    expect(state.batches.flat()).toEqual(ids)
    expect(state.batches.length).toBeLessThan(10)
  })

  test('calls that finish in one turn share a batch, also right after another', async () => {
    const { state, recorder } = bench()
    const ids = Array.from({ length: 10 }, (_, i) => `b${i}`)
    await recorder.record(buildRecordEntry('a'))
    for (const id of ids) {
      void recorder.record(buildRecordEntry(id))
      await Promise.resolve()
    }
    await recorder.flush()
    expect(state.batches).toEqual([['a'], ids])
  })

  test('O-06 a flood is written in bounded batches, in order', async () => {
    const { state, recorder } = bench()
    const ids = Array.from({ length: 3_000 }, (_, i) => `g${i}`)
    await Promise.all(ids.map(id => recorder.record(buildRecordEntry(id))))
    expect(state.batches.flat()).toEqual(ids)
    expect(Math.max(...state.batches.map(batch => batch.length))).toBeLessThanOrEqual(1_000)
  })

  test('a locked store is retried until it has each record once and in order', async () => {
    const { state, recorder } = bench()
    state.fault = locked
    const recording = Promise.all([
      recorder.record(buildRecordEntry('a')),
      recorder.record(buildRecordEntry('b')),
    ])
    await Bun.sleep(20)
    const late = recorder.record(buildRecordEntry('c'))
    expect(state.batches).toEqual([])
    state.fault = null
    await Promise.all([recording, late])
    expect(state.batches.flat()).toEqual(['a', 'b', 'c'])
    expect(state.tries).toBeGreaterThan(1)
    expect(state.tries).toBeLessThan(20)
  })

  test('a failing store is reported once, not on every try', async () => {
    const { state, recorder } = bench()
    state.fault = locked
    const recording = recorder.record(buildRecordEntry('a'))
    await Bun.sleep(30)
    expect(state.failures).toBe(1)
    state.fault = null
    await recording
    await Bun.sleep(5)
    state.fault = locked
    const again = recorder.record(buildRecordEntry('b'))
    await Bun.sleep(30)
    expect(state.failures).toBe(2)
    state.fault = null
    await again
  })

  test('a store stalled for a second makes the gateway refuse work until it recovers', async () => {
    const clock = new TestClock()
    const { state, recorder } = bench({ clock })
    state.fault = new Error('disk full')
    const recording = recorder.record(buildRecordEntry('a'))
    await Bun.sleep(10)
    expect(recorder.healthy).toBe(true)
    clock.pass(1_100)
    expect(recorder.healthy).toBe(false)
    state.fault = null
    await recording
    expect(recorder.healthy).toBe(true)
  })

  test('a caller that waits too long gets an error, and the record is written once', async () => {
    const clock = new TestClock()
    const { state, recorder } = bench({ clock })
    state.fault = new Error('disk full')
    const recording = recorder
      .record(buildRecordEntry('a'))
      .catch(thrown => GatewayError.from(thrown).status)
    await Bun.sleep(10)
    clock.pass(60_000)
    expect(await recording).toBe(503)
    state.fault = null
    await recorder.flush()
    expect(state.batches).toEqual([['a']])
  })

  test('flush waits for pending records', async () => {
    const { state, recorder } = bench()
    void recorder.record(buildRecordEntry('a'))
    await recorder.flush()
    expect(state.batches).toEqual([['a']])
    await recorder.flush()
  })

  test('a batch waits for the one before, and order is kept', async () => {
    const { state, recorder } = bench()
    const gates = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
    state.answers = gates.map(({ promise }) => promise)
    const first = recorder.record(buildRecordEntry('a'))
    await Bun.sleep(5)
    const others = ['b', 'c'].map(id => recorder.record(buildRecordEntry(id)))
    await Bun.sleep(5)
    expect(state.begun).toEqual([['a']])
    gates[0]?.resolve()
    await first
    await Bun.sleep(5)
    expect(state.begun).toEqual([['a'], ['b', 'c']])
    gates[1]?.resolve()
    await Promise.all(others)
    expect(state.batches).toEqual([['a'], ['b', 'c']])
  })

  test('a store that does not answer is treated like one that refuses', async () => {
    const clock = new TestClock()
    const { state, recorder } = bench({ clock })
    const gate = Promise.withResolvers<void>()
    state.answers = [gate.promise]
    const recording = recorder
      .record(buildRecordEntry('a'))
      .catch(thrown => GatewayError.from(thrown).status)
    await Bun.sleep(5)
    clock.pass(60_000)
    expect(recorder.healthy).toBe(false)
    expect(await recording).toBe(503)
    gate.resolve()
    await recorder.flush()
    expect(state.batches).toEqual([['a']])
    expect(recorder.healthy).toBe(true)
  })

  test('a lock during one-by-one writing delays records, each once and in order', async () => {
    const taken: string[] = []
    let isLocked = false
    const store = storeOf(async batch => {
      const ids = batch.map(({ generation }) => generation?.id ?? '')
      if (ids.includes('poison')) throw new GatewayError('conflict', 'No')
      if (isLocked) throw locked
      taken.push(...ids)
      if (taken.length === 2) isLocked = true
    })
    const recorder = openRecorder(store, openEvents(), () => performance.now())
    opened = recorder
    const outcomes = ['a', 'b', 'poison', 'c', 'd'].map(id =>
      recorder.record(buildRecordEntry(id)).then(
        () => id,
        () => 'refused',
      ),
    )
    await Bun.sleep(20)
    const late = recorder.record(buildRecordEntry('e'))
    expect(taken).toEqual(['a', 'b'])
    isLocked = false
    expect(await Promise.all(outcomes)).toEqual(['a', 'b', 'refused', 'c', 'd'])
    await late
    expect(taken).toEqual(['a', 'b', 'c', 'd', 'e'])
  })

  test('a record that the store can never accept does not block the others', async () => {
    const taken: string[] = []
    const refused = new GatewayError('conflict', 'This call cannot be recorded')
    const store = storeOf(async batch => {
      const ids = batch.map(({ generation }) => generation?.id ?? '')
      if (ids.includes('poison')) throw refused
      taken.push(...ids)
    })
    const recorder = openRecorder(store, openEvents(), () => performance.now())
    opened = recorder
    const poisoned = recorder
      .record({ generation: buildGeneration({ id: 'poison' }), charge: null })
      .catch(thrown => GatewayError.from(thrown).type)
    const recording = Promise.all(['a', 'b'].map(id => recorder.record(buildRecordEntry(id))))
    await recording
    expect(taken).toEqual(['a', 'b'])
    expect(await poisoned).toBe('conflict')
  })

  test('asks a locked store ever less often, and after an answer as often as before', async () => {
    const timers = new TestTimers()
    try {
      const { state, recorder } = bench({ clock: timers })
      for (const id of ['a', 'b']) {
        state.tries = 0
        state.fault = locked
        const record = recorder.record(buildRecordEntry(id)).catch(() => undefined)
        // After 0, 5, 15, 35, 75, 155, 315 and 635 milliseconds, and then twice a second.
        await timers.passSeconds(0.7, 0.005)
        expect(state.tries).toBe(8)
        await timers.passSeconds(2, 0.005)
        expect(state.tries).toBe(12)
        state.fault = null
        await timers.passSeconds(0.5, 0.005)
        await record
      }
      expect(state.batches).toEqual([['a'], ['b']])
    } finally {
      timers.stop()
    }
  })

  test('is healthy again once the last record was refused', async () => {
    const clock = new TestClock()
    const { state, recorder } = bench({ clock })
    state.fault = new GatewayError('conflict', 'This call cannot be recorded')
    await recorder.record(buildRecordEntry('poison')).catch(() => undefined)
    await recorder.flush()
    clock.pass(10_000)
    expect([recorder.healthy, recorder.listPending()]).toEqual([true, []])
  })

  test('is not healthy while the store holds a record that follows others of its batch', async () => {
    const clock = new TestClock()
    const held = Promise.withResolvers<void>()
    const begun = Promise.withResolvers<void>()
    const store = storeOf(async batch => {
      if (batch.length > 1) throw new GatewayError('conflict', 'One of them cannot be recorded')
      clock.pass(900)
      if (batch[0]?.generation?.id !== 'b') return
      begun.resolve()
      await held.promise
    })
    const recorder = openRecorder(store, openEvents(), clock.ticks)
    const records = ['a', 'b'].map(id => recorder.record(buildRecordEntry(id)))
    await begun.promise
    // Each of the two has been asked for less than a second.
    expect(recorder.healthy).toBe(true)
    clock.pass(100)
    expect(recorder.healthy).toBe(false)
    held.resolve()
    await Promise.all(records)
    await recorder.flush()
    expect(recorder.healthy).toBe(true)
  })
})
