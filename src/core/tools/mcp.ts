import { GatewayError, invalid } from '../errors.ts'
import type {
  ServerTool,
  ToolApproval,
  ToolContext,
  ToolFunction,
  ToolInvocation,
  ToolResult,
} from '../inference/server-tool.ts'
import type { InferenceWorld } from '../inference/world.ts'
import { checkUntrustedUrl } from '../upstream/untrusted-url.ts'
import { type McpOptions, McpParameters, readMcpOptions } from './mcp/options.ts'
import { renderContent } from './mcp/result.ts'
import { findServerObstacle, type McpServer, needsApproval, resolveServer } from './mcp/server.ts'
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
import { markAsData } from './untrusted-text.ts'
import { buildFailedResult, runUse, toFailedResult, type UseLimit } from './use-limit.ts'

/**
 * The tool that uses the tools of MCP servers, over streamable HTTP (wire reference D.6): servers of
 * callers by URL, and servers of the config by label. Its fields stand beside its `type`.
 */
export const mcp: ServerTool<McpOptions> = {
  name: 'mcp',
  shorthands: ['mcp'],
  schema: McpParameters,
  example: { server_label: 'example', server_url: 'https://mcp.example.com' },
  readOptions: readMcpOptions,
  findObstacle({ config }, options) {
    const server = resolveServer(config, options)
    return 'obstacle' in server ? server.obstacle : null
  },
  listParts: ({ config }) =>
    Object.keys(config.mcp_servers).map(label => ({
      name: label,
      obstacle: findServerObstacle(config, label),
    })),
  priceUse({ config }, options) {
    const server = resolveServer(config, options)
    return 'obstacle' in server ? 0n : (server.price ?? 0n)
  },
  listFunctions,
  describeUse: (_, { options, name }) => toItem(describeUse(options, name)),
  findApproval(world, { options, name }) {
    const server = resolveServer(world.config, options)
    if ('obstacle' in server) return null
    const { name: tool } = describeUse(options, name)
    return needsApproval(server, tool) ? { server_label: server.label, name: tool } : null
  },
  run: runTool,
}

async function listFunctions(
  world: InferenceWorld,
  { options, run }: ToolContext<McpOptions>,
): Promise<ToolFunction[]> {
  const server = resolveServer(world.config, options)
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
  world: InferenceWorld,
  server: McpServer,
  { path }: McpOptions,
): Promise<ToolList> {
  if (!server.isConfigured) await checkUntrustedUrl(world, server.url, `${path}.server_url`)
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
  world: InferenceWorld,
  { options }: Pick<ToolContext<McpOptions>, 'options'>,
): Promise<Record<string, unknown>> {
  const { server_label } = options
  try {
    const server = resolveServer(world.config, options)
    if ('obstacle' in server) return { server_label, tools: [], error: server.obstacle }
    const list = await readTools(world, server, options)
    const tools = selectTools(list, server, options.allowed).map(describeTool)
    return { server_label, tools, error: describeLeftOut(list) }
  } catch (thrown) {
    return { server_label, tools: [], error: GatewayError.from(thrown).message }
  }
}

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

function noteNames(server: McpServer, options: McpOptions, list: ToolList): void {
  const tools = selectTools(list, server, options.allowed)
  names.set(options, new Map(tools.map(({ name }) => [nameFunction(server.label, name), name])))
}

/** Returns whose tool a function is, and its own name. */
function describeUse(options: McpOptions, functionName: string): ToolApproval {
  const name = names.get(options)?.get(functionName) ?? functionName
  return { server_label: options.server_label, name }
}

/** Renders it under the names of the item `openrouter:mcp` (wire reference D.4). */
const toItem = ({ server_label, name }: ToolApproval) => ({
  serverLabel: server_label,
  toolName: name,
})

async function runTool(
  world: InferenceWorld,
  invocation: ToolInvocation<McpOptions>,
): Promise<ToolResult> {
  const { options, uses } = invocation
  const server = resolveServer(world.config, options)
  const use = describeUse(options, invocation.name)
  const item = toItem(use)
  const { max_uses } = world.config.mcp
  if ('obstacle' in server) return buildFailedResult(server.obstacle, item)
  if (uses >= max_uses)
    return buildFailedResult(`No more calls: this call may make ${max_uses}`, item)
  if (!names.get(options)?.has(invocation.name))
    return buildFailedResult('There is no such tool', item)
  if (needsApproval(server, use.name) && invocation.isApproved !== true)
    return buildFailedResult(NOT_APPROVED, item)
  const result = await runUse(invocation, server.timeoutMilliseconds, limit =>
    callTool(world, server, invocation, use, limit),
  )
  return { ...result, item }
}

const NOT_APPROVED =
  'This tool needs the approval of the user, which was not given: require_approval decides'

async function callTool(
  world: InferenceWorld,
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
    ...(server.price === null ? {} : { cost: server.price }),
  }
}
