/** Speech: the request to read a text aloud, and the sound of it. */

import type { CallBase } from './call.ts'
import type { CommonPart, StartPart } from './part.ts'

declare module './work.ts' {
  interface Work {
    speech: { call: SpeechCall; part: SpeechPart }
  }
}

/** A request to read a text aloud. */
export interface SpeechCall extends CallBase {
  kind: 'speech'
  input: string
  /** How to say it, in words. Absent for as the model likes. */
  instructions?: string
  /** A sample of the voice to speak with. Absent where a voice is named, or none. */
  sample?: VoiceSample
  params: SpeechParams
  /** Parameters that mean something to one provider only, by its slug. */
  options: Record<string, Record<string, unknown>>
}

/** A recording of a voice, with its transcript. */
export interface VoiceSample {
  /** In base64. */
  data: string
  format: string
  transcript?: string
}

/** The parameters of wire reference B.3, under their wire names. */
export interface SpeechParams {
  response_format: SpeechFormat
  /** A voice by the provider's own name. */
  voice?: string
  /** How fast, as a multiple of the usual. */
  speed?: number
}

/**
 * The formats of sound, with the media type of each. `pcm` is 16-bit little-endian samples, mono,
 * 24,000 a second, for every voice.
 */
export const SPEECH_FORMATS = {
  pcm: 'audio/pcm',
  mp3: 'audio/mpeg',
  wav: 'audio/wav',
  opus: 'audio/ogg',
  flac: 'audio/flac',
  aac: 'audio/aac',
} as const

export type SpeechFormat = keyof typeof SPEECH_FORMATS

/** The samples of `pcm` in a second, and the bytes of one. */
export const PCM_RATE = 24_000
export const PCM_WIDTH = 2

/** A piece of an answer. A sound continues the one before; its end says that all was said. */
export type SpeechPart =
  | StartPart
  | { type: 'sound'; bytes: Uint8Array }
  | { type: 'sound-end' }
  | CommonPart

/** Counts the characters of a text, as providers charge them: a surrogate pair is one. */
export function countCharacters(text: string): number {
  let pairs = 0
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i)
    if (code >= 0xd800 && code < 0xdc00 && isLow(text.charCodeAt(i + 1))) pairs += 1
  }
  return text.length - pairs
}

const isLow = (code: number): boolean => code >= 0xdc00 && code < 0xe000
