import { expect, test } from 'bun:test'
import type { Pool } from '../../../src/store/postgres/pool.ts'
import { createSharedStore } from '../../../src/store/postgres/shared.ts'

test('a call that is forgotten while it is looked at is begun by one server, not by each that asks', async () => {
  const rows = new Map([['call', 'other']])
  // As the other server forgets it between the two questions of this one.
  const unsafe = async (text: string, [name, , incarnation]: string[]) => {
    if (text.startsWith('insert into kept_calls')) {
      if (rows.has(name as string)) return []
      rows.set(name as string, incarnation as string)
      return [{ name }]
    }
    rows.delete(name as string)
    return []
  }
  const calls = createSharedStore({ unsafe } as unknown as Pool, 'own').openCalls('own')
  expect(await calls.begin({ name: 'call', fingerprint: 'f' })).toBeNull()
  expect(rows.get('call')).toBe('own')
})
