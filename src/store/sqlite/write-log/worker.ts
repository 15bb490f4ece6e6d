/** The Worker's side: copies a log off the server's event loop. */

import { lowerPriority } from '../../../base/worker/lower-priority.ts'
import { serveJobs } from '../../../base/worker/serve-jobs.ts'
import { copyLog } from './copy.ts'

lowerPriority()
serveJobs((path: string) => postMessage(tryCopy(path)))

function tryCopy(path: string): boolean {
  try {
    return copyLog(path)
  } catch {
    // Another process may hold it: the next look asks again.
    return false
  }
}
