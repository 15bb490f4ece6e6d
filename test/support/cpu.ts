import { readFileSync } from 'node:fs'

/**
 * Returns the milliseconds of processor time that this thread has used, where the system tells: what
 * compilers and collectors do beside it, and other files of the same test run, does not count.
 */
export function readThreadCpu(): number {
  try {
    return Number(readFileSync('/proc/thread-self/schedstat', 'latin1').split(' ')[0]) / 1e6
  } catch {
    const { user, system } = process.cpuUsage()
    return (user + system) / 1000
  }
}
