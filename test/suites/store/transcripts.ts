import { expect, test } from 'bun:test'
import type { StoredTranscript } from '../../../src/observability/generations/store.ts'
import type { RefusalFilter } from '../../../src/observability/refusals.ts'
import { buildAuditEntry } from '../../support/audit.ts'
import { buildGeneration, buildRecordEntry, buildStepCharge } from '../../support/generation.ts'
import { type GetStore, readErrorType, WORKSPACE } from './rows.ts'

const NOW = '2026-05-01T00:00:00.000Z'

const buildTranscript = (id: string, more: Partial<StoredTranscript> = {}): StoredTranscript => ({
  generation_id: id,
  workspace_id: WORKSPACE,
  key_hash: 'k',
  created_at: '2026-03-04T05:06:07.000Z',
  size_bytes: 100,
  sealed: 'x'.repeat(100),
  ...more,
})

/** Builds a call that was settled at noon of a day of March, with its charge and its content. */
const buildEntry = (id: string, day: number, nanos: bigint, model = 'acme/small') => {
  const settled_at = `2026-03-${`${day}`.padStart(2, '0')}T12:00:00.000Z`
  return {
    generation: buildGeneration({
      ...{ id, settled_at, model, created_at: settled_at },
      ...{ total_cost: nanos, upstream_inference_cost: nanos },
    }),
    charge: buildStepCharge({ id, settled_at, nanos, day: 20_512 + day }),
    transcript: buildTranscript(id, { created_at: settled_at }),
  }
}

