import { Type } from '@sinclair/typebox'
import type { Gateway } from '../../app/gateway.ts'
import { denied, GatewayError, invalid, notFound } from '../../base/errors.ts'
import type { Json } from '../../base/json.ts'
import { open } from '../../base/schema-builders.ts'
import type { MessageStream } from '../../extensions/mcp-gateway/sessions.ts'
import type { McpGateway, McpRequest } from '../../extensions/mcp-gateway.ts'
import type { Actor } from '../../resources/actor.ts'
import { recheckActor, requireKey } from '../access.ts'
import { readBody } from '../body.ts'
import type { FindRequestPeer } from '../calls.ts'
import { findConnection } from '../connections.ts'
import { createEventStreamResponse } from '../event-stream.ts'
import { readOrigin, readRequestId } from '../headers.ts'
import { describeOperation, type Operation } from '../operation.ts'
import { noteRefusal } from '../refusals.ts'
import { Routes } from '../routes.ts'

/** A message of JSON-RPC: a request, a notification, or an answer of the client. */
const Message = Type.Object(
  {
    jsonrpc: Type.Literal('2.0'),
    id: Type.Optional(
      Type.Union([
        Type.String({ maxLength: 256 }),
        Type.Integer({ minimum: Number.MIN_SAFE_INTEGER, maximum: Number.MAX_SAFE_INTEGER }),
      ]),
    ),
    method: Type.Optional(Type.String({ maxLength: 256 })),
    params: Type.Optional(Type.Object({}, open)),
  },
  open,
)

/** A request to the gateway as an MCP server: at `/mcp`, or at `/mcp/{server}`. */
interface McpContext {
  actor: Actor
  request: Request
  label: string | null
}

/**
 * Creates the routes of MCP clients, over streamable HTTP: `/mcp` has the tools of all servers of
 * the config, `/mcp/{server}` those of one. Nothing of it is loaded before it is asked for.
 */
export function createMcpRoutes(gateway: Gateway, findPeer: FindRequestPeer): Routes[] {
  let opening: Promise<McpGateway> | undefined
  const openMcp = () => {
    opening ??= import('../../extensions/mcp-gateway.ts').then(
      ({ McpGateway }) => new McpGateway(gateway),
    )
    return opening
  }
  const serve =
    (answer: (context: McpContext, mcp: McpGateway) => Promise<Response> | Response) =>
    async ({ actor, request, params }: { actor: Actor; request: Request; params?: object }) => {
      const { server: label = null } = (params ?? {}) as { server?: string }
      checkOrigin(gateway, request)
      checkDoor(gateway, actor, label)
      return answer({ actor, request, label }, await openMcp())
    }
  const answerPost = serve((context, mcp) => answerMessage(gateway, findPeer, context, mcp))
  const listen = serve((context, mcp) => {
    const session = requireSession(gateway, context, mcp)
    const authorization = context.request.headers.get('authorization')
    const stream = mcp.listen(context.actor, session, authorization)
    return createEvents(gateway, context.request, stream, {}, () => mcp.endIfGone(session))
  })
  const end = serve((context, mcp) => {
    mcp.sessions.end(requireSession(gateway, context, mcp))
    return new Response(null, { status: 204 })
  })
  return DOORS.map(({ path, of, ...about }) =>
    new Routes(requireKey(gateway))
      .post(path, answerPost, describe({ ...about, ...POST, id: `ask${of}` }))
      .get(path, listen, describe({ ...about, ...GET, id: `listenTo${of}` }))
      .delete(path, end, describe({ ...about, ...DELETE, id: `leave${of}` })),
  )
}

const DOORS: { path: string; of: string; params?: Record<string, string> }[] = [
  { path: '/mcp', of: 'Mcp' },
  { path: '/mcp/:server', of: 'McpServer', params: { server: 'The label of an MCP server' } },
]

const STATUSES = [400, 401, 403, 404, 429, 500, 503]
const SESSION = { headers: { 'Mcp-Session-Id': [] } }
const POST = {
  summary: 'Ask MCP servers, in JSON-RPC',
  body: Message,
  statuses: [200, 202, ...STATUSES, 408, 413, 415],
}
const GET = {
  summary: 'Listen for changes of what may be used',
  statuses: [200, ...STATUSES],
  produces: ['text/event-stream'],
  ...SESSION,
}
const DELETE = { summary: 'End a session', statuses: [204, ...STATUSES], ...SESSION }

const describe = (details: Omit<Operation, 'tag'>) => describeOperation({ tag: 'MCP', ...details })

/**
 * Throws 403 for a page of another site than the config allows, as the protocol wants: such a page
 * may have a name that leads to this host.
 */
function checkOrigin({ config: { server }, instance }: Gateway, { headers }: Request): void {
  const origin = headers.get('origin')
  if (origin === null || origin === new URL(instance.siteUrl).origin) return
  if (server.cors.includes('*') || server.cors.includes(origin)) return
  throw denied('Origin: expected one of server.cors')
}

/** Throws 403 for a management key, and 404 for a server that is not in the config. */
function checkDoor({ config }: Gateway, { kind }: Actor, label: string | null): void {
  if (kind === 'management') throw denied('Management keys cannot be used for inference')
  if (label !== null && !Object.hasOwn(config.mcp_servers, label))
    throw notFound('There is no such MCP server')
}

