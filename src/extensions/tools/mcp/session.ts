import type { Client } from '@modelcontextprotocol/sdk/client/index.js'
import type { RequestOptions } from '@modelcontextprotocol/sdk/shared/protocol.js'
import type { CallToolResult, Request, Tool } from '@modelcontextprotocol/sdk/types.js'
import type {
  jsonSchemaValidator as JsonSchemaValidator,
  JsonSchemaValidatorResult,
} from '@modelcontextprotocol/sdk/validation/types.js'
import { yieldToEventLoop } from '../../../base/clock.ts'
import { GatewayError } from '../../../base/errors.ts'
import type { Events } from '../../../base/events.ts'
import { type Json, parseObject } from '../../../base/json.ts'
import { VERSION } from '../../../base/version.ts'
import type { IncomingResponse } from '../../../network/egress.ts'
import { checkUntrustedUrl } from '../../../network/untrusted-url.ts'
import type { UpstreamWorld } from '../../../network/world.ts'
import { ToolFailure, type UseLimit } from '../use-limit.ts'
import { AnswerBudget } from './answer-budget.ts'
import { dropToken, getToken } from './oauth.ts'
import type { McpServer } from './server.ts'

/** What a use of a server needs from the gateway. */
export interface McpWorld extends UpstreamWorld {
  events: Events
}

/** A session with an MCP server, for one use. */
export interface McpSession {
  /** Lists at most `most` of its tools. */
  listTools(most: number): Promise<Tool[]>
  callTool(name: string, input: Json): Promise<CallToolResult>
  /** Asks for something else; null where the server says that it has nothing of the kind. */
  ask(method: AskedMethod, params: Json): Promise<Json | null>
}

/** What a server may have beside tools, by the method that asks for it. */
const ASKED = {
  'prompts/list': ['prompts', 'ListPromptsResultSchema'],
  'prompts/get': ['prompts', 'GetPromptResultSchema'],
  'resources/list': ['resources', 'ListResourcesResultSchema'],
  'resources/templates/list': ['resources', 'ListResourceTemplatesResultSchema'],
  'resources/read': ['resources', 'ReadResourceResultSchema'],
} as const
export type AskedMethod = keyof typeof ASKED

/**
 * Runs work in a session with a server, which ends with it. Throws `ToolFailure` in our own words:
 * those of a server may repeat a credential.
 */
export async function runSession<T>(
  world: McpWorld,
  server: McpServer,
  limit: UseLimit,
  work: (session: McpSession) => Promise<T>,
): Promise<T> {
  const run = server.program ? (await import('./program.ts')).runInProgram : runOverHttp
  try {
    const library = await loadLibrary()
    return await run(world, server, limit, library, (client, options) =>
      work(createSession(library, client, options)),
    )
  } catch (thrown) {
    throw toFailure(server, thrown)
  }
}

const createSession = (
  { types }: Library,
  client: Client,
  options: RequestOptions,
): McpSession => ({
  listTools: most =>
    readPages(most, cursor =>
      client.request(
        { method: 'tools/list', params: cursor === undefined ? {} : { cursor } },
        types.ListToolsResultSchema,
        options,
      ),
    ),
  callTool: (name, input) =>
    client.request(
      { method: 'tools/call', params: { name, arguments: input } },
      types.CallToolResultSchema,
      options,
    ),
  async ask(method, params) {
    const [capability, schema] = ASKED[method]
    if (!client.getServerCapabilities()?.[capability]) return null
    const request: Request = { method, params }
    return (await client.request(request as never, types[schema], options)) as Json
  },
})

