import { readFileSync } from 'node:fs'
import { totalmem } from 'node:os'

/** Where Linux says how much memory the processes of this container may take. */
const CONTAINER_LIMITS = [
  '/sys/fs/cgroup/memory.max',
  '/sys/fs/cgroup/memory/memory.limit_in_bytes',
]

/** Reads how many bytes of memory this process may take: the machine's, or its container's. */
export const readMemoryBytes = (): number =>
  Math.min(totalmem(), ...CONTAINER_LIMITS.map(readLimit))

// `max`, and a file that is not there, limit nothing.
function readLimit(path: string): number {
  try {
    const bytes = Number(readFileSync(path, 'utf8'))
    return bytes > 0 ? bytes : Number.POSITIVE_INFINITY
  } catch {
    return Number.POSITIVE_INFINITY
  }
}

/** Reads how many file descriptors this process may have; infinite where the system does not tell. */
export function readDescriptorLimit(): number {
  // Only Linux has this file.
  try {
    const limits = readFileSync('/proc/self/limits', 'utf8')
    return Number(/^Max open files +(\d+)/m.exec(limits)?.[1] ?? Number.POSITIVE_INFINITY)
  } catch {
    return Number.POSITIVE_INFINITY
  }
}

/** Whether an address to listen on can be reached from this machine alone. */
export const isLoopback = (host: string): boolean =>
  /^(?:localhost|127(?:\.\d{1,3}){3}|\[?::1\]?)$/i.test(host)
