import { expect, test } from 'bun:test'
import { unavailable } from '../../../src/base/errors.ts'
import { rememberTogether, type StoredCalls } from '../../../src/resources/idempotency/shared.ts'

const WORLD = { config: { idempotency: { max_mib: 1 } } } as Parameters<typeof rememberTogether>[0]
const CALL = { name: 'call', fingerprint: 'f', created_at: 0, isOver: false }

/** A store that notes a call, and says so too late the first time. */
function createSlowStore() {
  const begun = new Set<string>()
  const ended = Promise.withResolvers<void>()
  let isSlow = true
  const calls: StoredCalls = {
    async begin({ name }) {
      if (begun.has(name)) return { fingerprint: 'f', begun_at: 0, sealed: null, is_running: true }
      begun.add(name)
      if (isSlow) throw unavailable('The database does not answer')
      return null
    },
    async end(name) {
      begun.delete(name)
      ended.resolve()
    },
    trim: async () => undefined,
  }
  const recover = () => {
    isSlow = false
  }
  return { calls, begun, ended: ended.promise, recover }
}

test('a call that was noted without its server hearing so can be made again there', async () => {
  const { calls, recover } = createSlowStore()
  const memory = rememberTogether(WORLD, calls)
  await expect(memory.begin(CALL)).rejects.toThrow('The database does not answer')
  recover()
  expect(await memory.begin(CALL)).toBeNull()
})

test('and at any other server', async () => {
  const { calls, begun, ended } = createSlowStore()
  await expect(rememberTogether(WORLD, calls).begin(CALL)).rejects.toThrow()
  await ended
  expect(begun.size).toBe(0)
})
