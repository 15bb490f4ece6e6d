import type { CallToolResult } from '@modelcontextprotocol/sdk/types.js'
import { GatewayError, invalid } from '../../base/errors.ts'
import { isObject, type Json, readString } from '../../base/json.ts'
import type { Run } from '../../engine/run.ts'
import type { TextCall } from '../../language/call.ts'
import type { Block, Message } from '../../language/message.ts'
import type { ServerToolRequest } from '../../language/server-tools.ts'
import { hideSecrets } from '../../network/clean-reason.ts'
import { checkUntrustedUrl } from '../../network/untrusted-url.ts'
import type { Endpoint } from '../../resources/models/catalog.ts'
import { listSpoken } from '../../resources/models.ts'
import type {
  ApprovedUse,
  RestoreContext,
  Restored,
  ServerTool,
  ToolContext,
  ToolFunction,
  ToolInvocation,
  ToolResult,
} from '../server-tool.ts'
import type { ExtensionWorld } from '../world.ts'
import {
  type ApprovalDecision,
  buildApprovalRequest,
  checkApproval,
  type PlacedItem,
  readApprovals,
} from './mcp/approval.ts'
import { type McpOptions, McpParameters, noConnectors, readMcpOptions } from './mcp/options.ts'
import { findServerObstacle, listSecrets, type McpServer, resolveServer } from './mcp/server.ts'
import { runSession } from './mcp/session.ts'
import {
  getKnownTools,
  listServerTools,
  type McpTool,
  nameFunction,
  selectTools,
  type ToolList,
  toFunction,
} from './mcp/tool-list.ts'
import { cleanText, cutBytes, cutText, markAsData } from './untrusted-text.ts'
import { buildFailedResult, runUse, toFailedResult, type UseLimit } from './use-limit.ts'

/** The providers whose own API calls MCP servers, by that of OpenAI. */
const NATIVE_PROVIDERS = new Set(['openai', 'azure', 'xai'])

/**
 * Returns the call with the tool as its providers have it themselves; null if the gateway runs it:
 * it was asked for by a prefixed name or in another API, the server is one of the config, an
 * endpoint of the call cannot do it, the call has conditions that stop tools, or the client answers a request that this gateway made.
 */
function delegateToProvider(
  world: ExtensionWorld,
  call: TextCall,
  { isPlain, server_url, connector_id, given }: McpOptions,
): TextCall | null {
  if (!isPlain || call.dialect !== 'responses') return null
  if (server_url === null && connector_id === null) return null
  // No provider knows the gateway's conditions.
  const { hasConditions = false, max_tool_calls = null } = call.serverTools?.asked ?? {}
  if (hasConditions || !isLeftToProviders(world, call) || answersOwnRequest(call)) return null
  const value = { type: 'mcp', ...given }
  return {
    ...call,
    tools: [...call.tools, { type: 'other', dialect: 'responses', value }],
    extra: { ...call.extra, ...(max_tool_calls === null ? {} : { max_tool_calls }) },
  }
}

function isLeftToProviders({ catalog }: ExtensionWorld, { models, dialect }: TextCall): boolean {
  const endpoints = models.map(slug => {
    const model = catalog.models.get(slug)
    return model ? listSpoken(model, dialect) : []
  })
  return endpoints.length > 0 && endpoints.every(list => list.length > 0 && list.every(isNative))
}

const isNative = ({ provider, protocol }: Endpoint): boolean =>
  protocol === 'openai-responses' && NATIVE_PROVIDERS.has(provider.slug)

/** Requests of the gateway itself have ids of this form. */
const OWN_REQUEST = /^mcpr_[0-9a-z]{1,6}_[0-9a-z]{1,10}_[0-9a-f]{32}$/

const answersOwnRequest = ({ messages }: TextCall): boolean =>
  messages
    .flatMap(({ blocks }) => blocks)
    .some(
      block =>
        block.type === 'other' &&
        isObject(block.value) &&
        block.value.type === 'mcp_approval_response' &&
        OWN_REQUEST.test(String(block.value.approval_request_id)),
    )

/**
 * The tool that uses the tools of MCP servers, over streamable HTTP (wire reference D.6): servers of
 * callers by URL, and servers of the config by label. Its fields stand beside its `type`.
 */
