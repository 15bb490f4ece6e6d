import { brotliDecompressSync, gunzipSync, inflateSync } from 'node:zlib'

type Read = () => Promise<Uint8Array | null>

const WHOLE = { gzip: gunzipSync, 'x-gzip': gunzipSync, deflate: inflateSync, br: brotliDecompressSync } as const

/** A packed body as text. We ask for none, but a provider may pack all the same. Throws past so many bytes, packed or not. */
export async function unpackedText(read: Read, coding: string, largest: number, touched: () => void): Promise<string> {
  const unpack = WHOLE[coding as keyof typeof WHOLE]
  if (!unpack) throw new Error('A content coding that nobody asked for')
  const pieces: Uint8Array[] = []
  let size = 0
  for (let bytes = await read(); bytes; bytes = await read()) {
    touched()
    size += bytes.length
    if (size > largest) throw new Error('An answer that is too large')
    pieces.push(bytes)
  }
  return unpack(Buffer.concat(pieces), { maxOutputLength: largest }).toString()
}

/** A packed body, unpacked piece by piece as it comes. */
export function unpacked(read: Read, coding: string): Read {
  if (coding !== 'gzip' && coding !== 'deflate') throw new Error('A content coding that nobody asked for')
  const packed = new ReadableStream<Uint8Array<ArrayBuffer>>({
    async pull(controller) {
      const bytes = await read()
      if (bytes) controller.enqueue(new Uint8Array(bytes))
      else controller.close()
    },
  })
  const reader = packed.pipeThrough(new DecompressionStream(coding)).getReader()
  return async () => (await reader.read()).value ?? null
}
