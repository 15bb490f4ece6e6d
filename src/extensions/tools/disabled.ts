import type { Run } from '../../engine/run.ts'
import type { InferenceWorld } from '../../engine/world.ts'
import { isDisabledTool } from '../../resources/workspaces/disabled-tools.ts'

/** Tells whether the run's workspace has disabled a tool. */
export const isToolDisabled = (world: InferenceWorld, { actor }: Run, tool: string): boolean =>
  isDisabledTool(world, actor.workspace_id, [tool])
