/** The Worker's side: reads documents off the server's event loop. */

import { serveJobs } from '../../base/worker/serve-jobs.ts'
import { boundMemory } from './bound-memory.ts'
import { readDocument } from './reading.ts'

const startDocument = boundMemory()

serveJobs(async (document: Uint8Array) => {
  startDocument()
  postMessage(await readDocument(document))
})
