import { denied, invalid } from '../errors.ts'
import type { Actor } from '../identity/actor.ts'
import { isObject, readString } from '../kernel/json.ts'
import type { DialectWorld } from './world.ts'

/** What a body may say of tools that the gateway runs itself (wire reference D.2 and D.6). */
interface ServerToolFields {
  tools?: unknown[] | null
  tool_choice?: unknown
  stop_server_tools_when?: unknown
}

/**
 * Checks what a body says of tools that the gateway runs itself: none is here yet, so they and their
 * stop conditions would have no effect. Tools of providers are none of them. Throws 403 for a tool
 * that the workspace has disabled, and 400 for all others.
 */
export function refuseServerTools(world: DialectWorld, actor: Actor, body: ServerToolFields): void {
  refuseStopConditions(body)
  for (const [i, tool] of (body.tools ?? []).entries())
    refuseServerTool(world, actor, tool, `tools.${i}.type`)
  refuseServerTool(world, actor, body.tool_choice, 'tool_choice.type')
}

/** Throws 400 for conditions that would stop tools of the gateway itself. */
export function refuseStopConditions({ stop_server_tools_when }: ServerToolFields): void {
  if (stop_server_tools_when != null)
    throw invalid(
      'stop_server_tools_when: expected nothing, as this gateway runs no tools itself yet',
      'stop_server_tools_when',
    )
}

function refuseServerTool(world: DialectWorld, actor: Actor, tool: unknown, field: string): void {
  const type = isObject(tool) ? readString(tool.type) : null
  const at = type?.indexOf(':') ?? -1
  if (type === null || !isService(world, type.slice(0, Math.max(at, 0)))) return
  const name = type.slice(at + 1)
  const { disabled_server_tools: disabled } = world.memory.workspaces.get(actor.workspace_id) ?? {}
  if (disabled?.some(one => one.slice(one.indexOf(':') + 1) === name))
    throw denied(`The workspace has disabled the tool ${type.slice(0, 100)}`)
  throw invalid(`${field}: expected no tool of the gateway itself, as it has none yet`, field)
}

const isService = ({ config }: DialectWorld, name: string) =>
  name === 'openrouter' || name === 'gateway' || name === config.service_name
