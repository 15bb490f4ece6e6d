import type { Kysely } from 'kysely'
import type { McpLoginStore } from '../../extensions/tools/mcp/logins.ts'
import { buildAuditInsert } from './audit.ts'
import type { Tables } from './tables.ts'
import { follow, type Write } from './write.ts'

/** Creates the store of logins at MCP servers in SQL. They are sealed. */
export const createMcpLoginStore = (kysely: Kysely<Tables>, write: Write): McpLoginStore => ({
  find: label =>
    kysely.selectFrom('mcp_logins').selectAll().where('label', '=', label).executeTakeFirst(),
  save: (login, entry) =>
    write(
      kysely
        .insertInto('mcp_logins')
        .values(login)
        .onConflict(on => on.column('label').doUpdateSet(login)),
      buildAuditInsert(kysely, entry),
    ),
  async replace(login, before) {
    const own = kysely.selectFrom('mcp_logins').select('sealed').where('label', '=', login.label)
    let isDone = false
    await write(
      follow(own, ([row]) => {
        isDone = row?.sealed === before
        const change = kysely.updateTable('mcp_logins').set(login).where('label', '=', login.label)
        return isDone ? [change] : []
      }),
    )
    return isDone
  },
  remove: (label, entry) =>
    write(
      kysely.deleteFrom('mcp_logins').where('label', '=', label),
      buildAuditInsert(kysely, entry),
    ),
})
