import { expect, test } from 'bun:test'
import { hashLedgerRow, type LedgerRow } from '../../src/limits/chain.ts'

const row: Omit<LedgerRow, 'seq' | 'hash'> = {
  id: 'gen-1',
  step: 1,
  settled_at: '2026-03-04T05:06:08.000Z',
  key_hash: 'k',
  user_id: 'user_1',
  workspace_id: 'w',
  byok: false,
  nanos: 4_500n,
  source: 'exact',
}

// Recorded when rows had no steps: data directories of that time have such chains.
const FIRST = '55521ad4cc465a21548253d1dddb536c5a4ef64dfc4388683d3d0dd29d11a6b9'
const SECOND = '61d69590aefb5f7e600c3b3b50a6a4b24e3ba8fdb789c2264382996574029ce3'

test('a chain of one-step calls is the same as before steps existed', () => {
  expect(hashLedgerRow('', row)).toBe(FIRST)
  const second = {
    ...row,
    id: 'gen-2',
    byok: true,
    nanos: 2n ** 63n - 1n,
    source: 'opening',
  } as const
  expect(hashLedgerRow(FIRST, second)).toBe(SECOND)
})

test('the hash of a row covers every field, including the step', () => {
  const others: Partial<LedgerRow>[] = [
    ...[
      { id: 'x' },
      { step: 2 },
      { step: 3 },
      { settled_at: 'x' },
      { key_hash: 'x' },
      { user_id: 'x' },
    ],
    ...[{ workspace_id: 'x' }, { byok: true }, { nanos: 4_501n }, { source: 'estimated' as const }],
  ]
  const hashes = [
    hashLedgerRow('', row),
    hashLedgerRow('x', row),
    ...others.map(other => hashLedgerRow('', { ...row, ...other })),
  ]
  expect(new Set(hashes).size).toBe(hashes.length)
})
