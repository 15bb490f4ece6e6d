import type { CallToolResult } from '@modelcontextprotocol/sdk/types.js'
import { Cancellation } from '../base/cancellation.ts'
import { Timeout } from '../base/clock.ts'
import { denied, GatewayError, invalid, notFound } from '../base/errors.ts'
import { isObject, type Json, readObjects } from '../base/json.ts'
import { runInTurns } from '../base/turns.ts'
import { VERSION } from '../base/version.ts'
import { admitRequest } from '../engine/admit.ts'
import { requireService } from '../engine/plan/constraints.ts'
import { clientLeft } from '../engine/run.ts'
import type { CallBase } from '../language/call.ts'
import { getPolicy, listAppliedGuardrails } from '../limits/effective.ts'
import type { McpRule } from '../limits/guardrails/mcp-rule.ts'
import { type Actor, recognize } from '../resources/actor.ts'
import { isDisabledTool } from '../resources/workspaces/disabled-tools.ts'
import { findMismatch } from './mcp-gateway/json-schema.ts'
import { type ClientSession, ClientSessions, MessageStream } from './mcp-gateway/sessions.ts'
import { type Asker, hideSecretsInJson, useServer } from './mcp-gateway/use.ts'
import { MAX_INPUT } from './server-tool/use.ts'
import type { ToolWorld } from './server-tool.ts'
import { readMcpOptions } from './tools/mcp/options.ts'
import { type McpServer, resolveServer } from './tools/mcp/server.ts'
import { type AskedMethod, type McpSession, runSession } from './tools/mcp/session.ts'
import {
  forgetTools,
  listServerTools,
  type McpTool,
  nameFunction,
  readSessionTools,
} from './tools/mcp/tool-list.ts'
import { mcp } from './tools/mcp.ts'
import { runLimited, ToolFailure, toFailedResult } from './tools/use-limit.ts'
import type { ExtensionWorld } from './world.ts'

/** The versions of the protocol that clients may speak, the newest first. */
export const PROTOCOL_VERSIONS = ['2025-11-25', '2025-06-18']

/** A request of a client: at the path of one server, or at that of all (`label` is null). */
export interface McpRequest extends Asker, WaitingClient {
  label: string | null
}

/** Who listens, with which header, and what they may use, as they were last told. */
interface Listening {
  actor: Actor
  authorization: string | null
  rights: string
}

/** A method that the gateway does not have. */
export class UnknownMethod extends Error {
  override readonly name = 'UnknownMethod'
}

type Method = (world: ToolWorld, request: McpRequest, params: Json) => Json | Promise<Json>

const METHODS = new Map<string, Method>([
  ['ping', () => ({})],
  ['tools/list', listTools],
  ['tools/call', callTool],
  ['prompts/list', (world, request) => listNamed(world, request, 'prompts/list', 'prompts')],
  ['prompts/get', getPrompt],
  ['resources/list', (world, request) => listNamed(world, request, 'resources/list', 'resources')],
  ['resources/templates/list', listTemplates],
  ['resources/read', readResource],
])

/**
 * What the gateway is to MCP clients: a server, behind which are those of the config. What a client
 * may see and use is decided at each request, and a use is refused where it is asked for.
 */
export class McpGateway {
  readonly sessions = new ClientSessions()
  readonly #world: ToolWorld
  /** What the clients that listen may use, as they were last told. */
  readonly #listening = new Map<ClientSession, Listening>()
  #unsubscribe: (() => void)[] = []

  constructor(world: ToolWorld) {
    this.#world = world
  }

  /**
   * Begins with a client, in the version that it asks for or in ours. Opens a session where the client
   * may have one: where its next request comes here too.
   */
  initialize(
    actor: Actor,
    label: string | null,
    params: Json,
    mayHaveSession: boolean,
  ): [id: string | null, result: Json] {
    const { clock, ids, config } = this.#world
    const asked = String(params.protocolVersion)
    const protocolVersion = PROTOCOL_VERSIONS.includes(asked) ? asked : PROTOCOL_VERSIONS[0]
    const about = { id: ids.uuid(), actor, label, canAsk: canAskUser(params.capabilities) }
    const session = mayHaveSession ? this.sessions.open(about, clock.ticks()) : null
    const capability = { listChanged: mayHaveSession }
    const result = {
      protocolVersion,
      capabilities: { tools: capability, prompts: capability, resources: capability },
      serverInfo: { name: config.service_name, version: VERSION },
    }
    return [session?.id ?? null, result]
  }

