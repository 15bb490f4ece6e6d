import { probeSandbox } from '../../network/sandboxes/registry.ts'
import type { ServerTool, ToolWorld } from '../server-tool.ts'

/** A tool, or something that it works with, and whether it can be used with this configuration. */
export interface ToolState {
  /** `web_search`; of an engine or a server: `web_search/exa`. */
  tool: string
  works: boolean
  /** Why it cannot be used, or with which models alone it can; null if it can with all. */
  reason: string | null
}

/**
 * Lists the tools that the gateway runs itself, each with the engines or servers that it works with.
 * Sends no request: `gateway providers check` does.
 */
export async function listTools(world: ToolWorld): Promise<{ data: ToolState[] }> {
  await probeSandbox(world)
  const data = world.tools.flatMap(tool => [
    findToolState(world, tool),
    ...(tool.listParts?.(world) ?? []).map(({ name, obstacle }) =>
      buildState(`${tool.name}/${name}`, obstacle),
    ),
  ])
  return { data }
}

const buildState = (tool: string, reason: string | null): ToolState => ({
  tool,
  works: reason === null,
  reason,
})

function findToolState(world: ToolWorld, tool: ServerTool): ToolState {
  const options = tool.readOptions(tool.example ?? {}, 'parameters')
  const obstacle = tool.findObstacle(world, options)
  const reach = obstacle === null ? tool.findReach?.(world) : null
  return reach ? { tool: tool.name, ...reach } : buildState(tool.name, obstacle)
}
