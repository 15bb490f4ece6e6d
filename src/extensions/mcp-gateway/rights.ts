import { denied, GatewayError, notFound } from '../../base/errors.ts'
import type { Json } from '../../base/json.ts'
import { runInTurns } from '../../base/turns.ts'
import { requireService } from '../../engine/plan/constraints.ts'
import type { CallBase } from '../../language/call.ts'
import { getPolicy, listAppliedGuardrails } from '../../limits/effective.ts'
import type { McpRule } from '../../limits/guardrails/mcp-rule.ts'
import type { Actor } from '../../resources/actor.ts'
import { isDisabledTool } from '../../resources/workspaces/disabled-tools.ts'
import { readMcpOptions } from '../tools/mcp/options.ts'
import { type McpServer, resolveServer } from '../tools/mcp/server.ts'
import { mcp } from '../tools/mcp.ts'
import type { ExtensionWorld } from '../world.ts'
import { findMismatch } from './json-schema.ts'

/** The rules of the guardrails that apply to an actor: what is used must satisfy each. */
const listRules = (world: ExtensionWorld, actor: Actor): McpRule[] =>
  listAppliedGuardrails(world, actor).flatMap(({ guardrail }) => guardrail.mcp ?? [])

/**
 * Returns a server of the config. Throws 404 for one that there is not, and 403 for one that the
 * config or the actor's workspace has switched off.
 */
export function requireServer(world: ExtensionWorld, actor: Actor, label: string): McpServer {
  if (!Object.hasOwn(world.config.mcp_servers, label))
    throw notFound('There is no such MCP server: mcp_servers of the config names them')
  const server = resolveServer(world.config, readMcpOptions({ server_label: label }, 'server'))
  if ('obstacle' in server) throw denied(server.obstacle)
  if (isDisabledTool(world, actor.workspace_id, ['mcp']))
    throw denied('MCP servers are disabled in this workspace')
  return server
}

/** Lists the servers that an actor may use: the named one, or all. Never throws. */
export const listServers = (
  world: ExtensionWorld,
  actor: Actor,
  label: string | null,
): McpServer[] =>
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
export function checkServer(world: ExtensionWorld, actor: Actor, { label }: McpServer): void {
  if (!listRules(world, actor).every(({ servers }) => servers?.includes(label) ?? true))
    throw refuse(`The MCP server ${label} is not allowed by a guardrail (servers)`)
  const service = mcp.findService?.(world, readMcpOptions({ server_label: label }, 'server'))
  const call = { models: [`mcp/${label}`], routing: {} } as unknown as CallBase
  if (service) requireService({ call, policy: getPolicy(world, actor) }, service)
}

/** Whether the operator and the guardrails let an actor use a tool. */
export function mayUseTool(
  world: ExtensionWorld,
  actor: Actor,
  { label, operatorTools }: McpServer,
  tool: string,
): boolean {
  const isAllowed = ({ tools }: McpRule) => tools?.includes(`${label}:${tool}`) ?? true
  return (operatorTools?.includes(tool) ?? true) && listRules(world, actor).every(isAllowed)
}

/** Throws 403 where the actor may not use a tool, or not with these arguments. */
export async function checkTool(
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
export const describeRights = (world: ExtensionWorld, actor: Actor, label: string | null): string =>
  JSON.stringify([
    listServers(world, actor, label).map(server => [server.label, server.operatorTools]),
    listRules(world, actor),
  ])

const refuse = (message: string): GatewayError =>
  denied(message).with({ metadata: { excluded_by: ['mcp'] } })
