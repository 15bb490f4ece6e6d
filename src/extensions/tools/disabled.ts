import type { Run } from '../../engine/run.ts'
import { isDisabledTool } from '../../resources/workspaces/disabled-tools.ts'
import type { ExtensionWorld } from '../world.ts'

/** Tells whether the run's workspace has disabled a tool. */
export const isToolDisabled = (world: ExtensionWorld, { actor }: Run, tool: string): boolean =>
  isDisabledTool(world, actor.workspace_id, [tool])