  /**
   * Answers a request. Throws `UnknownMethod`, 400 for parameters that are none, 404 for what there
   * is not, and what `useServer` throws.
   */
  async answer(request: McpRequest, method: string, params: Json): Promise<Json> {
    const answer = METHODS.get(method)
    if (!answer) throw new UnknownMethod(method)
    return answer(this.#world, request, params)
  }

  /** Opens a stream for what a client is sent before its answer. */
  openStream(onEnd: () => void): MessageStream {
    return new MessageStream(onEnd)
  }

  /**
   * Opens the stream of a session, in place of the one that it has, for as long as the actor's
   * credential holds.
   */
  listen(actor: Actor, session: ClientSession, authorization: string | null): MessageStream {
    session.stream?.end()
    const stream = new MessageStream(() => this.#remove(session, stream))
    session.stream = stream
    const rights = describeRights(this.#world, actor, session.label)
    this.#listening.set(session, { actor, authorization, rights })
    if (this.#unsubscribe.length === 0) this.#subscribe()
    return stream
  }

  #remove(session: ClientSession, stream: MessageStream): void {
    if (session.stream !== stream) return
    session.stream = null
    this.#listening.delete(session)
    if (this.#listening.size > 0) return
    for (const stop of this.#unsubscribe.splice(0)) stop()
  }

  /**
   * Ends a session that listens with what may no longer be used: a key, a secret that it had, or a
   * token that is over before its key. Returns whether it did.
   */
  endIfGone(session: ClientSession): boolean {
    const { actor, authorization = null } = this.#listening.get(session) ?? {}
    const now = recognize(this.#world, authorization)
    if (now && now.key_hash === actor?.key_hash) return false
    this.sessions.end(session)
    return true
  }

  #subscribe(): void {
    const { events, memory } = this.#world
    let tells = false
    // Many assignments change in one step: what they come to is told once.
    const tell = () => {
      if (tells) return
      tells = true
      setImmediate(() => {
        tells = false
        this.#tellChanges()
      })
    }
    memory.policyWatchers.add(tell)
    this.#unsubscribe = [
      () => memory.policyWatchers.delete(tell),
      events.on('config.applied', tell),
    ]
  }

  /** Tells those of the listeners whose rights have changed. */
  #tellChanges(): void {
    for (const [session, told] of [...this.#listening]) {
      if (this.endIfGone(session)) continue
      const rights = describeRights(this.#world, told.actor, session.label)
      if (rights === told.rights) continue
      told.rights = rights
      for (const noun of ['tools', 'prompts', 'resources'])
        session.stream?.send({ method: `notifications/${noun}/list_changed` })
    }
  }
}

/** Whether a client can ask its user by a form. One that names no mode of elicitation has this one. */
function canAskUser(capabilities: unknown): boolean {
  const elicitation = isObject(capabilities) ? capabilities.elicitation : undefined
  return isObject(elicitation) && ('form' in elicitation || Object.keys(elicitation).length === 0)
}

/** Whether what a server has is named without its label: at its own path. */
const isAlone = ({ label }: McpRequest): boolean => label !== null

const nameTool = (request: McpRequest, { label }: McpServer, tool: string): string =>
  isAlone(request) ? tool : nameFunction(label, tool)

/** Lists what an actor may use. At the path of all, a server that fails has nothing. */
async function listTools(world: ToolWorld, request: McpRequest): Promise<Json> {
  const { actor, session } = request
  const lists = await askEach(world, request, async server => {
    const { tools } = await listServerTools(world, server)
    return tools
      .filter(tool => mayUseTool(world, actor, server, tool.name))
      .map(tool => ({ name: nameTool(request, server, tool.name), tool }))
  })
  const listed = lists.flat()
  if (session) session.digests = new Map(listed.map(({ name, tool }) => [name, tool.digest]))
  return { tools: listed.map(({ name, tool }) => showTool(name, tool)) }
}

const showTool = (name: string, tool: McpTool): Json => ({
  name,
  description: tool.description,
  inputSchema: tool.inputSchema,
  ...(tool.outputSchema ? { outputSchema: tool.outputSchema } : {}),
  annotations: { readOnlyHint: tool.isReadOnly },
})

/** Asks every server that the actor may use. A server alone may fail: the client is told why. */
async function askEach<T>(
  world: ToolWorld,
  request: McpRequest,
  ask: (server: McpServer) => Promise<T[]>,
): Promise<T[][]> {
  const { actor, label } = request
  if (label !== null) checkServer(world, actor, requireServer(world, actor, label))
  const asked = listServers(world, actor, label).map(server =>
    ask(server).catch((thrown: unknown) => {
      if (!isAlone(request)) return []
      throw new GatewayError('provider_unavailable', toFailedResult(thrown).text)
    }),
  )
  return Promise.all(asked)
}

/** Calls a tool, as it was listed to this session. */
async function callTool(
  world: ToolWorld,
  request: McpRequest,
  { name, arguments: input = {} }: Json,
): Promise<Json> {
  if (typeof name !== 'string') throw invalid('name: expected the name of a tool', 'name')
  if (!isObject(input)) throw invalid('arguments: expected an object', 'arguments')
  if (JSON.stringify(input).length > MAX_INPUT)
    throw invalid(`arguments: expected at most ${MAX_INPUT} characters`, 'arguments')
  const { actor, session } = request
  const find = async () => {
    const found = await findTool(world, request, name)
    await checkTool(world, actor, found.server, found.tool.name, input)
    return found
  }
  const { tool, ...found } = await find()
  const isApproved = await getApproval(world, request, { ...found, tool: tool.name, input })
  // Who decides takes their time: what may be used is asked again.
  const { server } = isApproved ? await find() : found
  const listed = session?.digests.get(name) ?? (isApproved ? tool.digest : undefined)
  const result = await useServer(world, request, {
    ...{ server, name: tool.name, input, isPriced: true },
    async work(upstream, filtered) {
      const now = listed === undefined ? tool : await readTool(world, server, upstream, tool.name)
      if (listed !== undefined && now?.digest !== listed) {
        forgetTools(world, server)
        session?.stream?.send({ method: 'notifications/tools/list_changed' })
        throw new ToolFailure(
          `The tool ${name} has changed since it was listed: list the tools again`,
        )
      }
      const answer = await upstream.callTool(tool.name, filtered)
      await checkResult(tool, answer)
      return answer as Json
    },
  })
  return 'answer' in result ? result.answer : showFailure(result.failure)
}

const showFailure = (text: string): Json => ({ content: [{ type: 'text', text }], isError: true })

async function readTool(
  world: ToolWorld,
  server: McpServer,
  upstream: McpSession,
  name: string,
): Promise<McpTool | undefined> {
  const { tools } = await readSessionTools(world, server, upstream)
  return tools.find(tool => tool.name === name)
}

/** Throws where a result is not what the tool says that its results are. */
async function checkResult({ outputSchema }: McpTool, result: CallToolResult): Promise<void> {
  if (!outputSchema || result.isError) return
  const { structuredContent } = result
  const path = structuredContent
    ? await runInTurns(findMismatch(outputSchema, structuredContent, { hasPatterns: false }))
    : ''
  if (path === null) return
  throw new ToolFailure('The MCP server answered with what its tool says that it never answers')
}

/** Finds the tool that a name means. Throws 404, and 403 before a server is asked that is forbidden. */
async function findTool(
  world: ToolWorld,
  request: McpRequest,
  name: string,
): Promise<{ server: McpServer; tool: McpTool }> {
  const { actor } = request
  for (const label of listLabels(world, request, name)) {
    const server = requireServer(world, actor, label)
    checkServer(world, actor, server)
    const { tools } = await listServerTools(world, server).catch((thrown: unknown) => {
      throw new GatewayError('provider_unavailable', toFailedResult(thrown).text)
    })
    const tool = tools.find(one => nameTool(request, server, one.name) === name)
    if (tool) return { server, tool }
  }
  throw notFound(`There is no tool ${JSON.stringify(name.slice(0, LONGEST_NAME))} here`)
}

const LONGEST_NAME = 128

/** Lists the servers of which a name may be: it begins with the label, or is at the label's path. */
function listLabels({ config }: ToolWorld, { label }: McpRequest, name: string): string[] {
  if (label !== null) return [label]
  const begins = (one: string) => name.startsWith(nameFunction(one, '').slice(0, SURE_START))
  return Object.keys(config.mcp_servers).filter(begins)
}

/** So much of a name stands as it is, however long it is. */
const SURE_START = 55

/** Lists the prompts or the resources of each server. */
async function listNamed(
  world: ToolWorld,
  request: McpRequest,
  method: AskedMethod,
  field: 'prompts' | 'resources',
): Promise<Json> {
  const lists = await askEach(world, request, async server => {
    const items = await askAll(world, request, server, method, field)
    return items.map(item => (isAlone(request) ? item : nameItem(server, item)))
  })
  return { [field]: lists.flat() }
}

/** Names a prompt or a resource so that no two servers have the same. */
const nameItem = ({ label }: McpServer, item: Json): Json =>
  'uri' in item
    ? { ...item, uri: `${JOINED}${label}/${encodeURIComponent(String(item.uri))}` }
    : { ...item, name: `${label}__${item.name}` }

/** What the URIs of resources begin with at the path of all servers. */
const JOINED = 'gateway://mcp/'

// Whatever a template stands for has no place in the URIs of the path of all.
async function listTemplates(world: ToolWorld, request: McpRequest): Promise<Json> {
  const lists = await askEach(world, request, async server =>
    isAlone(request)
      ? askAll(world, request, server, 'resources/templates/list', 'resourceTemplates')
      : [],
  )
  return { resourceTemplates: lists.flat() }
}

const MOST_PAGES = 20
const MOST_ITEMS = 1_024

/** Asks a server for the pages of a list, within the rates of the actor's key. */
async function askAll(
  world: ToolWorld,
  { actor }: McpRequest,
  server: McpServer,
  method: AskedMethod,
  field: string,
): Promise<Json[]> {
  const leave = await admitRequest(world, actor, false)
  try {
    return await runLimited(new Cancellation(), server.timeoutMilliseconds, limit =>
      runSession(world, server, limit, async session => {
        const items: Json[] = []
        let cursor: unknown
        for (let pages = 0; pages < MOST_PAGES && items.length < MOST_ITEMS; pages++) {
          const page = await session.ask(method, cursor === undefined ? {} : { cursor })
          items.push(...readObjects(page?.[field]).slice(0, MOST_ITEMS - items.length))
          cursor = page?.nextCursor
          if (cursor === undefined) break
        }
        return hideSecretsInJson(items, server)
      }),
    )
  } finally {
    leave()
  }
}

async function getPrompt(
  world: ToolWorld,
  request: McpRequest,
  { name, arguments: input = {} }: Json,
): Promise<Json> {
  if (typeof name !== 'string') throw invalid('name: expected the name of a prompt', 'name')
  if (!isObject(input)) throw invalid('arguments: expected an object', 'arguments')
  const [label, own] = request.label === null ? splitName(name) : [request.label, name]
  return askServer(world, request, label, 'prompts/get', { name: own, arguments: input })
}

/** Splits the name of a prompt at the path of all. */
function splitName(name: string): [label: string, own: string] {
  const at = name.indexOf('__', 1)
  if (at === -1) throw notFound('There is no such prompt here')
  return [name.slice(0, at), name.slice(at + 2)]
}

async function readResource(world: ToolWorld, request: McpRequest, { uri }: Json): Promise<Json> {
  if (typeof uri !== 'string') throw invalid('uri: expected the URI of a resource', 'uri')
  const [label, own] = request.label === null ? splitUri(uri) : [request.label, uri]
  return askServer(world, request, label, 'resources/read', { uri: own })
}

function splitUri(uri: string): [label: string, own: string] {
  const [, label, own] = /^gateway:\/\/mcp\/([A-Za-z0-9_-]+)\/(.+)$/.exec(uri) ?? []
  if (label === undefined || own === undefined) throw notFound('There is no such resource here')
  try {
    return [label, decodeURIComponent(own)]
  } catch {
    throw notFound('There is no such resource here')
  }
}

/** Asks a server for a prompt or a resource, as a call that costs nothing. */
async function askServer(
  world: ToolWorld,
  request: McpRequest,
  label: string,
  method: AskedMethod,
  input: Json,
): Promise<Json> {
  const { actor } = request
  const server = requireServer(world, actor, label)
  checkServer(world, actor, server)
  const result = await useServer(world, request, {
    ...{ server, name: method, input, isPriced: false },
    async work(session, filtered) {
      const answer = await session.ask(method, filtered)
      if (!answer) throw new ToolFailure(`The MCP server ${label} has none`)
      return answer
    },
  })
  if ('answer' in result) return result.answer
  throw new GatewayError('provider_unavailable', result.failure)
}

/** A client that waits for an answer, and what it may be asked by until then. */
interface WaitingClient {
  /** Null for one that keeps none. */
  session: ClientSession | null
  /** Opens a stream for questions before the answer; null for a client that reads none. */
  openStream: (() => MessageStream) | null
  signal: AbortSignal
}

/** A call of a tool, as a user allows it. */
interface Subject {
  server: McpServer
  tool: string
  input: Json
}

/** Who allows something has to see all of it. */
const LONGEST_ARGUMENTS = 64 * 1024
/** More would be questions that no user answers. */
const MOST_QUESTIONS = 16

/**
 * Asks the client's user to allow a call, where the operator wants that: once, for this call alone,
 * by elicitation. Returns whether it had to. Throws 403 unless they allow it, and for a client that
 * cannot ask.
 */
export async function getApproval(
  world: ExtensionWorld,
  { session, openStream, signal }: WaitingClient,
  { server: { label }, tool, input }: Subject,
): Promise<boolean> {
  const { mcp_servers, mcp, service_name } = world.config
  if (mcp_servers[label]?.require_approval !== 'always') return false
  const refuse = (reason: string) =>
    denied(`The tool ${tool} needs an approval (mcp_servers.${label}.require_approval): ${reason}`)
  if (!session?.canAsk || !openStream)
    throw refuse('only clients that declare elicitation can be asked for it')
  const shown = showArguments(input)
  if (shown.length > LONGEST_ARGUMENTS) throw refuse('its arguments are too long to be shown')
  if (session.questions.size >= MOST_QUESTIONS) throw refuse('too many of them are waiting')
  const id = world.ids.uuid()
  const answered = Promise.withResolvers<Json>()
  const refuseLate = () => answered.reject(refuse('there was no answer in time'))
  const timeout = new Timeout(mcp.approval_seconds * 1000, refuseLate)
  const leave = () => answered.reject(clientLeft())
  signal.addEventListener('abort', leave, { once: true })
  session.questions.set(id, answered.resolve)
  try {
    const message = `${service_name}: allow the tool ${tool} of ${label} with ${shown}?`
    const requestedSchema = { type: 'object', properties: {} }
    const question = { id, method: 'elicitation/create', params: { message, requestedSchema } }
    openStream().send(question)
    const { result } = await answered.promise
    if (isObject(result) && result.action === 'accept') return true
    throw refuse('it was not given')
  } finally {
    session.questions.delete(id)
    signal.removeEventListener('abort', leave)
    timeout.stop()
  }
}

/** Characters that show others differently, or nothing at all. */
const UNSEEN = /[\p{Cf}\p{Cc}\p{Co}\p{Zl}\p{Zp}]/gu

/** Shows arguments as they are: what cannot be seen stands as its escape. */
const showArguments = (input: Json): string =>
  JSON.stringify(input).replace(UNSEEN, character =>
    [...Array(character.length).keys()]
      .map(i => `\\u${character.charCodeAt(i).toString(16).padStart(4, '0')}`)
      .join(''),
  )

/** The rules of the guardrails that apply to an actor: what is used must satisfy each. */
const listRules = (world: ExtensionWorld, actor: Actor): McpRule[] =>
  listAppliedGuardrails(world, actor).flatMap(({ guardrail }) => guardrail.mcp ?? [])

/**
 * Returns a server of the config. Throws 404 for one that there is not, and 403 for one that the
 * config or the actor's workspace has switched off.
 */
function requireServer(world: ExtensionWorld, actor: Actor, label: string): McpServer {
  if (!Object.hasOwn(world.config.mcp_servers, label))
    throw notFound('There is no such MCP server: mcp_servers of the config names them')
  const server = resolveServer(world.config, readMcpOptions({ server_label: label }, 'server'))
  if ('obstacle' in server) throw denied(server.obstacle)
  if (isDisabledTool(world, actor.workspace_id, ['mcp']))
    throw denied('MCP servers are disabled in this workspace')
  return server
}

/** Lists the servers that an actor may use: the named one, or all. Never throws. */
const listServers = (world: ExtensionWorld, actor: Actor, label: string | null): McpServer[] =>
  (label === null ? Object.keys(world.config.mcp_servers) : [label]).flatMap(one => {
    try {
      const server = requireServer(world, actor, one)
      checkServer(world, actor, server)
      return server
    } catch (thrown) {
      if (thrown instanceof GatewayError) return []
      throw thrown
    }
  })

/** Throws 403 where a guardrail keeps the actor from a server: by its label, or as any receiver. */
function checkServer(world: ExtensionWorld, actor: Actor, { label }: McpServer): void {
  if (!listRules(world, actor).every(({ servers }) => servers?.includes(label) ?? true))
    throw refuse(`The MCP server ${label} is not allowed by a guardrail (servers)`)
  const service = mcp.findService?.(world, readMcpOptions({ server_label: label }, 'server'))
  const call = { models: [`mcp/${label}`], routing: {} } as unknown as CallBase
  if (service) requireService(world, { call, policy: getPolicy(world, actor) }, service)
}

/** Whether the operator and the guardrails let an actor use a tool. */
function mayUseTool(
  world: ExtensionWorld,
  actor: Actor,
  { label, operatorTools }: McpServer,
  tool: string,
): boolean {
  const isAllowed = ({ tools }: McpRule) => tools?.includes(`${label}:${tool}`) ?? true
  return (operatorTools?.includes(tool) ?? true) && listRules(world, actor).every(isAllowed)
}

/** Throws 403 where the actor may not use a tool, or not with these arguments. */
async function checkTool(
  world: ExtensionWorld,
  actor: Actor,
  server: McpServer,
  tool: string,
  input: Json,
): Promise<void> {
  const { label } = server
  if (!mayUseTool(world, actor, server, tool))
    throw refuse(`The tool ${tool} of the MCP server ${label} is not allowed here (tools)`)
  for (const { arguments: schemas = {} } of listRules(world, actor)) {
    const schema = Object.hasOwn(schemas, `${label}:${tool}`) ? schemas[`${label}:${tool}`] : null
    if (!schema) continue
    const path = await runInTurns(findMismatch(schema, input, { hasPatterns: true }))
    if (path === null) continue
    const at = path === '' ? 'arguments' : `arguments.${path}`
    throw refuse(`${at}: not as a guardrail allows them for the tool ${tool}`)
  }
}

/** Describes what an actor may use, so that two descriptions differ where that does. */
const describeRights = (world: ExtensionWorld, actor: Actor, label: string | null): string =>
  JSON.stringify([
    listServers(world, actor, label).map(server => [server.label, server.operatorTools]),
    listRules(world, actor),
  ])

const refuse = (message: string): GatewayError =>
  denied(message).with({ metadata: { excluded_by: ['mcp'] } })
