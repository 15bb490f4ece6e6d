import type { McpLoginStore } from '../../../src/extensions/tools/mcp/logins.ts'
import { addAudit } from './audit.ts'
import type { Connection } from './memory.ts'

/** Logins at MCP servers in memory. */
export const createMemoryMcpLoginStore = (connection: Connection): McpLoginStore => ({
  find: label => connection.read(({ mcpLogins }) => mcpLogins.get(label)),
  save: (login, entry) =>
    connection.write(memory => {
      memory.mcpLogins.remove(login.label)
      memory.mcpLogins.insert(login.label, login)
      addAudit(memory, entry)
    }),
  async replace(login, before) {
    let isDone = false
    await connection.write(({ mcpLogins }) => {
      isDone = mcpLogins.get(login.label)?.sealed === before
      if (isDone) mcpLogins.update(login.label, login)
    })
    return isDone
  },
  remove: (label, entry) =>
    connection.write(memory => {
      memory.mcpLogins.remove(label)
      addAudit(memory, entry)
    }),
})
