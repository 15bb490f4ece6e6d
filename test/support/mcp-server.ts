import { Server } from '@modelcontextprotocol/sdk/server/index.js'
import { WebStandardStreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/webStandardStreamableHttp.js'
import {
  CallToolRequestSchema,
  type CallToolResult,
  GetPromptRequestSchema,
  ListPromptsRequestSchema,
  ListResourcesRequestSchema,
  ListToolsRequestSchema,
  ReadResourceRequestSchema,
  type Tool,
} from '@modelcontextprotocol/sdk/types.js'

/** A tool of a test server: how it is listed, and what it does. */
export interface TestTool extends Omit<Tool, 'inputSchema'> {
  inputSchema?: Tool['inputSchema']
  run?(input: Record<string, unknown>, headers: Headers): CallToolResult | Promise<CallToolResult>
}

interface TestServerOptions {
  tools: TestTool[]
  /** The texts of its prompts by name, and of its resources by URI; none when absent. */
  texts?: { prompts: Record<string, string>; resources: Record<string, string> }
  /** Answers with JSON instead of a stream. */
  isJson?: boolean
  /** Whether a request is answered with 401, by its headers. */
  refuses?(headers: Headers): boolean
  /** Gives each client a session. */
  hasSessions?: boolean
  /** Lists so many tools at once. */
  pageSize?: number
}

/** An MCP server on a free loopback port, built with the official library. */
export interface TestMcpServer {
  url: string
  /** The HTTP method, and the methods of JSON-RPC, of each request. */
  requests: { method: string; calls: string[]; headers: Headers }[]
  /** The sessions that are open. */
  sessions: Set<string>
  close(): Promise<void>
}

/** Starts an MCP server. The caller closes it. */
export function startMcpServer(options: TestServerOptions): TestMcpServer {
  const requests: TestMcpServer['requests'] = []
  const sessions = new Map<string, WebStandardStreamableHTTPServerTransport>()
  const open = new Set<string>()
  const http = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    async fetch(request) {
      const body = request.method === 'POST' ? await request.clone().json() : []
      const calls = [body].flat().map(({ method }: { method: string }) => method)
      requests.push({ method: request.method, calls, headers: request.headers })
      if (options.refuses?.(request.headers)) return new Response(null, { status: 401 })
      const id = request.headers.get('mcp-session-id')
      const known = id === null ? undefined : sessions.get(id)
      if (known) return known.handleRequest(request)
      const transport = new WebStandardStreamableHTTPServerTransport({
        enableJsonResponse: options.isJson ?? false,
        ...(options.hasSessions
          ? {
              sessionIdGenerator: () => crypto.randomUUID(),
              onsessioninitialized: (session: string) => {
                sessions.set(session, transport)
                open.add(session)
              },
              onsessionclosed: (session: string) => {
                sessions.delete(session)
                open.delete(session)
              },
            }
          : {}),
      })
      await createServer(options, request.headers).connect(
        transport as Parameters<Server['connect']>[0],
      )
      return transport.handleRequest(request)
    },
  })
  return {
    url: `http://127.0.0.1:${http.port}/mcp`,
    requests,
    sessions: open,
    close: () => http.stop(true),
  }
}

function createServer({ tools, pageSize, texts }: TestServerOptions, headers: Headers): Server {
  const server = new Server(
    { name: 'test', version: '1.0.0' },
    { capabilities: { tools: {}, ...(texts ? { prompts: {}, resources: {} } : {}) } },
  )
  if (texts) addTexts(server, texts)
  server.setRequestHandler(ListToolsRequestSchema, ({ params }) => {
    const from = Number(params?.cursor ?? 0)
    const to = pageSize === undefined ? tools.length : from + pageSize
    return {
      tools: tools.slice(from, to).map(({ run: _, ...tool }) => ({
        ...tool,
        inputSchema: tool.inputSchema ?? { type: 'object' as const },
      })),
      ...(to < tools.length ? { nextCursor: String(to) } : {}),
    }
  })
  server.setRequestHandler(CallToolRequestSchema, async ({ params }) => {
    const tool = tools.find(({ name }) => name === params.name)
    if (!tool?.run) throw new Error(`No tool ${params.name}`)
    return tool.run(params.arguments ?? {}, headers)
  })
  return server
}

function addTexts(
  server: Server,
  { prompts, resources }: NonNullable<TestServerOptions['texts']>,
): void {
  server.setRequestHandler(ListPromptsRequestSchema, () => ({
    prompts: Object.keys(prompts).map(name => ({ name })),
  }))
  server.setRequestHandler(GetPromptRequestSchema, ({ params: { name } }) => ({
    messages: [{ role: 'user', content: { type: 'text', text: prompts[name] ?? '' } }],
  }))
  server.setRequestHandler(ListResourcesRequestSchema, () => ({
    resources: Object.keys(resources).map(uri => ({ uri, name: uri })),
  }))
  server.setRequestHandler(ReadResourceRequestSchema, ({ params: { uri } }) => ({
    contents: [{ uri, text: resources[uri] ?? '' }],
  }))
}

/** Builds a result that is one text. */
export const textResult = (text: string, isError = false): CallToolResult => ({
  content: [{ type: 'text', text }],
  ...(isError ? { isError } : {}),
})
