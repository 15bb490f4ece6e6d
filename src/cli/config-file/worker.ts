/** The Worker's side: reads a large config off the server's event loop. */

import type { ErrorType } from '../../base/errors.ts'
import { serveJobs } from '../../base/worker/serve-jobs.ts'
import type { ConfigFile, ConfigPaths } from '../config-file.ts'

/**
 * What was read, or why nothing was: errors lose what they are when they are sent to another thread.
 * `isOfText` tells whether the text is wrong, or could not be read.
 */
export type ReadingResult =
  | { found: ConfigFile }
  | { type: ErrorType; message: string; isOfText: boolean }

serveJobs(async (paths: ConfigPaths) => postMessage(await read(paths)))

// Loaded by the job: the server waits until the Worker runs, and not for this.
async function read(paths: ConfigPaths): Promise<ReadingResult> {
  const { readConfig } = await import('../config-file.ts')
  const { GatewayError } = await import('../../base/errors.ts')
  try {
    return { found: await readConfig(paths) }
  } catch (thrown) {
    const { type, message, cause } = GatewayError.from(thrown)
    return { type, message, isOfText: cause === undefined }
  }
}