export const mcp: ServerTool<McpOptions> = {
  name: 'mcp',
  plainTypes: ['mcp'],
  schema: McpParameters,
  example: { server_label: 'example', server_url: 'https://mcp.example.com' },
  readOptions: (parameters, path, reading) => readMcpOptions(parameters, path, reading?.isPlain),
  identify: ({ server_label }) => server_label,
  findObstacle({ config }, options) {
    // Its provider may have it: the gateway refuses it by its name where it lists tools.
    if (options.connector_id !== null && config.mcp.enabled) return null
    const server = resolveServer(config, options)
    return 'obstacle' in server ? server.obstacle : null
  },
  listParts: ({ config }) =>
    Object.keys(config.mcp_servers).map(label => ({
      name: label,
      obstacle: findServerObstacle(config, label),
    })),
  asksWhenOffered: true,
  findService({ config }, options) {
    const server = resolveServer(config, options)
    if ('obstacle' in server) return null
    const provider = server.isConfigured ? 'mcp' : 'mcp_url'
    const { label, data_policy } = server
    return {
      ...{ name: `the MCP server ${label}`, provider, model: label, data_policy },
      isNoProvider: true,
    }
  },
  priceUse({ config }, options) {
    const server = resolveServer(config, options)
    return 'obstacle' in server ? 0n : (server.price ?? 0n)
  },
  delegate: delegateToProvider,
  listFunctions,
  announce: announceTools,
  restore: restoreItems,
  requestApproval,
  describeUse: (_, use) => toItem(use, describeUse(use.options, use.name), use.input),
  describeRefusal({ options, run }, { name, input }) {
    const { server_label, name: tool } = describeUse(options, name)
    return isPublicForm(run, options)
      ? { type: 'mcp_call', server_label, name: tool, arguments: input, output: null }
      : { serverLabel: server_label, toolName: tool }
  },
  isChosen: (options, { server_label, name }, functionName) =>
    (server_label === undefined || server_label === options.server_label) &&
    (name == null || name === describeUse(options, functionName).name),
  run: runTool,
}

/** A use by whose tool it is: the server's label, and the tool's own name. */
interface OwnName {
  server_label: string
  name: string
}

/** Whether a call shows the tool in the form of OpenAI's API (wire reference D.4). */
const isPublicForm = ({ call }: Run, { isPlain }: McpOptions): boolean =>
  isPlain && isOfResponses(call)

const isOfResponses = (call: Run['call']): boolean =>
  call?.kind === 'text' && call.dialect === 'responses'

/** Finds what the client must approve before this use may run; null if it may. */
export function findApproval(
  world: ExtensionWorld,
  { options, name, approvalId }: ToolInvocation<McpOptions>,
): OwnName | null {
  const server = resolveServer(world.config, options)
  if ('obstacle' in server || approvalId !== undefined) return null
  const use = describeUse(options, name)
  return names.get(options)?.has(name) && needsApproval(server, use.name) ? use : null
}

// Other APIs have no such item: there the use does not run, and the model is told why.
function requestApproval(
  world: ExtensionWorld,
  invocation: ToolInvocation<McpOptions>,
): Json | null {
  const { run, options, input } = invocation
  const approval = isOfResponses(run.call) ? findApproval(world, invocation) : null
  const server = resolveServer(world.config, options)
  if (!approval || 'obstacle' in server) return null
  const { workspace_id } = run.actor
  return buildApprovalRequest(world, { workspace_id, server, name: approval.name, input })
}

/** Lists the tools of the server as an item, unless the conversation has that. */
function announceTools(world: ExtensionWorld, { options, run }: ToolContext<McpOptions>): Json[] {
  const { call } = run
  if (!isPublicForm(run, options) || call.kind !== 'text' || run.isDry) return []
  if (listAnnounced(call.messages).has(options.server_label)) return []
  const list = lists.get(options)
  const server = resolveServer(world.config, options)
  if (!list || 'obstacle' in server) return []
  return [{ type: 'mcp_list_tools', ...describeList(list, server, options) }]
}

