import { isObject, type Json, parseCount, readString } from '../../base/json.ts'
import {
  RECORDING_FORMATS,
  type Transcript,
  type TranscriptionCall,
  type TranscriptionPart,
  type TranscriptSegment,
  type TranscriptWord,
} from '../../language/transcription.ts'
import { createTextUsage, readUnits, UNITS, type Usage } from '../../language/usage.ts'
import type { Endpoint } from '../../resources/models/catalog.ts'
import { unreadableAnswer } from './failure.ts'
import { readPassthrough } from './passthrough.ts'
import type { Attachment, Protocol } from './protocol.ts'
import { getTranscriptionCapabilities } from './transcription/capabilities.ts'

/** What protocols share whose text comes whole: a streamed answer is an error. */
export const transcriptionDefaults = {
  framing: 'sse',
  acceptsNames: true,
  urlMedia: [],
  createReader: () => {
    throw unreadableAnswer()
  },
} satisfies Partial<Protocol<'transcription'>>

/**
 * Returns the parameters that the call names for this provider alone. Throws 400 for one that the
 * endpoint is not known to take.
 */
export const readTranscriptionOptions = ({ options }: TranscriptionCall, endpoint: Endpoint) =>
  readPassthrough(options, endpoint, getTranscriptionCapabilities(endpoint).passthrough)

/** Returns the recording as it goes with the request. */
export const attachRecording = (
  { audio }: TranscriptionCall,
  as: Attachment['as'],
): Attachment => ({
  source: audio,
  media_type: RECORDING_FORMATS[audio.format],
  filename: `audio.${audio.format}`,
  as,
})

/** Reads a time in seconds, which some servers write as a text; undefined for what is none. */
export function readSeconds(value: unknown): number | undefined {
  const isText = typeof value === 'string' && /^\d{1,9}(\.\d+)?$/.test(value)
  const seconds = isText ? Number(value) : value
  return typeof seconds === 'number' && seconds >= 0 && seconds < 1e9 ? seconds : undefined
}

/** Reads a word with its times. Returns none where the times are missing. */
export function readWord(word: unknown, start: unknown, end: unknown, speaker?: unknown) {
  const [from, to] = [readSeconds(start), readSeconds(end)]
  if (typeof word !== 'string' || from === undefined || to === undefined) return []
  return [{ word, start: from, end: to, ...readSpeaker(speaker) }] satisfies TranscriptWord[]
}

/** Reads who speaks: a number, or a name that ends in one. */
export function readSpeaker(value: unknown): { speaker?: number } {
  const digits = typeof value === 'number' ? value : /\d{1,6}$/.exec(readString(value) ?? '')?.[0]
  const speaker = digits === undefined ? undefined : parseCount(Number(digits))
  return speaker === undefined ? {} : { speaker }
}

const SENTENCE_END = /[.!?。！？]["'”’)]*$/
const MOST_WORDS = 40

/** Divides words into segments: at the end of a sentence, and where another speaks. */
export function divideWords(words: TranscriptWord[]): TranscriptSegment[] {
  const segments: TranscriptSegment[] = []
  let open: TranscriptWord[] = []
  words.forEach((word, i) => {
    open.push(word)
    const next = words[i + 1]
    const isOver = SENTENCE_END.test(word.word) || open.length === MOST_WORDS
    if (!next || isOver || next.speaker !== word.speaker) {
      segments.push(joinWords(open))
      open = []
    }
  })
  return segments
}

function joinWords(words: TranscriptWord[]): TranscriptSegment {
  const [first] = words
  const speaker = first?.speaker
  return {
    text: words.map(({ word }) => word).join(' '),
    start: first?.start ?? 0,
    end: words.at(-1)?.end ?? 0,
    ...(speaker === undefined ? {} : { speaker }),
  }
}

/**
 * Returns an answer's parts. The length is a count where seconds are charged; where tokens are,
 * only tokens are one.
 */
export function toTranscriptParts(
  transcript: Transcript,
  counted: Usage | undefined,
  endpoint: Endpoint,
  upstream_id: string | null = null,
): TranscriptionPart[] {
  const measured = counted ?? countSeconds(transcript.duration, endpoint)
  const usage = measured && raiseSeconds(measured, endpoint)
  return [
    { type: 'start', upstream_id, system_fingerprint: null, service_tier: null },
    { type: 'transcript', choice: 0, ...transcript },
    ...(usage ? [{ type: 'usage' as const, usage }] : []),
  ]
}

function countSeconds(seconds: number | undefined, { prices }: Endpoint): Usage | undefined {
  const chargesTokens = (prices?.prompt ?? 0n) > 0n || (prices?.completion ?? 0n) > 0n
  if (seconds === undefined || chargesTokens) return undefined
  return { ...createTextUsage(0, 0), ...readUnits({ input_second: seconds }) }
}

/** Returns the usage with the fewest seconds that the provider charges. */
function raiseSeconds(usage: Usage, endpoint: Endpoint): Usage {
  const seconds = usage.units?.input_second
  const least =
    getTranscriptionCapabilities(endpoint).leastSeconds * UNITS.input_second.partsPerUnit
  if (seconds === undefined || seconds >= least) return usage
  return { ...usage, units: { ...usage.units, input_second: least } }
}

/** Returns the object of an answer. Throws `provider_unavailable` for what is none. */
export function requireAnswer(body: unknown): Json {
  if (!isObject(body)) throw unreadableAnswer()
  return body
}
