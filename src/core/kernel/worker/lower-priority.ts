import { setPriority } from 'node:os'

/** As `nice` has it: the thread gets a tenth of a core on which others work. */
const LOW = 10

/**
 * Has this thread, and none but it on Linux, give way to others: what no one waits for is done while
 * no call needs the core. Without effect where that is not allowed.
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