async function listFunctions(
  world: ExtensionWorld,
  { options, run }: ToolContext<McpOptions>,
): Promise<ToolFunction[]> {
  const server = resolveServer(world.config, options)
  if (options.connector_id !== null) throw noConnectors(options.path)
  if ('obstacle' in server) throw invalid(`${options.path}: ${server.obstacle}`, options.path)
  const list = await (run.isDry
    ? (getKnownTools(world, server) ?? EMPTY_LIST)
    : readTools(world, server, options))
  noteNames(server, options, list)
  return selectTools(list, server, options.allowed).map(tool =>
    toFunction(server.label, tool, options.server_description),
  )
}

const EMPTY_LIST: ToolList = { tools: [], leftOut: 0 }

/**
 * Lists the tools of a server. Throws 400 for a URL that may not be called, and 424 with a sentence
 * of our own if its tools cannot be listed.
 */
async function readTools(
  world: ExtensionWorld,
  server: McpServer,
  { path, server_url }: McpOptions,
): Promise<ToolList> {
  if (server_url !== null) await checkUntrustedUrl(world, server_url, `${path}.server_url`)
  try {
    return await listServerTools(world, server)
  } catch (thrown) {
    const { text } = toFailedResult(thrown)
    throw new GatewayError('invalid_request', `${path}: its tools cannot be listed: ${text}`, {
      status: FAILED_DEPENDENCY,
      metadata: { field: path },
    })
  }
}

/** As OpenAI's API answers when a server's tools cannot be listed. */
const FAILED_DEPENDENCY = 424

/**
 * Lists the tools of a server as the item `mcp_list_tools` shows them (wire reference D.4), without
 * its type and id. A failure is its `error`.
 */
export async function describeTools(
  world: ExtensionWorld,
  { options }: Pick<ToolContext<McpOptions>, 'options'>,
): Promise<Record<string, unknown>> {
  const { server_label } = options
  try {
    const server = resolveServer(world.config, options)
    if ('obstacle' in server) return { server_label, tools: [], error: server.obstacle }
    const list = await readTools(world, server, options)
    return describeList(list, server, options)
  } catch (thrown) {
    return { server_label, tools: [], error: GatewayError.from(thrown).message }
  }
}

const describeList = (
  list: ToolList,
  server: McpServer,
  { server_label, allowed }: McpOptions,
) => ({
  server_label,
  tools: selectTools(list, server, allowed).map(describeTool),
  error: describeLeftOut(list),
})

const describeTool = ({ name, description, inputSchema, isReadOnly }: McpTool) => ({
  name,
  description,
  input_schema: inputSchema,
  annotations: { readOnlyHint: isReadOnly },
})

const describeLeftOut = ({ leftOut }: ToolList): string | null =>
  leftOut === 0
    ? null
    : `${leftOut} of its tools cannot be used: their names or schemas are not acceptable`

// The tools' own names by those of their functions, for the options of one call: known since its
// functions were listed.
const names = new WeakMap<McpOptions, Map<string, string>>()

// What was listed for them, too, so that no server is asked twice.
const lists = new WeakMap<McpOptions, ToolList>()

function noteNames(server: McpServer, options: McpOptions, list: ToolList): void {
  lists.set(options, list)
  const tools = selectTools(list, server, options.allowed)
  names.set(options, new Map(tools.map(({ name }) => [nameFunction(server.label, name), name])))
}

/** Returns whose tool a function is, and its own name. */
function describeUse(options: McpOptions, functionName: string): OwnName {
  const name = names.get(options)?.get(functionName) ?? functionName
  return { server_label: options.server_label, name }
}

/** Renders a use as the item that its call shows: `mcp_call` or `openrouter:mcp` (D.4). */
function toItem(
  { options, run, approvalId }: ToolInvocation<McpOptions>,
  { server_label, name }: OwnName,
  input: Json,
): Json {
  if (!isPublicForm(run, options)) return { serverLabel: server_label, toolName: name }
  return {
    ...{ type: 'mcp_call', server_label, name, arguments: JSON.stringify(input) },
    ...{ output: null, error: null, approval_request_id: approvalId ?? null },
  }
}

