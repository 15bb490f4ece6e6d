import { denied } from '../../base/errors.ts'
import type { Run } from '../../engine/run.ts'
import type { InferenceWorld } from '../../engine/world.ts'
import { isToolDisabled } from '../tools/disabled.ts'

/** Throws 403 if the run's workspace has disabled the tool that a plugin uses. */
export function requireTool(world: InferenceWorld, run: Run, tool: string): void {
  if (isToolDisabled(world, run, tool)) throw denied(`The workspace has disabled the tool ${tool}`)
}
