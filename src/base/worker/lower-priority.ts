import { setPriority } from 'node:os'

/** As `nice` has it: the thread gets a tenth of a core on which others work. */
const LOW = 10

/**
 * Has this thread give way to others, on Linux with none but those that it starts from now on: what
 * no one waits for is done while no call needs the core. Without effect where that is not allowed.
 */
export function lowerPriority(): void {
  // Elsewhere all of the process would give way.
  if (process.platform !== 'linux') return
  try {
    setPriority(0, LOW)
  } catch {
    // A sandbox may forbid it.
  }
}