async function runTool(
  world: ExtensionWorld,
  invocation: ToolInvocation<McpOptions>,
): Promise<ToolResult> {
  const { options, uses } = invocation
  const server = resolveServer(world.config, options)
  const use = describeUse(options, invocation.name)
  const item = toItem(invocation, use, invocation.input)
  const { max_uses } = world.config.mcp
  if ('obstacle' in server) return buildFailedResult(server.obstacle, item)
  if (uses >= max_uses)
    return buildFailedResult(`No more calls: this call may make ${max_uses}`, item)
  if (!names.get(options)?.has(invocation.name))
    return buildFailedResult('There is no such tool', item)
  if (findApproval(world, invocation)) return buildFailedResult(NOT_APPROVED, item)
  const result = await runUse(invocation, server.timeoutMilliseconds, limit =>
    callTool(world, server, invocation, use, limit),
  )
  return { ...result, item: { ...item, ...(item.type === 'mcp_call' ? result.item : {}) } }
}

const NOT_APPROVED =
  'This tool needs the approval of the user, which was not given: require_approval decides'

async function callTool(
  world: ExtensionWorld,
  server: McpServer,
  { input }: ToolInvocation<McpOptions>,
  { name }: { name: string },
  limit: UseLimit,
): Promise<ToolResult> {
  const result = await runSession(world, server, limit, session => session.callTool(name, input))
  const content = renderContent(server, result, world.config.mcp.max_result_kib * 1024)
  return {
    text: markAsData(`the tool ${name} of the MCP server ${server.label}`, content),
    isError: result.isError === true,
    item: result.isError ? { error: content } : { output: content },
    ...(server.price === null ? {} : { cost: server.price }),
  }
}

type Content = CallToolResult['content'][number]

/**
 * Returns what a tool answered as text, cut to so many bytes: texts as they are, links by their URL,
 * and of pictures and sounds that they were there. Secrets of the server's own are hidden.
 */
function renderContent(
  server: McpServer,
  { content, structuredContent }: CallToolResult,
  mostBytes: number,
): string {
  const texts = content.map(renderPart).filter(text => text !== '')
  const text =
    texts.length === 0 && structuredContent ? JSON.stringify(structuredContent) : texts.join('\n\n')
  const shown = hideSecrets(cleanText(text), listSecrets(server))
  const cut = cutBytes(shown, mostBytes)
  return cut.length < shown.length ? `${cut}\n[The rest was cut off.]` : cut
}

function renderPart(part: Content): string {
  if (part.type === 'text') return part.text
  if (part.type === 'resource_link') return `${part.name}: ${part.uri}`
  if (part.type === 'image' || part.type === 'audio') return `[${part.type}: not shown]`
  return 'text' in part.resource ? part.resource.text : `[file ${part.resource.uri}: not shown]`
}

/** Whether a tool may run only after the client has approved it. */
function needsApproval({ approval }: McpServer, tool: string): boolean {
  if (approval.always.includes(tool)) return true
  return approval.never.includes(tool) ? false : approval.others === 'always'
}

/**
 * Translates the items of MCP servers in a conversation into what every provider takes: a use is a
 * call of its function and its result, and so is one that the client refused. A list of tools is
 * left out, as is a request that has no answer. Approvals that nothing of the model's follows are
 * new: they are checked, and their uses returned.
 */
function restoreItems(
  world: ExtensionWorld,
  run: Run,
  { call, requests }: RestoreContext,
): Restored {
  if (call.dialect !== 'responses' || !call.messages.some(hasItem)) return { call, approved: [] }
  const decisions = readApprovals(call.messages.flatMap(listItems))
  const fresh = listFresh(call.messages, decisions)
  const approved = fresh.flatMap(decision =>
    decision.isApproved ? [toApproved(world, run, requests, decision)] : [],
  )
  const freshIds = new Set(fresh.map(({ id }) => id))
  const restore = (message: Message) => restoreMessage(message, decisions, freshIds)
  return { call: { ...call, messages: call.messages.flatMap(restore) }, approved }
}

const TYPES = new Set([
  'mcp_list_tools',
  'mcp_call',
  'mcp_approval_request',
  'mcp_approval_response',
])

type ItemBlock = Extract<Block, { type: 'other' }> & { value: Json }

const isItem = (block: Block): block is ItemBlock =>
  block.type === 'other' &&
  block.dialect === 'responses' &&
  isObject(block.value) &&
  TYPES.has(String(block.value.type))

const hasItem = ({ blocks }: Message): boolean => blocks.some(isItem)

const listItems = ({ blocks }: Message): PlacedItem[] =>
  blocks.filter(isItem).map(({ value, field = 'input' }) => ({ value, field }))

