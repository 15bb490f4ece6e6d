import type { Run } from '../inference/run.ts'
import type { InferenceWorld } from '../inference/world.ts'

/** Tells whether the run's workspace has disabled a tool. */
export function isToolDisabled({ memory }: InferenceWorld, { actor }: Run, tool: string): boolean {
  const { disabled_server_tools: disabled } = memory.workspaces.get(actor.workspace_id) ?? {}
  return disabled?.some(name => name.slice(name.indexOf(':') + 1) === tool) ?? false
}
