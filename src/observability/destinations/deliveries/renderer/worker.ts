/** The Worker's side: renders deliveries off the thread that serves calls. */

import { lowerPriority } from '../../../../base/worker/lower-priority.ts'
import { serveJobs } from '../../../../base/worker/serve-jobs.ts'
import type { RenderJob } from '../renderer.ts'
import { listTransfers, renderBatch } from './render-batch.ts'

lowerPriority()
serveJobs(async (job: RenderJob) => {
  const rendered = await renderBatch(job)
  postMessage(rendered, { transfer: listTransfers(rendered) })
})
