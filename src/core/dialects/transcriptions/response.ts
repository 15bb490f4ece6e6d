import { toUsd } from '../../kernel/money.ts'
import type { Answer } from '../../language/answer.ts'
import {
  type Transcript,
  type TranscriptionCall,
  type TranscriptSegment,
  wantsWords,
} from '../../language/transcription.ts'
import { countInputTokens, countOutputTokens, type Receipt } from '../../language/usage.ts'
import { RawBody } from '../raw-body.ts'

/** Collects the text of an answer in the format of the call. Throws the error of a failed answer. */
export async function collectTranscript(answer: Answer<'transcription'>, call: TranscriptionCall) {
  let transcript: Transcript = { text: '' }
  let receipt: Receipt | null = null
  for (const batch of await answer.parts.collect()) {
    for (const part of batch) {
      if (part.type === 'error') throw part.error
      if (part.type === 'receipt') receipt = part.receipt
      if (part.type === 'transcript') transcript = part
    }
  }
  const { response_format } = call.params
  if (response_format === 'text') return new RawBody(PLAIN, `${transcript.text}\n`)
  if (response_format === 'srt') return new RawBody(PLAIN, renderSrt(transcript))
  if (response_format === 'vtt')
    return new RawBody('text/vtt; charset=utf-8', renderVtt(transcript))
  return {
    ...(response_format === 'verbose_json' ? renderVerbose(transcript, call) : {}),
    ...(response_format === 'diarized_json' ? renderDiarized(transcript, call) : {}),
    text: transcript.text,
    ...renderLogprobs(transcript, call),
    ...(receipt ? { usage: renderUsage(receipt) } : {}),
  }
}

/** Renders how likely each token is, where the call asks for it and the provider tells. */
export const renderLogprobs = ({ logprobs }: Transcript, { params }: TranscriptionCall) =>
  logprobs && params.include ? { logprobs } : {}

const renderDiarized = (transcript: Transcript, call: TranscriptionCall) => ({
  task: 'transcribe',
  duration: transcript.duration ?? call.audio.seconds ?? transcript.segments?.at(-1)?.end ?? 0,
  segments: listSegments(transcript).map(renderSpoken),
})

/** Renders what one speaker says. Without a name, speakers are letters: A, B, … */
export const renderSpoken = (
  { text, start, end, speaker = 0, speaker_name }: TranscriptSegment,
  index: number,
) => ({
  type: 'transcript.text.segment',
  id: `seg_${index}`,
  ...{ start, end, text },
  speaker: speaker_name ?? (speaker < 26 ? String.fromCharCode(65 + speaker) : String(speaker)),
})

const PLAIN = 'text/plain; charset=utf-8'

function renderVerbose(transcript: Transcript, call: TranscriptionCall) {
  const { language, duration = call.audio.seconds ?? undefined, segments, words } = transcript
  return {
    task: 'transcribe',
    ...(language === undefined ? {} : { language }),
    ...(duration === undefined ? {} : { duration }),
    ...(segments && wantsSegments(call) ? { segments: segments.map(renderSegment) } : {}),
    ...(words && wantsWords(call) ? { words } : {}),
  }
}

// Segments are what comes where nothing is named.
const wantsSegments = ({ params: { timestamp_granularities = [] } }: TranscriptionCall): boolean =>
  timestamp_granularities.length === 0 || timestamp_granularities.includes('segment')

const renderSegment = ({ text, start, end, speaker, more }: TranscriptSegment, id: number) => ({
  id,
  start,
  end,
  text,
  ...(speaker === undefined ? {} : { speaker }),
  ...more,
})

/** Renders the usage (wire reference B.3): what the provider charges by, and the cost. */
export function renderUsage({ usage, cost }: Receipt) {
  const [input_tokens, output_tokens] = [countInputTokens(usage), countOutputTokens(usage)]
  const seconds = (usage.units?.input_second ?? 0) / 1_000
  return {
    ...(seconds > 0 ? { seconds } : {}),
    ...(input_tokens + output_tokens > 0
      ? { input_tokens, output_tokens, total_tokens: input_tokens + output_tokens }
      : {}),
    // Left out if unknown: the official clients accept a number or nothing.
    ...(cost === null ? {} : { cost: toUsd(cost) }),
  }
}

/** The whole text where no times are known of its segments. */
export const listSegments = ({ text, segments, duration = 0 }: Transcript): TranscriptSegment[] =>
  segments && segments.length > 0 ? segments : [{ text, start: 0, end: duration }]

const renderSrt = (transcript: Transcript): string =>
  listSegments(transcript)
    .map((segment, i) => `${i + 1}\n${renderCue(segment, ',')}\n`)
    .join('\n')

const renderVtt = (transcript: Transcript): string =>
  ['WEBVTT\n', ...listSegments(transcript).map(segment => `${renderCue(segment, '.')}\n`)].join(
    '\n',
  )

// A line with an arrow would be taken for the times of another cue, and an empty one for its end.
const renderCue = ({ text, start, end }: TranscriptSegment, point: string): string =>
  `${renderTime(start, point)} --> ${renderTime(end, point)}\n` +
  text
    .trim()
    .replaceAll('-->', '→')
    .replace(/\n\s*\n/g, '\n')

function renderTime(seconds: number, point: string): string {
  const milliseconds = Math.max(Math.round(seconds * 1_000), 0)
  const pad = (value: number, places = 2) => String(value).padStart(places, '0')
  const [hours, minutes] = [Math.floor(milliseconds / 3_600_000), Math.floor(milliseconds / 60_000)]
  const rest = `${pad(Math.floor(milliseconds / 1_000) % 60)}${point}${pad(milliseconds % 1_000, 3)}`
  return `${pad(hours)}:${pad(minutes % 60)}:${rest}`
}
