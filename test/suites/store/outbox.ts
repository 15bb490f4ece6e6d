import { expect, test } from 'bun:test'
import { entryOf, stepOf } from '../../support/generation.ts'
import { type Opened, typeOf } from './rows.ts'

/** Tests what every store promises about the outbox. */
export function outboxCases(store: Opened): void {
  const sequences = async (limit: number, after?: number) =>
    (await store().outbox.pending(limit, after)).map(({ sequence }) => sequence)
  const note = (payload: string, topic = 'traces') => ({ topic, payload })

  test('a message is read as recorded with its call, in every field, oldest first', async () => {
    const { generations, outbox } = store()
    expect(await outbox.pending(9)).toEqual([])
    await generations.record([
      { ...entryOf('a'), outbox: [note('{"a":“𝄞”}'), note('', `'; drop table outbox; --`)] },
      entryOf('b'),
      { ...stepOf('c', 2, { settled_at: '2026-03-04T06:00:00.000Z' }), outbox: [note('c')] },
      { ...entryOf('d'), outbox: [] },
    ])
    const created_at = '2026-03-04T05:06:08.000Z'
    expect(await outbox.pending(9)).toEqual([
      { sequence: 1, topic: 'traces', generation_id: 'a', payload: '{"a":“𝄞”}', created_at },
      {
        sequence: 2,
        topic: `'; drop table outbox; --`,
        generation_id: 'a',
        payload: '',
        created_at,
      },
      { sequence: 3, ...note('c'), generation_id: 'c', created_at: '2026-03-04T06:00:00.000Z' },
    ])
  })

  test('pages continue after a sequence number; removing a message twice is harmless', async () => {
    const { generations, outbox } = store()
    for (let i = 0; i < 5; i++)
      await generations.record([{ ...entryOf(`g${i}`), outbox: [note(String(i))] }])
    expect([await sequences(2), await sequences(2, 2), await sequences(9, 5)]).toEqual([
      [1, 2],
      [3, 4],
      [],
    ])
    await outbox.remove([])
    await outbox.remove([2, 5, 999])
    await outbox.remove([2])
    expect(await sequences(9)).toEqual([1, 3, 4])
    await outbox.remove([1, 3, 4])
    await generations.record([{ ...entryOf('later'), outbox: [note('later')] }])
    expect(await sequences(9)).toEqual([6])
  })

  test('a refused batch leaves no message and no gap in the numbers', async () => {
    const { generations } = store()
    await generations.record([{ ...entryOf('a'), outbox: [note('kept')] }])
    const fine = { ...entryOf('b'), outbox: [note('undone')] }
    for (const wrong of [
      entryOf('a'),
      stepOf('a', 1),
      stepOf('c', 1, { nanos: 2n ** 64n }),
      { generation: null, charge: null, outbox: [note('of nothing')] },
    ])
      expect(await typeOf(generations.record([fine, wrong]))).toBe('conflict')
    expect(await sequences(9)).toEqual([1])
    expect(await generations.byId('b')).toBeUndefined()
    await generations.record([fine])
    expect((await store().outbox.pending(9, 1)).map(({ payload }) => payload)).toEqual(['undone'])
  })
}
