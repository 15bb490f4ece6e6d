import { denied } from '../errors.ts'
import type { Run } from '../inference/run.ts'
import type { InferenceWorld } from '../inference/world.ts'

/** Throws 403 if the run's workspace has disabled the tool that a plugin uses. */
export function requireTool({ memory }: InferenceWorld, { actor }: Run, tool: string): void {
  const { disabled_server_tools: disabled } = memory.workspaces.get(actor.workspace_id) ?? {}
  if (disabled?.some(name => name.slice(name.indexOf(':') + 1) === tool))
    throw denied(`The workspace has disabled the tool ${tool}`)
}
