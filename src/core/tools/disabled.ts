import { isDisabledTool } from '../identity/workspaces/disabled-tools.ts'
import type { Run } from '../inference/run.ts'
import type { InferenceWorld } from '../inference/world.ts'

/** Tells whether the run's workspace has disabled a tool. */
export const isToolDisabled = (world: InferenceWorld, { actor }: Run, tool: string): boolean =>
  isDisabledTool(world, actor.workspace_id, [tool])
