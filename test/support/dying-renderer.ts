/** The Worker that renders deliveries, but for messages that end it: those that say POISON. */

import {
  listTransfers,
  renderBatch,
} from '../../src/observability/destinations/deliveries/renderer/render-batch.ts'
import type { RenderJob } from '../../src/observability/destinations/deliveries/renderer.ts'

self.onmessage = async ({ data }: MessageEvent<RenderJob>) => {
  if (new TextDecoder().decode(data.messages.payloads).includes('POISON')) process.exit(1)
  const rendered = await renderBatch(data)
  postMessage(rendered, { transfer: listTransfers(rendered) })
}
