import type { Config } from '../../config.ts'
import { bubblewrap } from './bubblewrap.ts'
import { justBash } from './just-bash.ts'
import { findSandbox } from './pool.ts'
import type { Sandbox } from './sandbox.ts'

/** Every sandbox, the strongest first. */
export const SANDBOXES: Sandbox[] = [bubblewrap, justBash]

/** Tries the sandbox that the config names, so that its obstacle is known. */
export async function probeSandbox(world: {
  config: Pick<Config, 'sandbox'>
  sandboxes: Sandbox[]
}): Promise<void> {
  await findSandbox(world)?.findObstacle()
}
