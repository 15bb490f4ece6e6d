import { expect, test } from 'bun:test'
import { choiceAt, Garbage } from '../../../src/core/protocols/bounds.ts'

test('an alternative is known by its index, or by its position where it has none', () => {
  expect([choiceAt(2, 0), choiceAt(undefined, 1), choiceAt('2', 1), choiceAt(127, 0)]).toEqual([2, 1, 1, 127])
  expect([choiceAt(-1, 0), choiceAt(1.5, 0), choiceAt(Number.NaN, 0), choiceAt(128, 0), choiceAt(null, 128)]).toEqual(
    Array(5).fill(undefined),
  )
})

test('twenty events that nobody can read are passed over, one more ends the stream', () => {
  const garbage = new Garbage()
  for (let i = 0; i < 20; i++) expect(garbage.pass()).toEqual([])
  expect(() => garbage.pass()).toThrow(expect.objectContaining({ type: 'provider_unavailable' }))
})
