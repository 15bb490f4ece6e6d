/** An MCP server on stdin and stdout, with one tool that answers with a known text. */
import { Server } from '@modelcontextprotocol/sdk/server/index.js'
import { StdioServerTransport } from '@modelcontextprotocol/sdk/server/stdio.js'
import { CallToolRequestSchema, ListToolsRequestSchema } from '@modelcontextprotocol/sdk/types.js'
import { MCP } from './task.ts'

const server = new Server({ name: MCP.server, version: '1' }, { capabilities: { tools: {} } })
server.setRequestHandler(ListToolsRequestSchema, () => ({
  tools: [{ name: MCP.tool, description: 'Takes a note', inputSchema: { type: 'object' } }],
}))
server.setRequestHandler(CallToolRequestSchema, () => ({
  content: [{ type: 'text', text: MCP.answer }],
}))
await server.connect(new StdioServerTransport())
