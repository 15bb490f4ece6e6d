/** Transcription: the request to turn a recording into text, and that text. */

import type { ByteSource } from '../base/byte-source.ts'
import type { CallBase } from './call.ts'
import type { CommonPart, StartPart } from './part.ts'

declare module './work.ts' {
  interface Work {
    transcription: { call: TranscriptionCall; part: TranscriptionPart }
  }
}

/** A request to turn a recording into text. */
export interface TranscriptionCall extends CallBase {
  kind: 'transcription'
  audio: Recording
  /** Words that may be said, or what was said before. Absent for none. */
  prompt?: string
  params: TranscriptionParams
  /** Parameters that mean something to one provider only, by its slug. */
  options: Record<string, Record<string, unknown>>
}

/** The formats of recordings, with the media type of each. */
export const RECORDING_FORMATS = {
  wav: 'audio/wav',
  mp3: 'audio/mpeg',
  flac: 'audio/flac',
  ogg: 'audio/ogg',
  webm: 'audio/webm',
  m4a: 'audio/mp4',
  aac: 'audio/aac',
} as const

export type RecordingFormat = keyof typeof RECORDING_FORMATS

/** A recording. Its bytes may be on a disk. */
export interface Recording extends ByteSource {
  format: RecordingFormat
  /** How long it is; null where its head does not say so. */
  seconds: number | null
}

/** The parameters of wire reference B.3, under their wire names. */
export interface TranscriptionParams {
  response_format: TranscriptFormat
  /** ISO 639-1. Absent for what the model hears. */
  language?: string
  temperature?: number
  timestamp_granularities?: Granularity[]
  /** How a long recording is divided. */
  chunking_strategy?: 'auto' | VoiceDetection
  /** What comes beside the text. */
  include?: 'logprobs'[]
  /** Words that may be said, and languages that may be spoken. */
  keywords?: string[]
  languages?: string[]
  /** Who may speak, and a recording of each as a data URL. */
  known_speaker_names?: string[]
  known_speaker_references?: string[]
}

/** How the ends of what is said are found. */
interface VoiceDetection {
  type: 'server_vad'
  prefix_padding_ms?: number
  silence_duration_ms?: number
  threshold?: number
}

/** `text`, `srt`, `vtt` and `diarized_json` are OpenAI's own. */
type TranscriptFormat = 'json' | 'verbose_json' | 'text' | 'srt' | 'vtt' | 'diarized_json'
type Granularity = 'word' | 'segment'

/**
 * A piece of an answer: what is heard as it is heard, and all of it at the end. It has a choice as texts have, so that filters
 * read it before it goes out.
 */
export type TranscriptionPart =
  | StartPart
  | { type: 'transcript-delta'; choice: 0; text: string }
  | ({ type: 'transcript'; choice: 0 } & Transcript)
  | CommonPart

/** What was said. Times in seconds from the beginning. */
export interface Transcript {
  text: string
  language?: string
  /** How long the recording is, as the provider has it. */
  duration?: number
  segments?: TranscriptSegment[]
  words?: TranscriptWord[]
  /** How likely each token is, as the provider has it. */
  logprobs?: Record<string, unknown>[]
}

export interface TranscriptWord {
  word: string
  start: number
  end: number
  speaker?: number
}

/** `more` has OpenAI's further fields of a segment, under their wire names. */
export interface TranscriptSegment {
  text: string
  start: number
  end: number
  speaker?: number
  /** What the provider calls the speaker, if that is no number. */
  speaker_name?: string
  more?: Record<string, unknown>
}

/** Tells whether an answer to the call needs the times of what was said. */
export const needsTimes = ({ params }: Pick<TranscriptionCall, 'params'>): boolean =>
  params.response_format === 'verbose_json' ||
  params.response_format === 'srt' ||
  params.response_format === 'vtt' ||
  wantsSpeakers({ params })

/** Tells whether an answer to the call says who speaks. */
export const wantsSpeakers = ({ params }: Pick<TranscriptionCall, 'params'>): boolean =>
  params.response_format === 'diarized_json'

/** Tells whether an answer to the call has the times of each word. */
export const wantsWords = ({ params }: Pick<TranscriptionCall, 'params'>): boolean =>
  params.response_format === 'verbose_json' &&
  (params.timestamp_granularities?.includes('word') ?? false)
