import { bubblewrap } from './bubblewrap.ts'
import { justBash } from './just-bash.ts'
import type { Sandbox } from './sandbox.ts'

/** Every sandbox, the strongest first. */
export const SANDBOXES: Sandbox[] = [bubblewrap, justBash]
