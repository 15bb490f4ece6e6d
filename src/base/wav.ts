/** Files of sampled sound (RIFF WAVE, Microsoft's and IBM's specification of 1991). */

/** What the head of a file says of its sound. */
interface WavHead {
  /** 1 for whole numbers, 3 for floats, 0xfffe where an extension says it. */
  encoding: number
  channels: number
  /** Samples in a second. */
  rate: number
  /** Bytes in a second. */
  byteRate: number
  /** Bits of a sample. */
  bits: number
  /** Where the sound begins. */
  offset: number
  /** How many bytes it has; null where the file was written as it was made. */
  size: number | null
}

/** A size from here on means that the writer did not know it. */
const UNKNOWN_SIZE = 0x7fff_f000

/**
 * Reads the head of a WAV file. Returns `more` where the sound begins after these bytes, and
 * undefined for what is no such file.
 */
export function readWavHead(bytes: Uint8Array): WavHead | 'more' | undefined {
  const view = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  if (view.length < 12) return 'more'
  if (!/^(RIFF|RIFX)....WAVE$/s.test(view.toString('latin1', 0, 12))) return undefined
  let format: Omit<WavHead, 'offset' | 'size'> | undefined
  for (let at = 12; at + 8 <= view.length; ) {
    const name = view.toString('latin1', at, at + 4)
    const size = view.readUInt32LE(at + 4)
    if (name === 'data')
      return format && { ...format, offset: at + 8, size: size >= UNKNOWN_SIZE ? null : size }
    if (name === 'fmt ') {
      if (size < 16) return undefined
      if (at + 24 > view.length) return 'more'
      format = readFormat(view, at + 8)
    }
    // Chunks begin at even places.
    at += 8 + size + (size % 2)
  }
  return 'more'
}

const readFormat = (view: Buffer, at: number) => ({
  encoding: view.readUInt16LE(at),
  channels: view.readUInt16LE(at + 2),
  rate: view.readUInt32LE(at + 4),
  byteRate: view.readUInt32LE(at + 8),
  bits: view.readUInt16LE(at + 14),
})

/**
 * Writes the head of a WAV file of 16-bit samples, mono. `size` is that of the sound in bytes; null
 * while it is not known. `more` are further chunks before the sound, each of an even size.
 */
export function writeWavHead(
  rate: number,
  size: number | null,
  more: Uint8Array = new Uint8Array(0),
): Buffer {
  const head = Buffer.alloc(36)
  head.write('RIFF', 0, 'latin1')
  head.writeUInt32LE(size === null ? 0xffff_ffff : 36 + more.length + size, 4)
  head.write('WAVEfmt ', 8, 'latin1')
  head.writeUInt32LE(16, 16)
  head.writeUInt16LE(1, 20)
  head.writeUInt16LE(1, 22)
  head.writeUInt32LE(rate, 24)
  head.writeUInt32LE(rate * 2, 28)
  head.writeUInt16LE(2, 32)
  head.writeUInt16LE(16, 34)
  const data = Buffer.alloc(8)
  data.write('data', 0, 'latin1')
  data.writeUInt32LE(size ?? 0xffff_ffff, 4)
  return Buffer.concat([head, more, data])
}
