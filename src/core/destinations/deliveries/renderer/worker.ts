/** The Worker's side: renders deliveries off the thread that serves calls. */

import type { RenderJob } from '../renderer.ts'
import { listTransfers, renderBatch } from './render-batch.ts'

self.onmessage = async ({ data }: MessageEvent<RenderJob>) => {
  const rendered = await renderBatch(data)
  postMessage(rendered, { transfer: listTransfers(rendered) })
}
