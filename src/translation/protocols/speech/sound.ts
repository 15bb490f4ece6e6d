import { readWavHead, writeWavHead } from '../../../base/wav.ts'
import { PCM_RATE, type SpeechFormat, type SpeechPart } from '../../../language/speech.ts'
import { unreadableAnswer } from '../failure.ts'
import type { Frame, Reader } from '../protocol.ts'

/** So many bytes tell a format. */
const SAMPLE = 12
/** A head of a WAV file is shorter than this. */
const LONGEST_HEAD = 64 * 1024

/**
 * Passes a sound on as it arrives: nothing of it is kept but its first bytes, until they tell that
 * it is a sound in the format that was asked for. Makes `pcm` of `wav`, and `wav` of `pcm`. Throws
 * `provider_unavailable` for what is no sound, and for samples that `pcm` does not have.
 */
export class Sound {
  readonly #sent: SpeechFormat
  readonly #wanted: SpeechFormat
  #head: Buffer | null = Buffer.alloc(0)

  /** `sent` is the format that the provider was asked for, and `wanted` that of the call. */
  constructor(sent: SpeechFormat, wanted: SpeechFormat) {
    this.#sent = sent
    this.#wanted = wanted
  }

  /** Returns what may be passed on. */
  push(bytes: Uint8Array): Uint8Array[] {
    if (this.#head === null) return bytes.length > 0 ? [bytes] : []
    this.#head = this.#head.length > 0 ? Buffer.concat([this.#head, bytes]) : toBuffer(bytes)
    return this.#head.length < SAMPLE ? [] : this.#open(this.#head)
  }

  /** Returns what is left. Throws `provider_unavailable` if there was no sound. */
  end(): Uint8Array[] {
    if (this.#head === null) return []
    const pieces = this.#head.length > 0 ? this.#open(this.#head) : []
    if (this.#head !== null) throw unreadableAnswer()
    return pieces
  }

  #open(head: Buffer): Uint8Array[] {
    if (!matchesFormat(head, this.#sent)) throw unreadableAnswer()
    if (this.#sent === 'wav' && this.#wanted === 'pcm') return this.#cutHead(head)
    this.#head = null
    if (this.#sent === 'pcm' && this.#wanted === 'wav') return [writeWavHead(PCM_RATE, null), head]
    return [head]
  }

  #cutHead(bytes: Buffer): Uint8Array[] {
    const head = readWavHead(bytes)
    if (head === 'more' && bytes.length < LONGEST_HEAD) return []
    if (typeof head !== 'object') throw unreadableAnswer()
    const { encoding, channels, rate, bits, offset } = head
    const isPcm = (encoding === 1 || encoding === 0xfffe) && bits === 16
    if (!isPcm || channels !== 1 || rate !== PCM_RATE) throw unreadableAnswer()
    this.#head = null
    return bytes.length > offset ? [bytes.subarray(offset)] : []
  }
}

const toBuffer = ({ buffer, byteOffset, byteLength }: Uint8Array): Buffer =>
  Buffer.from(buffer, byteOffset, byteLength)

/** Tells whether bytes begin as the format does; samples do not, but pages and JSON are none. */
function matchesFormat(bytes: Buffer, format: SpeechFormat): boolean {
  const text = bytes.toString('latin1', 0, 64)
  return BEGINNINGS[format].test(text)
}

const BEGINNINGS: Record<SpeechFormat, RegExp> = {
  pcm: /^(?!\s*(?:<!doctype|<html|<\?xml|\{\s*"|RIFF|ID3|OggS|fLaC))/i,
  mp3: /^(?:ID3|\u00ff[\u00e2-\u00ff])/,
  wav: /^RIFF.{4}WAVE/s,
  opus: /^OggS/,
  flac: /^fLaC/,
  aac: /^(?:\u00ff[\u00f0-\u00f9]|ID3)/,
}

/** Reads an answer of bytes: it is whole when the connection says so. */
export class SoundReader implements Reader<SpeechPart> {
  complete = false
  readonly #sound: Sound
  #hasStarted = false

  constructor(sound: Sound) {
    this.#sound = sound
  }

  read({ bytes }: Frame): SpeechPart[] {
    return bytes === undefined ? [] : this.#toParts(this.#sound.push(bytes))
  }

  end(): SpeechPart[] {
    const parts = this.#toParts(this.#sound.end())
    this.complete = true
    return [...parts, { type: 'sound-end' }]
  }

  #toParts(pieces: Uint8Array[]): SpeechPart[] {
    const parts = pieces.map(toSoundPart)
    if (this.#hasStarted || parts.length === 0) return parts
    this.#hasStarted = true
    return [START, ...parts]
  }
}

/** The start of an answer whose provider says nothing of it. */
export const START: SpeechPart = {
  type: 'start',
  upstream_id: null,
  system_fingerprint: null,
  service_tier: null,
}

export const toSoundPart = (bytes: Uint8Array): SpeechPart => ({ type: 'sound', bytes })

/**
 * Returns the parts of a sound that comes whole, in base64. Throws `provider_unavailable` for what
 * is no sound.
 */
export function toSoundParts(data: unknown, sound: Sound): SpeechPart[] {
  if (typeof data !== 'string' || data === '') throw unreadableAnswer()
  const pieces = [...sound.push(Buffer.from(data, 'base64')), ...sound.end()]
  return [START, ...pieces.map(toSoundPart), { type: 'sound-end' }]
}
