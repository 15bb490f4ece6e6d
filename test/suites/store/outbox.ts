import { expect, test } from 'bun:test'
import { buildRecordEntry, buildStepEntry } from '../../support/generation.ts'
import { type GetStore, readErrorType } from './rows.ts'

/** Tests what every store promises about the outbox. */
export function testOutbox(store: GetStore): void {
  const sequences = async (limit: number, after?: number) =>
    (await store().outbox.listPending(limit, after)).map(({ sequence }) => sequence)
  const note = (payload: string, topic = 'traces') => ({ topic, payload })

  test('a message is read as recorded with its call, in every field, oldest first', async () => {
    const { generations, outbox } = store()
    expect(await outbox.listPending(9)).toEqual([])
    await generations.record([
      {
        ...buildRecordEntry('a'),
        outbox: [note('{"a":“𝄞”}'), note('', `'; drop table outbox; --`)],
      },
      buildRecordEntry('b'),
      {
        ...buildStepEntry('c', 2, { settled_at: '2026-03-04T06:00:00.000Z' }),
        outbox: [note('c')],
      },
      { ...buildRecordEntry('d'), outbox: [] },
    ])
    const created_at = '2026-03-04T05:06:08.000Z'
    expect(await outbox.listPending(9)).toEqual([
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
      await generations.record([{ ...buildRecordEntry(`g${i}`), outbox: [note(String(i))] }])
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
    await generations.record([{ ...buildRecordEntry('later'), outbox: [note('later')] }])
    expect(await sequences(9)).toEqual([6])
  })

  test('a refused batch leaves no message and no gap in the numbers', async () => {
    const { generations } = store()
    await generations.record([{ ...buildRecordEntry('a'), outbox: [note('kept')] }])
    const fine = { ...buildRecordEntry('b'), outbox: [note('undone')] }
    for (const wrong of [
      buildRecordEntry('a'),
      buildStepEntry('a', 1),
      buildStepEntry('c', 1, { nanos: 2n ** 64n }),
      { generation: null, charge: null, outbox: [note('of nothing')] },
    ])
      expect(await readErrorType(generations.record([fine, wrong]))).toBe('conflict')
    expect(await sequences(9)).toEqual([1])
    expect(await generations.byId('b')).toBeUndefined()
    await generations.record([fine])
    expect((await store().outbox.listPending(9, 1)).map(({ payload }) => payload)).toEqual([
      'undone',
    ])
  })
}
