import { expect, test } from 'bun:test'
import type { StoredLogin } from '../../../src/extensions/tools/mcp/logins.ts'
import { buildAuditEntry } from '../../support/audit.ts'
import { CREATED, countAudit, type GetStore, LATER } from './rows.ts'

const buildLogin = (sealed: string, updated_at = CREATED): StoredLogin => ({
  ...{ label: 'calendar “𝄞”', sealed, updated_at },
})

/** Tests what every store promises about logins at MCP servers. */
export function testMcpLogins(store: GetStore): void {
  test('a login at an MCP server is replaced only where it is the one that was read', async () => {
    const { label } = buildLogin('')
    const find = () => store().mcpLogins.find(label)
    const before = await countAudit(store())
    expect(await find()).toBeUndefined()
    expect(await store().mcpLogins.replace(buildLogin('b'), 'a')).toBe(false)
    await store().mcpLogins.save(buildLogin('a'), buildAuditEntry())
    await store().mcpLogins.save(buildLogin('b'), buildAuditEntry())
    expect(await store().mcpLogins.replace(buildLogin('c', LATER), 'a')).toBe(false)
    expect(await find()).toEqual(buildLogin('b'))
    const both = ['c', 'd'].map(sealed => store().mcpLogins.replace(buildLogin(sealed), 'b'))
    expect((await Promise.all(both)).toSorted()).toEqual([false, true])
    await store().mcpLogins.remove(label, buildAuditEntry())
    expect(await find()).toBeUndefined()
    expect(await countAudit(store())).toBe(before + 3)
  })
}
