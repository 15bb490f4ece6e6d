import { denied } from '../../base/errors.ts'
import type { Run } from '../../engine/run.ts'
import { isToolDisabled } from '../tools/disabled.ts'
import type { ExtensionWorld } from '../world.ts'

/** Throws 403 if the run's workspace has disabled the tool that a plugin uses. */
export function requireTool(world: ExtensionWorld, run: Run, tool: string): void {
  if (isToolDisabled(world, run, tool)) throw denied(`The workspace has disabled the tool ${tool}`)
}
