/** Bytes that are read piece by piece, as often as wanted: in memory or on a disk. */
export interface ByteSource {
  readonly size: number
  /** Reads at most `length` bytes from a position. */
  read(position: number, length: number): Promise<Uint8Array>
}

/** Which bytes: from a position, so many. */
export interface ByteRange {
  start: number
  length: number
}

/** Returns bytes in memory as a source. */
export const toByteSource = (bytes: Uint8Array): ByteSource => ({
  size: bytes.length,
  // A copy: who reads a piece may give its memory back. A buffer's own `slice` makes none.
  read: async (position, length) => new Uint8Array(bytes.subarray(position, position + length)),
})

/** A multiple of three bytes: their base64 needs no padding. */
const PIECE = 48 * 1024

/** Returns the base64 of a source as a source: a piece of it is made when it is read. */
export function toBase64Source(source: ByteSource): ByteSource {
  return {
    size: 4 * Math.ceil(source.size / 3),
    async read(position, length) {
      const group = Math.floor(position / 4)
      const bytes = await readWhole(source, group * 3, Math.min(PIECE, Math.ceil(length / 4) * 3))
      const text = Buffer.from(bytes).toString('base64')
      return Buffer.from(text.slice(position - group * 4, position - group * 4 + length), 'latin1')
    },
  }
}

/** Reads so many bytes, or fewer at the end. */
export async function readWhole(
  source: ByteSource,
  position: number,
  length: number,
): Promise<Uint8Array> {
  const wanted = Math.max(Math.min(length, source.size - position), 0)
  const first = await source.read(position, wanted)
  if (first.length === wanted || first.length === 0) return first
  return Buffer.concat([
    first,
    await readWhole(source, position + first.length, wanted - first.length),
  ])
}
