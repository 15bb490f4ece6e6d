/** The Worker's side: reads documents off the server's event loop. */

import { boundMemory } from './bound-memory.ts'
import { readDocument } from './reading.ts'

const startDocument = boundMemory()

self.onmessage = async ({ data }: MessageEvent<Uint8Array>) => {
  startDocument()
  postMessage(await readDocument(data))
}
