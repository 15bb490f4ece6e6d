import type { Endpoint } from '../../catalog/models.ts'
import {
  type Json,
  omitUndefined,
  parseCount,
  readObject,
  readObjects,
  readString,
} from '../../kernel/json.ts'
import {
  needsTimes,
  type TranscriptionCall,
  type TranscriptionPart,
  type TranscriptSegment,
  wantsWords,
} from '../../language/transcription.ts'
import { readUnits } from '../../language/units.ts'
import { createTextUsage, type Usage } from '../../language/usage.ts'
import { refuseImpossibleCounts } from '../counts.ts'
import { unreadableAnswer } from '../failure.ts'
import { readFailure, readStreamFailure } from '../openai-chat/failure.ts'
import { applyParameterQuirks, buildPath } from '../openai-chat/request.ts'
import type { Protocol, UpstreamRequest } from '../protocol.ts'
import {
  attachRecording,
  readSeconds,
  readSpeaker,
  readTranscriptionOptions,
  readWord,
  requireAnswer,
  toTranscriptParts,
  transcriptionDefaults,
} from '../transcription.ts'
import { isGptTranscriber } from './capabilities.ts'

/**
 * OpenAI's transcriptions and those of compatible servers: `POST {base_url}/audio/transcriptions`,
 * a form (https://platform.openai.com/docs/api-reference/audio/createTranscription).
 */
export const openaiTranscription: Protocol<'transcription'> = {
  ...transcriptionDefaults,
  buildRequest,
  parseAnswer,
  readFailure,
}

const MARKER = '@@recording@@'

function buildRequest(call: TranscriptionCall, endpoint: Endpoint): UpstreamRequest {
  const { quirks } = endpoint.provider
  const { language, temperature } = call.params
  const known = omitUndefined({
    model: endpoint.upstreamModel,
    language,
    temperature,
    prompt: call.prompt,
    ...renderTimes(call, endpoint),
  })
  const body = applyParameterQuirks(
    { ...readTranscriptionOptions(call, endpoint), ...known },
    quirks,
  )
  const path = buildPath(endpoint, '/audio/transcriptions')
  if (quirks.speech !== 'openrouter')
    return { path, body, attachment: attachRecording(call, { field: 'file' }) }
  const input_audio = { data: MARKER, format: call.audio.format }
  return {
    path,
    body: { ...body, input_audio },
    attachment: attachRecording(call, { marker: MARKER }),
  }
}

/** Renders how the times of what was said are asked for. */
function renderTimes(call: TranscriptionCall, endpoint: Endpoint): Json {
  const granularities = wantsWords(call)
    ? (call.params.timestamp_granularities ?? [])
    : needsTimes(call)
      ? ['segment']
      : undefined
  if (endpoint.provider.quirks.speech === 'mistral')
    return { timestamp_granularities: granularities }
  const isTimed = needsTimes(call) || needsLength(endpoint)
  return {
    response_format: isTimed ? 'verbose_json' : 'json',
    [isJson(endpoint) ? 'timestamp_granularities' : 'timestamp_granularities[]']: granularities,
  }
}

const isJson = ({ provider }: Endpoint): boolean => provider.quirks.speech === 'openrouter'

// Where seconds are charged, the answer has to say how many there were.
const needsLength = (endpoint: Endpoint): boolean =>
  (endpoint.prices?.per_input_second ?? 0n) > 0n && !isGptTranscriber(endpoint)

function parseAnswer(
  body: unknown,
  call: TranscriptionCall,
  endpoint: Endpoint,
): TranscriptionPart[] {
  const answer = requireAnswer(body)
  if (answer.error) throw readStreamFailure(answer.error)
  const text = readString(answer.text)
  if (text === null) throw unreadableAnswer()
  const usage = readUsage(answer.usage)
  const duration = readSeconds(answer.duration) ?? readSeconds(readLength(answer.usage))
  const segments = readObjects(answer.segments).flatMap(readSegment)
  const words = readObjects(answer.words).flatMap(({ word, start, end, speaker }) =>
    readWord(word, start, end, speaker),
  )
  // Mistral has words in the place of segments.
  const spoken = words.length > 0 || !wantsWords(call) ? words : segments.map(toWord)
  const language = readString(answer.language)
  const id = readString(answer.id) ?? readString(readObject(answer, 'x_groq').id)
  return toTranscriptParts(
    {
      text,
      ...(language === null ? {} : { language }),
      ...(duration === undefined ? {} : { duration }),
      ...(segments.length > 0 ? { segments } : {}),
      ...(spoken.length > 0 ? { words: spoken } : {}),
    },
    usage,
    endpoint,
    id,
  )
}

const toWord = ({ text, start, end, speaker }: TranscriptSegment) => ({
  word: text.trim(),
  start,
  end,
  ...(speaker === undefined ? {} : { speaker }),
})

/** OpenAI's further fields of a segment. */
const MORE = ['seek', 'tokens', 'temperature', 'avg_logprob', 'compression_ratio', 'no_speech_prob']

function readSegment(segment: Json): TranscriptSegment[] {
  const [start, end] = [readSeconds(segment.start), readSeconds(segment.end)]
  const text = readString(segment.text)
  if (text === null || start === undefined || end === undefined) return []
  const more = Object.fromEntries(
    MORE.flatMap(name => (isNumeric(segment[name]) ? [[name, segment[name]]] : [])),
  )
  const speaker = readSpeaker(segment.speaker ?? segment.speaker_id)
  return [{ text, start, end, ...speaker, ...(Object.keys(more).length > 0 ? { more } : {}) }]
}

const isNumeric = (value: unknown): boolean =>
  typeof value === 'number' ||
  (Array.isArray(value) && value.every(one => Number.isSafeInteger(one)))

const readLength = (usage: unknown): unknown =>
  typeof usage === 'object' && usage !== null && 'seconds' in usage
    ? usage.seconds
    : typeof usage === 'object' && usage !== null && 'prompt_audio_seconds' in usage
      ? usage.prompt_audio_seconds
      : undefined

/** Reads the tokens that were counted, and the seconds beside them. Undefined where none were. */
const readUsage = refuseImpossibleCounts((usage: Json): Usage | undefined => {
  const input = parseCount(usage.input_tokens ?? usage.prompt_tokens)
  const output = parseCount(usage.output_tokens ?? usage.completion_tokens)
  if (input === undefined || output === undefined) return undefined
  const details = readObject(usage, 'input_token_details')
  const audio = Math.min(parseCount(details.audio_tokens) ?? 0, input)
  const counted = createTextUsage(input - audio, output)
  const seconds = usage.prompt_audio_seconds ?? usage.seconds
  return {
    ...counted,
    input: { ...counted.input, audio },
    ...readUnits({ input_second: seconds }),
  }
})
