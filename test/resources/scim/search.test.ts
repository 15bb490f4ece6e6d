import { expect, test } from 'bun:test'
import { GatewayError } from '../../../src/base/errors.ts'
import { createQueryMatcher, parseQuery } from '../../../src/resources/scim/query.ts'
import { GROUP } from '../../../src/resources/scim/schemas.data.ts'
import { searchScimUsers } from '../../../src/resources/scim/view.ts'
import { countWork } from '../../support/work-count.ts'

const buildFilter = (count: number, build: (i: number) => string) =>
  Array.from({ length: count }, (_, i) => build(i)).join(' or ')

test.each([
  ['members', (i: number) => `members co "x${i}x"`],
  ['a path with a filter', (i: number) => `members[value co "x${i}x"].value co "x${i}x"`],
])('a long filter on very many values is refused before others wait for long: %s', (_, build) => {
  const members = Array.from({ length: 100_000 }, (_, i) => ({ value: `member ${i}` }))
  const group = { displayName: 'All', members }
  const match = (count: number) =>
    createQueryMatcher(GROUP, parseQuery({ filter: buildFilter(count, build) }))(group)
  expect(match(1)).toBe(false)
  let refusal: unknown
  const work = countWork(() => {
    try {
      match(200)
    } catch (thrown) {
      refusal = GatewayError.from(thrown).metadata.scimType
    }
  })
  expect(refusal).toBe('tooMany')
  expect(work).toBeLessThan(1_000_000)
})

test('others have their turn while a filter reads very many users', async () => {
  const users = Array.from({ length: 50 }, (_, i) => ({
    ...{ id: `${i}`, user_id: `user_${i}`, version: 1, created_at: '', updated_at: '' },
    resource: { userName: `user${i}@example.com` },
  }))
  let ticks = 0
  const clock = { now: () => new Date(0), ticks: () => (ticks += 1) }
  const store = { scim: { users: { find: async () => users, listGroups: async () => [] } } }
  let turns = 0
  const count = setInterval(() => {
    turns += 1
  }, 0)
  const query = parseQuery({ filter: 'userName co "user1"' })
  const found = await searchScimUsers({ clock, store } as never, 'https://a.example', query)
  clearInterval(count)
  expect(found.totalResults).toBe(11)
  expect(turns).toBeGreaterThanOrEqual(1)
})