/** Tests what every store promises about content, feedback and the removal of rows. */
export function testTranscripts(store: GetStore): void {
  test('content comes with its call, is counted, and is removed for good', async () => {
    const { generations, transcripts } = store()
    await generations.record([{ ...buildRecordEntry('a'), transcript: buildTranscript('a') }])
    expect(await transcripts.find('a')).toEqual(buildTranscript('a'))
    expect([await transcripts.find('b'), await transcripts.computeUse()]).toEqual([undefined, 100])
    await transcripts.remove('a', buildAuditEntry())
    expect([await transcripts.find('a'), await transcripts.computeUse()]).toEqual([undefined, 0])
    expect(await readErrorType(transcripts.remove('a', buildAuditEntry()))).toBe('not_found')
  })

  test('the oldest content makes room, and is counted as removed', async () => {
    const { generations, transcripts, evictions } = store()
    for (const id of ['a', 'b', 'c', 'd'])
      await generations.record([{ ...buildRecordEntry(id), transcript: buildTranscript(id) }])
    expect(await transcripts.trim(400, NOW)).toBe(0)
    expect(await transcripts.trim(250, NOW)).toBe(2)
    expect([await transcripts.find('b'), await transcripts.computeUse()]).toEqual([undefined, 200])
    expect((await transcripts.find('c'))?.generation_id).toBe('c')
    expect(await transcripts.trim(0, NOW)).toBe(2)
    expect(await evictions.all()).toEqual([
      { kind: 'content', reason: 'size', rows: 4, last_at: NOW },
    ])
  })

  test('content from before a time is removed', async () => {
    const { generations, transcripts } = store()
    await generations.record([buildEntry('a', 1, 1n), buildEntry('b', 2, 2n)])
    expect(await transcripts.removeBefore('2026-03-02T00:00:00.000Z', NOW)).toBe(1)
    expect(await transcripts.removeBefore('2026-03-02T00:00:00.000Z', NOW)).toBe(0)
    expect([await transcripts.find('a'), (await transcripts.find('b'))?.generation_id]).toEqual([
      undefined,
      'b',
    ])
  })

  test('calls that are removed leave their sums, and charges still match', async () => {
    const { generations, rollups, transcripts, feedback, evictions, ledger } = store()
    const big = 9_007_199_254_740_993n
    await generations.record([
      buildEntry('a', 1, 1n),
      buildEntry('b', 1, big, 'acme/large'),
      buildEntry('c', 2, 4n),
      buildEntry('d', 3, 8n),
    ])
    await feedback.put(
      {
        ...{ generation_id: 'a', key_hash: 'k', user_id: '', category: 'other', comment: null },
        created_at: NOW,
      },
      buildAuditEntry(),
    )
    const days = { grain: 'day' as const, from: 0, until: 100_000, isByTime: true, conditions: [] }
    const sums = () => rollups.sum({ ...days, by: ['key_hash', 'model', 'provider_name'] })
    expect(await generations.evictBefore('2026-03-03T00:00:00.000Z', NOW)).toBe(0)
    expect(await rollups.advance(9)).toBe(4)
    const before = await sums()
    expect(await generations.evictBefore('2026-03-03T00:00:00.000Z', NOW)).toBe(3)
    expect(await generations.evictBefore('2026-03-03T00:00:00.000Z', NOW)).toBe(0)
    expect(await sums()).toEqual(before)
    expect((await ledger.inspect(() => undefined)).unmatched).toEqual([])
    expect((await generations.list({}, 9)).map(({ id }) => id)).toEqual(['d'])
    expect([await transcripts.find('a'), await feedback.list('a')]).toEqual([undefined, []])
    expect(await evictions.all()).toEqual([
      { kind: 'generations', reason: 'age', rows: 3, last_at: NOW },
    ])
    expect(await rollups.verify()).toEqual([])
    expect(rollups.reset()).rejects.toThrow('no longer on record')
    // The last one stays, whatever its age: the number of its row is not given again.
    expect(await generations.evictBefore('2026-04-01T00:00:00.000Z', NOW)).toBe(0)
  })

  test('a key has one opinion for each category', async () => {
    const { feedback } = store()
    const one = {
      generation_id: 'a',
      key_hash: 'k',
      user_id: '',
      category: 'billing',
      comment: 'x',
      created_at: NOW,
    }
    await feedback.put(one, buildAuditEntry())
    await feedback.put({ ...one, comment: null }, buildAuditEntry({ id: 'second' }))
    await feedback.put({ ...one, category: 'other' }, buildAuditEntry({ id: 'third' }))
    expect(await feedback.list('a')).toEqual([
      { ...one, comment: null },
      { ...one, category: 'other' },
    ])
    expect(await feedback.list('b')).toEqual([])
    const ada = { ...one, generation_id: 'c', key_hash: '', user_id: 'ada' }
    const bob = { ...ada, user_id: 'bob', created_at: '2027-01-01T00:00:00.000Z' }
    for (const said of [{ ...ada, comment: 'first' }, bob, ada])
      await feedback.put(said, buildAuditEntry())
    expect(await feedback.list('c')).toEqual([ada, bob])
  })

  const refusal = {
    ...{ id: 'r', path: '/', status: 401, error_type: 'authentication', message: 'no' },
    ...{ key: null, key_hash: null, workspace_id: null, model: null },
  }

  test('old refusals are removed', async () => {
    const { refusals } = store()
    const times = ['2026-03-01T00:00:00.000Z', '2026-03-02T00:00:00.000Z']
    await refusals.add(
      times.map((created_at, i) => ({ ...refusal, id: `r${i}`, created_at })),
      [],
      9,
    )
    expect(await refusals.removeBefore('2026-03-02T00:00:00.000Z', NOW)).toBe(1)
    expect((await refusals.list(9)).map(({ id }) => id)).toEqual(['r1'])
  })

  test('the newest refusals stay, are found by what they have, and count those like them', async () => {
    const { refusals } = store()
    const added = ['a', 'b', 'c', 'd', 'e'].map((id, i) => ({
      ...{ ...refusal, id, created_at: NOW, status: i < 3 ? 404 : 502 },
      key_hash: i % 2 === 0 ? 'k' : null,
    }))
    await refusals.add(added.slice(0, 2), [], 4)
    await refusals.add(added.slice(2), [], 4)
    const count = { left_out: 7, left_out_until: '2026-03-09T00:00:00.000Z' }
    await refusals.add([], [{ id: 'c', created_at: NOW, ...count }], 4)
    const find = async (filter?: RefusalFilter, limit = 9) =>
      (await refusals.list(limit, filter)).map(({ id }) => id).join('')
    expect([await find(), await find({}, 2)]).toEqual(['edcb', 'ed'])
    const [, second] = await refusals.list(2)
    const sequence = second?.sequence ?? 0
    const found: [RefusalFilter, string][] = [
      [{ id: 'c' }, 'c'],
      [{ key_hash: 'k' }, 'ec'],
      [{ status: 502 }, 'ed'],
      [{ status: '4xx' }, 'cb'],
      [{ status: '5xx', key_hash: 'k' }, 'e'],
      [{ before: sequence }, 'cb'],
      [{ after: sequence }, 'e'],
    ]
    for (const [filter, ids] of found) expect([filter, await find(filter)]).toEqual([filter, ids])
    expect((await refusals.list(9, { id: 'c' }))[0]).toMatchObject(count)
    expect((await refusals.list(9, { id: 'd' }))[0]?.left_out).toBe(0)
  })
}
