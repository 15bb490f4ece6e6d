import type { CallToolResult, Tool } from '@modelcontextprotocol/sdk/types.js'
import type {
  jsonSchemaValidator as JsonSchemaValidator,
  JsonSchemaValidatorResult,
} from '@modelcontextprotocol/sdk/validation/types.js'
import { GatewayError } from '../../errors.ts'
import type { Json } from '../../kernel/json.ts'
import { VERSION } from '../../kernel/version.ts'
import type { UpstreamWorld } from '../../upstream/world.ts'
import { ToolFailure, type UseLimit } from '../use-limit.ts'
import type { McpServer } from './server.ts'
import { createTransportFetch } from './transport-fetch.ts'

/** A session with an MCP server, for one use. */
export interface McpSession {
  /** Lists at most `most` of its tools. */
  listTools(most: number): Promise<Tool[]>
  callTool(name: string, input: Json): Promise<CallToolResult>
}

/**
 * Runs work in a session with a server, which ends with it. Throws `ToolFailure` in our own words:
 * those of a server may repeat a credential.
 */
export async function runSession<T>(
  world: UpstreamWorld,
  server: McpServer,
  limit: UseLimit,
  work: (session: McpSession) => Promise<T>,
): Promise<T> {
  const { Client, StreamableHTTPClientTransport, types } = await loadLibrary()
  const transport = new StreamableHTTPClientTransport(new URL(server.url), {
    fetch: createTransportFetch(world, server, limit),
    requestInit: { headers: server.headers },
    reconnectionOptions: NO_RECONNECTION,
  })
  const client = new Client(
    { name: 'gateway', version: VERSION },
    // Schemas of servers are not compiled: they may be of any size, and models get results as text.
    { capabilities: {}, jsonSchemaValidator: { getValidator: acceptAll } },
  )
  // The limit of the use ends a request; the library's own clock must not be first.
  const options = { timeout: server.timeoutMilliseconds * 2 }
  try {
    // Its type has no undefined for optional fields.
    await client.connect(transport as Parameters<typeof client.connect>[0], options)
    const session = {
      listTools: (most: number) =>
        readPages(most, cursor =>
          client.request(
            { method: 'tools/list', params: cursor === undefined ? {} : { cursor } },
            types.ListToolsResultSchema,
            options,
          ),
        ),
      callTool: (name: string, input: Json) =>
        client.request(
          { method: 'tools/call', params: { name, arguments: input } },
          types.CallToolResultSchema,
          options,
        ),
    }
    return await work(session)
  } catch (thrown) {
    throw toFailure(server, thrown)
  } finally {
    await endSession(transport)
    await client.close().catch(() => undefined)
  }
}

const acceptAll: JsonSchemaValidator['getValidator'] =
  <T>() =>
  (input: unknown): JsonSchemaValidatorResult<T> => ({
    valid: true,
    data: input as T,
    errorMessage: undefined,
  })

const NO_RECONNECTION = {
  initialReconnectionDelay: 1_000,
  maxReconnectionDelay: 1_000,
  reconnectionDelayGrowFactor: 1,
  maxRetries: 0,
}

// Loaded on first use: few calls need it, and every start would pay for it.
async function loadLibrary() {
  const [{ Client }, { StreamableHTTPClientTransport }, types] = await Promise.all([
    import('@modelcontextprotocol/sdk/client/index.js'),
    import('@modelcontextprotocol/sdk/client/streamableHttp.js'),
    import('@modelcontextprotocol/sdk/types.js'),
  ])
  return { Client, StreamableHTTPClientTransport, types }
}

const MOST_PAGES = 50

/** Reads pages until there are enough tools, or no more. A server may name a next page for ever. */
async function readPages(
  most: number,
  readPage: (cursor?: string) => Promise<{ tools: Tool[]; nextCursor?: string | undefined }>,
): Promise<Tool[]> {
  const tools: Tool[] = []
  let cursor: string | undefined
  for (let pages = 0; pages < MOST_PAGES; pages++) {
    const page = await readPage(cursor)
    tools.push(...page.tools.slice(0, most - tools.length))
    if (page.nextCursor === undefined || tools.length >= most) break
    cursor = page.nextCursor
  }
  return tools
}

/** How many milliseconds the end of a session may take: the result waits for it. */
const LONGEST_END = 1_000

// A server that does not answer keeps its session until it forgets it.
async function endSession(transport: {
  sessionId?: string | undefined
  terminateSession(): Promise<void>
}): Promise<void> {
  if (transport.sessionId === undefined) return
  const over = Promise.withResolvers<void>()
  const timer = setTimeout(over.resolve, LONGEST_END)
  await Promise.race([transport.terminateSession().catch(() => undefined), over.promise])
  clearTimeout(timer)
}

function toFailure({ label }: McpServer, thrown: unknown): Error {
  if (thrown instanceof ToolFailure || thrown instanceof GatewayError) return thrown
  const code = readCode(thrown)
  if (code === 401 || code === 403)
    return new ToolFailure(`The MCP server ${label} refuses the credential`)
  if (code !== null && code >= 400 && code < 600)
    return new ToolFailure(`The MCP server ${label} answered with the status ${code}`)
  if (code !== null && code >= 300 && code < 400)
    return new ToolFailure(`The MCP server ${label} redirects to another server`)
  if (code !== null && code < -1)
    return new ToolFailure(`The MCP server ${label} refused the request (${code})`)
  return new ToolFailure(`The MCP server ${label} gave no answer that can be read`)
}

/** Reads a status, or an error's number in JSON-RPC. */
const readCode = (thrown: unknown): number | null =>
  typeof thrown === 'object' && thrown !== null && 'code' in thrown && Number.isInteger(thrown.code)
    ? Number(thrown.code)
    : null
