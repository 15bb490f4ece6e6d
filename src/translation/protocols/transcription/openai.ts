import {
  isObject,
  type Json,
  omitUndefined,
  parseCount,
  parseObject,
  readObject,
  readObjects,
  readString,
} from '../../../base/json.ts'
import {
  needsTimes,
  type TranscriptionCall,
  type TranscriptionPart,
  type TranscriptSegment,
  wantsSpeakers,
  wantsWords,
} from '../../../language/transcription.ts'
import { createTextUsage, readUnits, type Usage } from '../../../language/usage.ts'
import type { Endpoint } from '../../../resources/models/catalog.ts'
import { unreadableAnswer } from '../failure.ts'
import { readFailure, readStreamFailure } from '../openai-chat/failure.ts'
import { applyParameterQuirks, buildPath } from '../openai-chat/request.ts'
import type { Frame, Protocol, Reader, UpstreamRequest } from '../protocol.ts'
import { refuseImpossibleCounts, UnreadableEvents } from '../reader.ts'
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
import { getTranscriptionCapabilities, isGptTranscriber, tellsSpeakers } from './capabilities.ts'

/**
 * OpenAI's transcriptions and those of compatible servers: `POST {base_url}/audio/transcriptions`,
 * a form (https://platform.openai.com/docs/api-reference/audio/createTranscription).
 */
export const openaiTranscription: Protocol<'transcription'> = {
  ...transcriptionDefaults,
  buildRequest,
  parseAnswer,
  createReader: (call, endpoint) => new TranscriptReader(call, endpoint),
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
    ...renderOwn(call, endpoint),
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

/** Renders OpenAI's own parameters, as far as the endpoint has them. */
function renderOwn({ params, stream }: TranscriptionCall, endpoint: Endpoint): Json {
  const { include, keywords, languages, known_speaker_names, known_speaker_references } = params
  // Without it, that model refuses all but short recordings.
  const chunking = params.chunking_strategy ?? (tellsSpeakers(endpoint) ? 'auto' : undefined)
  const suffix = isJson(endpoint) ? '' : '[]'
  return {
    ...(typeof chunking === 'object' && !isJson(endpoint)
      ? Object.fromEntries(
          Object.entries(chunking).map(([name, value]) => [`chunking_strategy[${name}]`, value]),
        )
      : { chunking_strategy: chunking }),
    [`include${suffix}`]: include,
    [`keywords${suffix}`]: keywords,
    [`languages${suffix}`]: languages,
    [`known_speaker_names${suffix}`]: known_speaker_names,
    [`known_speaker_references${suffix}`]: known_speaker_references,
    stream: stream && getTranscriptionCapabilities(endpoint).streams ? true : undefined,
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
    return {
      timestamp_granularities: granularities,
      diarize: wantsSpeakers(call) ? true : undefined,
    }
  if (tellsSpeakers(endpoint))
    return { response_format: needsTimes(call) ? 'diarized_json' : 'json' }
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
  return readTranscript(answer, call, endpoint)
}

function readTranscript(
  answer: Json,
  call: TranscriptionCall,
  endpoint: Endpoint,
  said: TranscriptSegment[] = [],
): TranscriptionPart[] {
  const text = readString(answer.text)
  if (text === null) throw unreadableAnswer()
  const usage = readUsage(answer.usage)
  const duration = readSeconds(answer.duration) ?? readSeconds(readLength(answer.usage))
  const told = readObjects(answer.segments).flatMap(readSegment)
  const segments = nameSpeakers(told.length > 0 ? told : said)
  const logprobs = readObjects(answer.logprobs)
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
      ...(logprobs.length > 0 ? { logprobs } : {}),
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
  const name = readString(segment.speaker)
  return [
    {
      ...{ text, start, end, ...readSpeaker(segment.speaker ?? segment.speaker_id) },
      ...(name === null ? {} : { speaker_name: name }),
      ...(Object.keys(more).length > 0 ? { more } : {}),
    },
  ]
}

/** Numbers the speakers that only have names, in the order in which they speak. */
function nameSpeakers(segments: TranscriptSegment[]): TranscriptSegment[] {
  const names: string[] = []
  return segments.map(segment => {
    const { speaker, speaker_name: name } = segment
    if (speaker !== undefined || name === undefined) return segment
    if (!names.includes(name)) names.push(name)
    return { ...segment, speaker: names.indexOf(name) }
  })
}

/** Reads the events of a text that is heard: pieces, what each speaker said, and all of it. */
class TranscriptReader implements Reader<TranscriptionPart> {
  complete = false
  readonly #call: TranscriptionCall
  readonly #endpoint: Endpoint
  readonly #said: TranscriptSegment[] = []
  readonly #unreadable = new UnreadableEvents()

  constructor(call: TranscriptionCall, endpoint: Endpoint) {
    this.#call = call
    this.#endpoint = endpoint
  }

  read({ data, json, event: name }: Frame): TranscriptionPart[] {
    if (this.complete || data.trim() === '[DONE]') return []
    const event = json === undefined ? parseObject(data) : json
    return event ? this.#readEvent(event, name) : this.#unreadable.skip()
  }

  #readEvent(event: Json, name: string | null): TranscriptionPart[] {
    const type = readString(event.type) ?? name ?? ''
    if (type === 'error' || isObject(event.error)) throw readStreamFailure(event.error ?? event)
    if (type === 'transcript.text.segment') {
      if (this.#said.length < MOST_SEGMENTS) this.#said.push(...readSegment(event))
      return []
    }
    if (type === 'transcript.text.delta') {
      const text = readString(event.delta)
      return text ? [{ type: 'transcript-delta', choice: 0, text }] : []
    }
    if (type !== 'transcript.text.done') return []
    this.complete = true
    return readTranscript(event, this.#call, this.#endpoint, this.#said)
  }
}

/** A day of speech has fewer. */
const MOST_SEGMENTS = 100_000

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
