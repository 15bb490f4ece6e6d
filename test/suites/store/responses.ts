import { expect, test } from 'bun:test'
import type { StoredResponse } from '../../../src/resources/responses/store.ts'
import { buildAuditEntry } from '../../support/audit.ts'
import { type GetStore, readErrorType, WORKSPACE } from './rows.ts'

const TIME = '2026-03-04T05:06:07.000Z'

const buildResponse = (id: string, more: Partial<StoredResponse> = {}): StoredResponse => ({
  ...{ id, workspace_id: WORKSPACE, key_hash: 'k', status: 'completed', created_at: TIME },
  ...{ size_bytes: 5_000, sealed: 'x' },
  ...more,
})

const take = () => undefined

/** Tests what every store promises about responses that are gone on from. */
export function testResponses(store: GetStore): void {
  test('a response is found as it was inserted, and by its items, of its key alone', async () => {
    const { responses } = store()
    await responses.insert(buildResponse('a'), ['m1', 'm2'], take)
    await responses.insert(buildResponse('b', { key_hash: 'other' }), ['m1'], take)
    await responses.insert(buildResponse('c'), ['m2', 'm3'], take)
    expect(await responses.find('a')).toEqual(buildResponse('a'))
    const find = async (key: string, item: string) => (await responses.findByItem(key, item))?.id
    expect([await find('k', 'm1'), await find('other', 'm1')]).toEqual(['a', 'b'])
    expect([await find('k', 'm2'), await find('k', 'm4')]).toEqual(['c', undefined])
    await responses.remove('a', buildAuditEntry())
    expect([await responses.find('a'), await find('k', 'm1')]).toEqual([undefined, undefined])
    expect(await find('k', 'm2')).toBe('c')
    expect(await readErrorType(responses.remove('a', buildAuditEntry()))).toBe('not_found')
  })

  test('one that is made ends once, whatever ends it', async () => {
    const { responses } = store()
    await responses.insert(buildResponse('a', { status: 'queued' }), [], take)
    const end = (status: StoredResponse['status']) =>
      responses.end({ id: 'a', status, size_bytes: 9, sealed: status }, ['m1'], null)
    expect([await end('cancelled'), await end('completed')]).toEqual([true, false])
    expect(await responses.find('a')).toMatchObject({ status: 'cancelled', sealed: 'cancelled' })
    expect((await responses.findByItem('k', 'm1'))?.id).toBe('a')
    await responses.remove('a', buildAuditEntry())
    expect(await end('completed')).toBe(false)
  })

  test('what a workspace takes is judged in whole blocks, in the transaction', async () => {
    const { responses } = store()
    const seen: number[] = []
    const note = (used: number) => void seen.push(used)
    await responses.insert(buildResponse('a'), [], note)
    await responses.insert(buildResponse('b', { size_bytes: 1 }), [], note)
    const refuse = responses.insert(buildResponse('c'), ['m'], used => {
      throw new Error(String(used))
    })
    await expect(refuse).rejects.toThrow('12288')
    expect(seen).toEqual([0, 8_192])
    expect([await responses.find('c'), await responses.findByItem('k', 'm')]).toEqual([
      undefined,
      undefined,
    ])
    expect(await responses.computeUse(WORKSPACE)).toBe(12_288)
    const stray = responses.insert(buildResponse('d', { workspace_id: 'none' }), [], take)
    expect(await readErrorType(stray)).toBe('invalid_request')
  })

  test('those from before a time are removed with their items, and counted', async () => {
    const { responses, evictions } = store()
    await responses.insert(buildResponse('a'), ['m1', 'm2', 'm3'], take)
    await responses.insert(buildResponse('b', { created_at: '2026-03-05T00:00:00.000Z' }), [], take)
    const remove = () => responses.removeBefore('2026-03-05T00:00:00.000Z', TIME)
    expect([await remove(), await remove()]).toEqual([1, 0])
    expect([await responses.find('a'), (await responses.find('b'))?.id]).toEqual([undefined, 'b'])
    expect(await evictions.all()).toEqual([
      { kind: 'responses', reason: 'age', rows: 1, last_at: TIME },
    ])
  })
}
