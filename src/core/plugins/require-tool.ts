import { denied } from '../errors.ts'
import type { Run } from '../inference/run.ts'
import type { InferenceWorld } from '../inference/world.ts'
import { isToolDisabled } from '../tools/disabled.ts'

/** Throws 403 if the run's workspace has disabled the tool that a plugin uses. */
export function requireTool(world: InferenceWorld, run: Run, tool: string): void {
  if (isToolDisabled(world, run, tool)) throw denied(`The workspace has disabled the tool ${tool}`)
}
