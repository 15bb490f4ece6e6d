import { describe, expect, test } from 'bun:test'
import { findLatestAliases } from '../../../scripts/catalog/latest.ts'
import type { PiModel } from '../../../scripts/catalog/sources.ts'

const model = (id: string, input = 1, output = 2): PiModel => ({
  type: 'chat',
  id,
  name: id,
  input: ['text'],
  cost: { input, output },
})
const aliases = (listed: PiModel[], known = listed.map(one => one.id)) =>
  findLatestAliases(listed, new Set(known))

describe('a latest alias', () => {
  test('is the highest version of its family, and of no other', () => {
    const listed = [
      model('~a/big-flash-latest'),
      model('a/big-3.8-flash'),
      model('a/big-3.10-flash'),
      model('a/big-4-flash'),
      model('a/big-9-flash-lite'),
      model('b/big-9-flash'),
    ]
    expect(aliases(listed)).toEqual([['~a/big-flash-latest', 'a/big-4-flash']])
  })

  test('has no target where the prices differ', () => {
    expect(aliases([model('~a/big-latest', 5), model('a/big-4', 1)])).toEqual([])
  })

  test('has no target where the family is not in the catalogue', () => {
    expect(aliases([model('~a/big-latest'), model('a/big-4')], [])).toEqual([])
  })
})
