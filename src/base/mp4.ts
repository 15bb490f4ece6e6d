/** Pictures as a film in an MP4 file (ISO/IEC 14496-12), without sound. */

/** The pictures of a film, each as a PNG, and how long each is shown. */
interface Film {
  width: number
  height: number
  frames: Uint8Array[]
  /** How many pictures a second has. */
  rate: number
}

/** Writes a film. Its one track has a sample for each picture, all in one chunk. */
export function writeMp4(film: Film): Buffer<ArrayBuffer> {
  const type = box('ftyp', text('mp42'), u32(0), text('mp42isom'))
  // The place of the pictures depends on the size of what comes before, which is always the same.
  const size = type.length + writeIndex(film, 0).length
  return Buffer.concat([type, writeIndex(film, size + BOX_HEAD), box('mdat', ...film.frames)])
}

const BOX_HEAD = 8

const u32 = (...values: number[]): Buffer => {
  const bytes = Buffer.alloc(4 * values.length)
  for (const [i, value] of values.entries()) bytes.writeUInt32BE(value, 4 * i)
  return bytes
}
const u16 = (...values: number[]): Buffer => {
  const bytes = Buffer.alloc(2 * values.length)
  for (const [i, value] of values.entries()) bytes.writeUInt16BE(value, 2 * i)
  return bytes
}
const text = (value: string): Buffer => Buffer.from(value, 'latin1')

function box(type: string, ...parts: Uint8Array[]): Buffer {
  const content = Buffer.concat(parts)
  return Buffer.concat([u32(content.length + BOX_HEAD), text(type), content])
}

/** A box with a version (0) and flags. */
const fullBox = (type: string, flags: number, ...parts: Uint8Array[]): Buffer =>
  box(type, u32(flags), ...parts)

/** No rotation and no scaling, as a matrix of fixed-point numbers. */
const MATRIX = u32(0x10000, 0, 0, 0, 0x10000, 0, 0, 0, 0x40000000)

function writeIndex(film: Film, offset: number): Buffer {
  const { frames, rate } = film
  const duration = frames.length
  const header = fullBox(
    'mvhd',
    0,
    u32(0, 0, rate, duration, 0x10000),
    u16(0x100, 0),
    u32(0, 0),
    MATRIX,
    u32(0, 0, 0, 0, 0, 0, 2),
  )
  return box('moov', header, writeTrack(film, offset))
}

/** Enabled, and part of the film. */
const SHOWN = 3

function writeTrack({ width, height, frames, rate }: Film, offset: number): Buffer {
  const duration = frames.length
  const head = fullBox(
    'tkhd',
    SHOWN,
    u32(0, 0, 1, 0, duration, 0, 0),
    u16(0, 0, 0, 0),
    MATRIX,
    u32(width * 0x10000, height * 0x10000),
  )
  const media = box(
    'mdia',
    fullBox('mdhd', 0, u32(0, 0, rate, duration), u16(0x55c4, 0)),
    fullBox('hdlr', 0, u32(0), text('vide'), u32(0, 0, 0), text('Video\0')),
    box(
      'minf',
      fullBox('vmhd', 1, u16(0, 0, 0, 0)),
      box('dinf', fullBox('dref', 0, u32(1), fullBox('url ', 1))),
      writeSamples({ width, height, frames, rate }, offset),
    ),
  )
  return box('trak', head, media)
}

function writeSamples({ width, height, frames }: Film, offset: number): Buffer {
  const entry = box(
    'png ',
    u16(0, 0, 0, 1),
    u32(0, 0, 0, 0),
    u16(width, height),
    u32(0x480000, 0x480000, 0),
    u16(1),
    Buffer.alloc(32),
    u16(24, 0xffff),
  )
  return box(
    'stbl',
    fullBox('stsd', 0, u32(1), entry),
    fullBox('stts', 0, u32(1, frames.length, 1)),
    fullBox('stsc', 0, u32(1, 1, frames.length, 1)),
    fullBox('stsz', 0, u32(0, frames.length, ...frames.map(({ length }) => length))),
    fullBox('stco', 0, u32(1, offset)),
  )
}
