import type { Config } from '../../config.ts'
import type { IdentityWorld } from '../world.ts'

/** What has to be known of who may use a tool. */
interface ToolRules {
  memory: Pick<IdentityWorld['memory'], 'workspaces'>
  config: Pick<Config, 'server_tools'>
}

/**
 * Tells whether a workspace has disabled a tool, by any of its names without a prefix: itself
 * (`disabled_server_tools`), or the config for it.
 */
export function isDisabledTool(
  { memory, config }: ToolRules,
  workspace_id: string,
  names: string[],
): boolean {
  const { disabled_server_tools, slug = '' } = memory.workspaces.get(workspace_id) ?? {}
  const { disabled_tools } = config.server_tools
  const ofConfig = Object.hasOwn(disabled_tools, slug) ? (disabled_tools[slug] ?? []) : []
  const own = (disabled_server_tools ?? []).map(name => name.slice(name.indexOf(':') + 1))
  return names.some(name => own.includes(name) || ofConfig.some(one => one === name))
}
