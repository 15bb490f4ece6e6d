import { invalid } from '../../errors.ts'
import type { ByteSource } from '../../kernel/byte-source.ts'
import { readWavHead } from '../../kernel/wav.ts'
import type { Recording, RecordingFormat } from '../../language/transcription.ts'

/** So many bytes tell the format of a recording, and how long it is if its head says so. */
export const HEAD_SIZE = 64 * 1024

/** The names that clients have for the formats. */
const NAMES: Record<string, RecordingFormat> = {
  wav: 'wav',
  wave: 'wav',
  mp3: 'mp3',
  mpeg: 'mp3',
  mpga: 'mp3',
  flac: 'flac',
  ogg: 'ogg',
  oga: 'ogg',
  opus: 'ogg',
  webm: 'webm',
  m4a: 'm4a',
  mp4: 'm4a',
  aac: 'aac',
}

/**
 * Reads the name of a format. Throws 400, naming `field`, for one that no provider knows.
 */
export function readFormatName(name: string, field: string): RecordingFormat {
  const format = Object.hasOwn(NAMES, name.toLowerCase()) ? NAMES[name.toLowerCase()] : undefined
  if (format) return format
  throw invalid(`${field}: expected one of ${Object.keys(NAMES).join(', ')}`, field)
}

/**
 * Looks at the head of a file: its bytes say what it is, whatever it is called. Throws 400, naming
 * `field`, for an empty file, for what is no recording and for one that ends within its head.
 */
export function openRecording(source: ByteSource, head: Uint8Array, field: string): Recording {
  if (source.size === 0) throw invalid(`${field}: expected a recording that is not empty`, field)
  const format = detectFormat(head)
  if (!format) throw invalid(`${field}: expected a recording in ${EXPECTED}`, field)
  const seconds = LENGTHS[format]?.(Buffer.from(head), source.size, field) ?? null
  return { format, seconds, size: source.size, read: source.read }
}

const EXPECTED = 'WAV, MP3, FLAC, Ogg, WebM, M4A or AAC'

/** The first bytes of each format, as characters. */
const BEGINNINGS: [RegExp, RecordingFormat][] = [
  [/^RIF[FX].{4}WAVE/s, 'wav'],
  [/^fLaC/, 'flac'],
  [/^OggS/, 'ogg'],
  // biome-ignore lint/suspicious/noControlCharactersInRegex: EBML begins with one.
  [/^\x1a\x45\xdf\xa3/, 'webm'],
  [/^.{4}ftyp/s, 'm4a'],
  [/^ID3/, 'mp3'],
  [/^\xff[\xf0\xf1\xf8\xf9]/, 'aac'],
  [/^\xff[\xe2\xe3\xf2\xf3\xfa\xfb]/, 'mp3'],
]

function detectFormat(head: Uint8Array): RecordingFormat | undefined {
  const text = Buffer.from(head.subarray(0, 16)).toString('latin1')
  return BEGINNINGS.find(([beginning]) => beginning.test(text))?.[1]
}

type ReadLength = (head: Buffer, size: number, field: string) => number | null

const LENGTHS: Partial<Record<RecordingFormat, ReadLength>> = {
  wav: readWavLength,
  flac: readFlacLength,
}

function readWavLength(bytes: Buffer, size: number, field: string): number | null {
  const head = readWavHead(bytes)
  // A long head may go on; a short file cannot.
  if (head === 'more' && size > bytes.length) return null
  if (typeof head !== 'object') throw invalid(`${field}: expected a WAV file that is whole`, field)
  const there = Math.max(size - head.offset, 0)
  // The head is read to count: a writer that does not know the length yet puts any number there.
  const isKnown = head.size !== null && head.size > 0 && head.size <= there
  return head.byteRate === 0 ? null : (isKnown ? (head.size ?? there) : there) / head.byteRate
}

/** The block that every FLAC file begins with (RFC 9639, 8.2). */
function readFlacLength(bytes: Buffer, _: number, field: string): number | null {
  if (bytes.length < 42) throw invalid(`${field}: expected a FLAC file that is whole`, field)
  const rate = bytes.readUIntBE(18, 3) >> 4
  const samples = (bytes.readUInt8(21) & 0x0f) * 2 ** 32 + bytes.readUInt32BE(22)
  return rate > 0 && samples > 0 ? samples / rate : null
}
