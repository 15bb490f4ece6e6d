import type { Incoming } from './exchange.ts'
import { textOf } from './text.ts'

/** A packed answer, unpacked as it comes, so that it is counted by what it becomes. We ask for none, but a provider may pack all the same. */
export function unpacked(packed: Incoming, coding: string): Incoming {
  const reader = bytesOf(packed)
    .pipeThrough(new DecompressionStream(formatOf(coding)))
    .getReader()
  const read = async () => (await reader.read()).value ?? null
  return {
    status: packed.status,
    header: name => packed.header(name),
    read,
    text: (largest, touched) => textOf({ read }, largest, touched),
  }
}

// Throws where the coding is none that the platform knows: nobody asked for it.
const formatOf = (coding: string) => (coding === 'x-gzip' ? 'gzip' : coding) as CompressionFormat

const bytesOf = (packed: Incoming) =>
  new ReadableStream<Uint8Array<ArrayBuffer>>({
    async pull(controller) {
      const bytes = await packed.read()
      if (bytes) controller.enqueue(new Uint8Array(bytes))
      else controller.close()
    },
  })