/** Lists the labels of the servers whose tools the conversation lists already. */
const listAnnounced = (messages: Message[]): Set<unknown> =>
  new Set(
    messages
      .flatMap(listItems)
      .flatMap(({ value }) => (value.type === 'mcp_list_tools' ? [value.server_label] : [])),
  )

/** Lists the decisions after all that the model said. */
function listFresh(
  messages: Message[],
  decisions: Map<string, ApprovalDecision>,
): ApprovalDecision[] {
  const last = messages.findLastIndex(({ role }) => role === 'assistant')
  const ids = messages
    .slice(last + 1)
    .flatMap(listItems)
    .map(({ value }) => String(value.approval_request_id))
  return [...new Set(ids)].flatMap(id => decisions.get(id) ?? [])
}

function toApproved(
  world: ExtensionWorld,
  { actor }: Run,
  requests: ServerToolRequest[],
  decision: ApprovalDecision,
): ApprovedUse {
  const { id, server_label, name, input, field } = decision
  const request = requests.find(
    ({ options }) => (options as McpOptions).server_label === server_label,
  )
  const server = request && resolveServer(world.config, request.options as McpOptions)
  if (!request || !server || 'obstacle' in server)
    throw invalid(
      `${field}: expected an mcp tool labelled ${cutText(cleanText(server_label), 64)} in tools`,
      field,
    )
  checkApproval(world, decision, { workspace_id: actor.workspace_id, server, name, input })
  const functionName = nameFunction(server_label, name)
  return { request, id, name: functionName, input: JSON.stringify(input), field }
}

function restoreMessage(
  { blocks, ...message }: Message,
  decisions: Map<string, ApprovalDecision>,
  fresh: Set<string>,
): Message[] {
  if (!blocks.some(isItem)) return [{ ...message, blocks }]
  const messages: Message[] = []
  let said: Block[] = []
  let results: Message[] = []
  const flush = () => {
    if (said.length > 0) messages.push({ ...message, blocks: said })
    messages.push(...results)
    said = []
    results = []
  }
  for (const block of blocks) {
    const use = isItem(block) ? toUse(block.value, decisions, fresh) : null
    // What a model says after a result is another turn.
    if (!use && !isItem(block) && block.type !== 'tool-call' && results.length > 0) flush()
    if (use) {
      said.push({ type: 'tool-call', id: use.id, name: use.name, input: use.input })
      results.push(toResult(use))
    } else if (!isItem(block)) said.push(block)
  }
  flush()
  return messages
}

/** A use as the conversation tells it. */
interface Use {
  id: string
  name: string
  input: string
  /** Null until it has run. */
  output: string | null
  isError: boolean
}

function toUse(
  item: Json,
  decisions: Map<string, ApprovalDecision>,
  fresh: Set<string>,
): Use | null {
  if (item.type === 'mcp_call') return toFinishedUse(item)
  const decision = item.type === 'mcp_approval_request' && decisions.get(String(item.id))
  if (!decision) return null
  const { id, server_label, name, input, isApproved, reason } = decision
  // One that ran before has an item of its own.
  if (isApproved && !fresh.has(id)) return null
  return {
    ...{ id, name: nameFunction(server_label, name), input: JSON.stringify(input) },
    ...(isApproved
      ? { output: null, isError: false }
      : { output: describeRefusal(reason), isError: true }),
  }
}

function toFinishedUse(item: Json): Use {
  const [label, name] = [readString(item.server_label) ?? 'mcp', readString(item.name) ?? 'tool']
  const error = readString(item.error)
  const words = error ?? readString(item.output)
  const source = `the tool ${name} of the MCP server ${label}`
  return {
    id: readString(item.id) ?? '',
    name: nameFunction(label, name),
    input: readString(item.arguments) || '{}',
    output: words === null ? '' : markAsData(source, words),
    isError: error !== null,
  }
}

const describeRefusal = (reason: string | null): string =>
  `The user did not approve this call${reason === null ? '.' : `: ${reason}`}`

const toResult = ({ id, output, isError }: Use): Message => ({
  role: 'tool',
  tool_call_id: id,
  blocks: output === null ? [] : [{ type: 'text', text: output }],
  ...(isError ? { is_error: true } : {}),
})
