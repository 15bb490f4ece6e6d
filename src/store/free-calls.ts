import { writeSync } from 'node:fs'
import { join } from 'node:path'
import type { FreeCalls } from '../limits/counters.ts'
import { openDataFile, readDataFile } from './data-files.ts'

/** More than a day and its count are long, so that each write covers the one before. */
const LENGTH = 40

/**
 * Opens the file that keeps how many calls of free models a day has seen. Records do not say it: most
 * turns within a call have none of their own, and neither has what was running when a process died.
 */
export function openFreeCalls(data: string): FreeCalls {
  const path = join(data, 'free-calls')
  let file: number | null = null
  return {
    read(day) {
      const [written, count = 0] = (readDataFile(path)?.toString() ?? '').split(' ').map(Number)
      return written === day && Number.isSafeInteger(count) ? Math.max(0, count) : 0
    },
    note(day, count) {
      file ??= openDataFile(path, 'replace')
      writeSync(file, `${day} ${count}`.padEnd(LENGTH), 0)
    },
  }
}
