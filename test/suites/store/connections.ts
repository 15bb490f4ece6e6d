import { describe, expect, test } from 'bun:test'
import { buildDefaultWorkspace } from '../../../src/resources/workspaces.ts'
import type { Store } from '../../../src/store/store.ts'
import { buildAuditEntry } from '../../support/audit.ts'
import { buildKey, CREATED, readErrorType, WORKSPACE } from './rows.ts'

/** Tests two processes that have opened the same empty store. */
export function testConnections(name: string, openTwo: () => Promise<[Store, Store]>): void {
  describe(`two that opened the same store: ${name}`, () => {
    test('the version changes exactly when the other one has written', async () => {
      const [server, terminal] = await openTwo()
      const before = await server.version()
      await terminal.workspaces.all()
      await terminal.members.count()
      expect(await server.version()).toBe(before)
      await terminal.workspaces.insertIfAbsent(
        buildDefaultWorkspace(WORKSPACE, 'user_1', new Date(CREATED)),
      )
      const after = await server.version()
      expect(after).not.toBe(before)
      await server.keys.insert(buildKey(), buildAuditEntry())
      expect(await server.version()).toBe(after)
      expect([...(await terminal.keys.all())]).toEqual([buildKey()])
      await Promise.all([server.close(), terminal.close()])
    })

    test('they agree on its owner, and on the first workspace of a slug', async () => {
      const stores = await openTwo()
      const owners = await Promise.all(
        stores.map((one, i) => one.owner({ user_id: `u${i}`, workspace_id: `w${i}` })),
      )
      expect(owners[0]).toEqual(owners[1] as never)
      const made = new Date(CREATED)
      await Promise.all(
        stores.map((one, i) =>
          one.workspaces.insertIfAbsent(buildDefaultWorkspace(`w${i}`, 'u', made)),
        ),
      )
      expect(await stores[0].workspaces.all()).toHaveLength(1)
      await Promise.all(stores.map(one => one.close()))
    })

    test('of two that insert the same row at once, one gets a conflict', async () => {
      const stores = await openTwo()
      await stores[0].workspaces.insertIfAbsent(
        buildDefaultWorkspace(WORKSPACE, 'user_1', new Date(CREATED)),
      )
      const outcomes = await Promise.all(
        stores.map(one => readErrorType(one.keys.insert(buildKey(), buildAuditEntry()))),
      )
      expect(outcomes.toSorted()).toEqual(['conflict', undefined])
      await Promise.all(stores.map(one => one.close()))
    })
  })
}