/** Finds the session that a request names. Throws 404 for one that there is not. */
function findSession(
  { clock }: Gateway,
  { actor, request, label }: McpContext,
  { sessions }: McpGateway,
) {
  const id = request.headers.get('mcp-session-id')
  if (id === null) return null
  const session = sessions.find(id, actor, label, clock.ticks())
  if (!session) throw notFound('There is no such session: initialize another')
  return session
}

function requireSession(gateway: Gateway, context: McpContext, mcp: McpGateway) {
  // Clients then go on without a stream, as the protocol has it.
  if (gateway.instance.isOneOfSeveral)
    throw new GatewayError('invalid_request', 'Method not allowed: there are no sessions here', {
      ...{ status: 405, metadata: { allow: ['POST'] } },
    })
  const session = findSession(gateway, context, mcp)
  if (!session) throw invalid('Mcp-Session-Id: expected the session that initialize has opened')
  return session
}

/** Answers one message: a request, what a client was asked for, or what needs no answer. */
async function answerMessage(
  gateway: Gateway,
  findPeer: FindRequestPeer,
  context: McpContext,
  mcp: McpGateway,
): Promise<Response> {
  const { actor, request, label } = context
  const generation = gateway.ids.generation(gateway.clock.now())
  const requestId = readRequestId(request, generation)
  const headers = { 'x-request-id': requestId }
  const body = await readBody(request, Message)
  await recheckActor(gateway, request, actor)
  const { id, method, params = {} } = body
  const session = findSession(gateway, context, mcp)
  await checkVersion(request)
  if (id === undefined || method === undefined) {
    session?.questions.get(String(id))?.(body)
    return new Response(null, { status: 202, headers })
  }
  if (method === 'initialize') {
    const { isOneOfSeveral } = gateway.instance
    const [sessionId, result] = mcp.initialize(actor, label, params as Json, !isOneOfSeveral)
    const session = sessionId === null ? {} : { 'mcp-session-id': sessionId }
    return reply({ id, result }, { ...headers, ...session })
  }
  const opened = Promise.withResolvers<MessageStream>()
  const left = new AbortController()
  const asked = {
    ...{ actor, label, session, id: generation },
    origin: readOrigin(request, requestId, gateway, () => findPeer(request)),
    signal: AbortSignal.any([request.signal, left.signal]),
    openStream: takesEvents(request)
      ? () => {
          const stream = mcp.openStream(() => left.abort())
          opened.resolve(stream)
          return stream
        }
      : null,
  }
  const answered = answerRequest(gateway, context, mcp, asked, method, params as Json)
  const stream = await Promise.race([answered.then(() => null), opened.promise])
  if (!stream) return reply({ id, ...(await answered) }, headers)
  void answered.then(answer => {
    stream.send({ id, ...answer })
    stream.end()
  })
  return createEvents(gateway, request, stream, headers)
}

const takesEvents = ({ headers }: Request): boolean =>
  headers.get('accept')?.includes('text/event-stream') ?? false

/** Answers a request. What the gateway refuses is an error of JSON-RPC, so that hosts show it. */
async function answerRequest(
  gateway: Gateway,
  { actor, request, label }: McpContext,
  mcp: McpGateway,
  asked: McpRequest,
  method: string,
  params: Json,
): Promise<object> {
  const connection = findConnection(request)
  connection?.startWork()
  try {
    return { result: await mcp.answer(asked, method, params) }
  } catch (thrown) {
    const id = asked.origin.request_id
    const model = label === null ? null : `mcp/${label}`
    noteRefusal(gateway, request, { thrown, id, actor, model })
    return { error: renderError(gateway, thrown, id) }
  } finally {
    connection?.finishWork()
  }
}

function createEvents(
  { config: { timeouts, service_name } }: Gateway,
  request: Request,
  stream: MessageStream,
  headers: Record<string, string>,
  look?: () => void,
): Response {
  const render = () => {
    look?.()
    return `: ${service_name.toUpperCase()} LISTENING\n\n`
  }
  const keepAlive = { render, interval: timeouts.keep_alive_seconds * 1000 }
  return createEventStreamResponse(stream, keepAlive, headers, findConnection(request))
}

const reply = (message: object, headers: Record<string, string>): Response =>
  Response.json({ jsonrpc: '2.0', ...message }, { headers })

/** Throws 400 for a version of the protocol that the gateway does not speak. */
async function checkVersion({ headers }: Request): Promise<void> {
  const version = headers.get('mcp-protocol-version')
  if (version === null) return
  const { PROTOCOL_VERSIONS } = await import('../../extensions/mcp-gateway.ts')
  if (PROTOCOL_VERSIONS.includes(version)) return
  throw invalid(`MCP-Protocol-Version: expected ${PROTOCOL_VERSIONS.join(' or ')}`)
}

/** The codes of JSON-RPC: what is wrong with the request, and what only we say. */
const METHOD_NOT_FOUND = -32_601
const INVALID_PARAMS = -32_602
const REFUSED = -32_000

function renderError(gateway: Gateway, thrown: unknown, id: string) {
  if (thrown instanceof Error && thrown.name === 'UnknownMethod')
    return { code: METHOD_NOT_FOUND, message: 'Method not found' }
  const error = GatewayError.from(thrown)
  if (error.type === 'server') gateway.events.publish('request.failed', { id, path: '/mcp', error })
  const isWrong = error.type === 'invalid_request' || error.type === 'not_found'
  return {
    code: isWrong ? INVALID_PARAMS : REFUSED,
    message: error.message,
    data: { status: error.status, error_type: error.type, ...error.metadata },
  }
}
