import { expect, test } from 'bun:test'
import { hashUser } from '../../../src/translation/dialects/routing.ts'

test('an end user’s hash cannot collide by moving a letter from workspace to name', () => {
  expect(hashUser('w1', 'ada')).not.toBe(hashUser('w2', 'ada'))
  expect(hashUser('w1', 'ada')).toMatch(/^[0-9a-f]{64}$/)
})
