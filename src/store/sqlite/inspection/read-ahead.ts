import { open, read } from 'node:fs'
import { promisify } from 'node:util'
import { readMemoryBytes } from '../../../base/machine.ts'

const [openFile, readFile] = [promisify(open), promisify(read)]

/** How many bytes one read takes. */
const AT_ONCE = 4 * 1024 * 1024
/** Of a machine's memory: a larger file would push itself out again. */
const LARGEST_SHARE = 0.5

/**
 * Files that were read ahead, by path. They stay open until the process ends: to close one drops
 * every lock that SQLite holds on it in this process (POSIX, `fcntl`).
 */
const descriptors = new Map<string, Promise<number>>()
const running = new Map<string, Promise<number>>()

/**
 * Reads a file once from its beginning to its end, so that the system has it in memory: a disk
 * gives it in order many times faster than page by page. Returns how many bytes were read: 0 of a
 * file that is larger than half of the memory. Two at the same time are one. What cannot be read
 * is left to the reader who needs it.
 */
export function readAhead(path: string, memory = readMemoryBytes()): Promise<number> {
  const found = running.get(path)
  if (found) return found
  const reading = readWhole(path, memory * LARGEST_SHARE)
    .catch(() => 0)
    .finally(() => running.delete(path))
  running.set(path, reading)
  return reading
}

async function readWhole(path: string, largest: number): Promise<number> {
  if (Bun.file(path).size > largest) return 0
  const opened = descriptors.get(path) ?? openFile(path, 'r')
  descriptors.set(path, opened)
  const descriptor = await opened
  const buffer = new Uint8Array(AT_ONCE)
  for (let position = 0; ; ) {
    const { bytesRead } = await readFile(descriptor, buffer, 0, AT_ONCE, position)
    if (bytesRead === 0) return position
    position += bytesRead
  }
}