async function runOverHttp<T>(
  world: McpWorld,
  server: McpServer,
  limit: UseLimit,
  library: Library,
  work: (client: Client, options: RequestOptions) => Promise<T>,
): Promise<T> {
  // The library waits on for an answer whose stream has ended without it.
  const unanswered = Promise.withResolvers<never>()
  unanswered.promise.catch(() => undefined)
  const answered = new Set<unknown>()
  const onStreamEnd = async (request: string, reason: unknown) => {
    // What the stream has brought is read first.
    await yieldToEventLoop()
    const id = parseObject(request)?.id
    if (id !== undefined && !answered.has(id)) unanswered.reject(reason)
  }
  const transport = new library.StreamableHTTPClientTransport(new URL(server.url ?? ''), {
    fetch: createTransportFetch(world, server, limit, onStreamEnd),
    requestInit: { headers: server.headers },
    reconnectionOptions: NO_RECONNECTION,
  })
  transport.onmessage = message => {
    if (!('method' in message)) answered.add(message.id)
  }
  const client = library.createClient()
  // The limit of the use ends a request; the library's own clock must not be first.
  const options = { timeout: server.timeoutMilliseconds * 2 }
  try {
    // Its type has no undefined for optional fields.
    const connected = client.connect(transport as Parameters<typeof client.connect>[0], options)
    await Promise.race([connected, unanswered.promise])
    return await Promise.race([work(client, options), unanswered.promise])
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
  // It offers servers nothing: no sampling, no elicitation, no roots.
  const createClient = () =>
    new Client(
      { name: 'gateway', version: VERSION },
      // Schemas of servers are not compiled: they may be of any size, and models get results as text.
      { capabilities: {}, jsonSchemaValidator: { getValidator: acceptAll } },
    )
  return { createClient, StreamableHTTPClientTransport, types }
}

/** The client library of the protocol. */
export type Library = Awaited<ReturnType<typeof loadLibrary>>

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

const isStream = (incoming: IncomingResponse): boolean =>
  incoming.header('content-type')?.startsWith('text/event-stream') ?? false

/** A `fetch` for the client library. */
type TransportFetch = (url: string | URL, init?: RequestInit) => Promise<Response>

/**
 * Creates the `fetch` of one use of a server, over the gateway's own way out: within its time, and
 * within its bytes, of all answers together. Each request to a caller's server is checked anew, so
 * that no redirect and no name leads into the private network. The stream that a server may open
 * for messages of its own (GET) is refused, as nothing here would read it.
 */
function createTransportFetch(
  world: UpstreamWorld,
  server: McpServer,
  limit: UseLimit,
  onStreamEnd: (request: string, reason: unknown) => void,
): TransportFetch {
  const budget = new AnswerBudget(world.config.mcp.max_answer_mib)
  const send = async (url: string, init: RequestInit, token: string | null) => {
    const checked = await checkServerUrl(world, server, url, limit)
    const branch = limit.open()
    const sent = typeof init.body === 'string' ? init.body : ''
    init.signal?.addEventListener('abort', () => limit.release(branch), { once: true })
    const incoming = await world.egress.send(
      {
        ...(init.method === 'DELETE' ? { method: init.method } : {}),
        ...checked,
        headers: {
          ...{ ...HEADERS, ...Object.fromEntries(new Headers(init.headers)) },
          ...(token === null ? {} : { authorization: `Bearer ${token}` }),
        },
        body: sent,
      },
      branch,
    )
    const end = (reason?: unknown) => {
      limit.release(branch)
      if (reason && isStream(incoming)) onStreamEnd(sent, reason)
    }
    return { incoming, end }
  }
  return async (address, init = {}) => {
    const url = String(address)
    const { oauth, label } = server
    if ((init.method ?? 'GET') === 'GET') return new Response(null, { status: 405 })
    const token = oauth && (await limit.race(getToken(world, label, oauth)))
    const first = await send(url, init, token)
    if (!oauth || token === null || first.incoming.status !== 401)
      return toResponse(first.incoming, budget, first.end)
    // It may have ended earlier than it said.
    first.end()
    dropToken(oauth, token)
    const second = await send(url, init, await limit.race(getToken(world, label, oauth)))
    return toResponse(second.incoming, budget, second.end)
  }
}

const HEADERS = { 'accept-encoding': 'identity', 'user-agent': 'gateway' }

async function checkServerUrl(
  world: UpstreamWorld,
  server: McpServer,
  url: string,
  limit: UseLimit,
): Promise<{ url: string; address?: string }> {
  if (!server.isConfigured) return limit.race(checkUntrustedUrl(world, url))
  // The operator's credentials go to the operator's server.
  if (new URL(url).origin !== new URL(server.url ?? '').origin)
    throw new ToolFailure(`The MCP server ${server.label} redirects to another server`)
  return { url }
}

const NO_BODY = new Set([204, 205, 304])

function toResponse(
  incoming: IncomingResponse,
  budget: AnswerBudget,
  end: (reason?: unknown) => void,
): Response {
  const { status } = incoming
  if (status < 200 || status > 599) throw new ToolFailure('The MCP server sent a wrong status')
  const headers = new Headers()
  for (const name of ['content-type', 'mcp-session-id', 'location']) {
    const value = incoming.header(name)
    if (value !== null) headers.set(name, value)
  }
  if (NO_BODY.has(status)) {
    end()
    return new Response(null, { status, headers })
  }
  const body = openBody(createLineReader(incoming, budget), end)
  return new Response(body, { status, headers })
}

const openBody = (read: () => Promise<Uint8Array | null>, end: (reason?: unknown) => void) =>
  new ReadableStream<Uint8Array<ArrayBuffer>>({
    async pull(controller) {
      const bytes = await read().catch(thrown => {
        end(thrown)
        throw thrown
      })
      if (bytes) return controller.enqueue(new Uint8Array(bytes))
      controller.close()
      end(new ToolFailure('The MCP server ended its answer before there was one'))
    },
    cancel: () => end(),
  })

const LINE_END = 0x0a
/** The most bytes that wait for the end of their line. */
const LONGEST_WAIT = 64 * 1024

/**
 * Returns a reader of whole lines, or of long pieces of one: the library's parser searches what it
 * has of a line again with each piece, so a line that comes byte by byte would take it quadratic
 * time. A piece doubles in length, which makes that linear.
 */
function createLineReader(
  incoming: IncomingResponse,
  budget: AnswerBudget,
): () => Promise<Uint8Array | null> {
  let wanted = LONGEST_WAIT
  return async () => {
    const pieces: Uint8Array[] = []
    for (let size = 0; ; ) {
      const bytes = await incoming.read()
      if (!bytes) return pieces.length > 0 ? Buffer.concat(pieces) : null
      if (!budget.take(bytes)) throw new ToolFailure('The MCP server sent too much')
      pieces.push(bytes)
      size += bytes.length
      if (bytes.includes(LINE_END)) {
        wanted = LONGEST_WAIT
        return Buffer.concat(pieces)
      }
      if (size < wanted) continue
      wanted *= 2
      return Buffer.concat(pieces)
    }
  }
}
