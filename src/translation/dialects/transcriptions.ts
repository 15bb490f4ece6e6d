import { type Static, Type } from '@sinclair/typebox'
import { type ByteSource, toByteSource } from '../../base/byte-source.ts'
import { parseDataUrl } from '../../base/data-url.ts'
import { invalid } from '../../base/errors.ts'
import { omitUndefined } from '../../base/json.ts'
import { toUsd } from '../../base/money.ts'
import {
  closed,
  list,
  oneOf,
  open,
  optional,
  SomeContent,
  SomeName,
} from '../../base/schema-builders.ts'
import { readWavHead } from '../../base/wav.ts'
import type { Answer } from '../../language/answer.ts'
import {
  type Recording,
  type RecordingFormat,
  type Transcript,
  type TranscriptionCall,
  type TranscriptionParams,
  type TranscriptSegment,
  wantsSpeakers,
  wantsWords,
} from '../../language/transcription.ts'
import { countInputTokens, countOutputTokens, type Receipt } from '../../language/usage.ts'
import type { AnswerPart } from '../../language/work.ts'
import type { Actor } from '../../resources/actor.ts'
import type { CallContext, Dialect, Streaming } from './dialect.ts'
import { renderErrorEvent, renderEvent, writeEvents } from './events.ts'
import { readProviderOptions } from './provider-options.ts'
import { RawBody } from './raw-body.ts'
import { buildCallBase, providerWithOptions, routingFields } from './routing.ts'
import { dryRunFields } from './schema.ts'
import type { DialectWorld } from './world.ts'

/**
 * The transcription request (wire reference B.3), as JSON and as a form. `prompt` and the formats
 * but two are OpenAI's own. Fields that are not named here are refused.
 */

const MAX_GRANULARITIES = 2

/** The most speakers that OpenAI's model can be told of, and words that any takes. */
const MAX_SPEAKERS = 4
const MAX_HINTS = 1_000

const Milliseconds = Type.Integer({ minimum: 0, maximum: 600_000 })

const { user, session_id, trace, stream } = routingFields

const FIELDS = {
  model: SomeName,
  language: optional(
    Type.String({ pattern: '^[A-Za-z]{2,3}(-[A-Za-z0-9]{2,8})?$', maxLength: 12 }),
  ),
  prompt: optional(Type.String({ minLength: 1, maxLength: 10_000 })),
  response_format: optional(oneOf('json', 'verbose_json', 'text', 'srt', 'vtt', 'diarized_json')),
  temperature: optional(Type.Number({ minimum: 0, maximum: 1 })),
  timestamp_granularities: optional(
    list(oneOf('word', 'segment'), { maxItems: MAX_GRANULARITIES }),
  ),
  chunking_strategy: optional(
    Type.Union([
      Type.Literal('auto'),
      Type.Object(
        {
          type: Type.Literal('server_vad'),
          prefix_padding_ms: optional(Milliseconds),
          silence_duration_ms: optional(Milliseconds),
          threshold: optional(Type.Number({ minimum: 0, maximum: 1 })),
        },
        closed,
      ),
    ]),
  ),
  include: optional(list(oneOf('logprobs'), { maxItems: 1 })),
  keywords: optional(list(SomeName, { maxItems: MAX_HINTS })),
  languages: optional(list(SomeName, { maxItems: MAX_HINTS })),
  known_speaker_names: optional(list(SomeName, { maxItems: MAX_SPEAKERS })),
  known_speaker_references: optional(list(SomeContent, { maxItems: MAX_SPEAKERS })),
  stream,
}

/** The body of `POST /audio/transcriptions` as JSON. */
const TranscriptionRequest = Type.Object(
  {
    ...FIELDS,
    input_audio: Type.Object({ data: SomeContent, format: SomeName }, open),
    provider: providerWithOptions,
    user,
    session_id,
    trace,
    debug: optional(Type.Object(dryRunFields, closed)),
  },
  closed,
)

/** The fields of the same as a form, beside its file. */
const TranscriptionForm = Type.Object(FIELDS, closed)

type TranscriptionBody =
  | Static<typeof TranscriptionRequest>
  | (Static<typeof TranscriptionForm> & { input_audio?: undefined; debug?: null })

/**
 * Translates a checked body into a call, with the file of its form if it came as one. Throws 400
 * for what is no recording, for one that its format is not the name of, and for an empty list of
 * allowed providers.
 */
function toTranscriptionCall(
  world: DialectWorld,
  actor: Actor,
  body: TranscriptionBody,
  context: CallContext,
): TranscriptionCall {
  const { model, prompt, stream } = body
  // A form has none of these.
  const { provider, user, session_id, trace } = body.input_audio ? body : NO_FIELDS
  const base = { model, ...omitUndefined({ provider, user, session_id, trace, stream }) }
  return {
    ...buildCallBase(world, actor, base, context),
    kind: 'transcription',
    audio: readRecording(body, context),
    ...(prompt == null ? {} : { prompt }),
    params: toParams(body),
    options: readProviderOptions(provider),
  }
}

const NO_FIELDS: Partial<Static<typeof TranscriptionRequest>> = {}

function toParams(body: TranscriptionBody): TranscriptionParams {
  const { response_format, language, temperature, timestamp_granularities } = body
  const { chunking_strategy, include, keywords, languages } = body
  const { known_speaker_names, known_speaker_references } = body
  checkSpeakers(body)
  const given = {
    ...{ language, temperature, timestamp_granularities, chunking_strategy, include, keywords },
    ...{ languages, known_speaker_names, known_speaker_references },
  }
  return {
    response_format: response_format ?? 'json',
    ...Object.fromEntries(Object.entries(given).filter(([, value]) => value != null)),
  }
}

/** A speaker has a name and a voice, and that is in the call itself. */
function checkSpeakers({
  known_speaker_names: names,
  known_speaker_references: voices,
}: TranscriptionBody): void {
  if (voices == null) return
  if (names == null || names.length !== voices.length)
    throw invalid('known_speaker_references: expected one for each of known_speaker_names', VOICES)
  const other = voices.findIndex(voice => !/^data:audio\//i.test(voice))
  if (other !== -1)
    throw invalid(`${VOICES}.${other}: expected a data URL of a recording`, `${VOICES}.${other}`)
}

const VOICES = 'known_speaker_references'

function readRecording({ input_audio }: TranscriptionBody, { file }: CallContext): Recording {
  if (file) return openRecording(file.source, file.head, 'file')
  if (!input_audio) throw invalid('input_audio: expected a recording', 'input_audio')
  const format = readFormatName(input_audio.format, 'input_audio.format')
  const bytes = decode(input_audio.data)
  const recording = openRecording(toByteSource(bytes), bytes.subarray(0, HEAD_SIZE), DATA)
  if (recording.format === format) return recording
  throw invalid(
    `input_audio.format: expected ${recording.format}, which the data is, found ${format}`,
    'input_audio.format',
  )
}

const DATA = 'input_audio.data'

function decode(data: string): Buffer {
  try {
    return Buffer.from(parseDataUrl(`data:audio/wav;base64,${data}`).data, 'base64')
  } catch {
    throw invalid(`${DATA}: expected base64`, DATA)
  }
}

/** So many bytes tell the format of a recording, and how long it is if its head says so. */
const HEAD_SIZE = 64 * 1024

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
function readFormatName(name: string, field: string): RecordingFormat {
  const format = Object.hasOwn(NAMES, name.toLowerCase()) ? NAMES[name.toLowerCase()] : undefined
  if (format) return format
  throw invalid(`${field}: expected one of ${Object.keys(NAMES).join(', ')}`, field)
}

/**
 * Looks at the head of a file: its bytes say what it is, whatever it is called. Throws 400, naming
 * `field`, for an empty file, for what is no recording and for one that ends within its head.
 */
function openRecording(source: ByteSource, head: Uint8Array, field: string): Recording {
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

/** Collects the text of an answer in the format of the call. Throws the error of a failed answer. */
async function collectTranscript(answer: Answer<'transcription'>, call: TranscriptionCall) {
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
const renderLogprobs = ({ logprobs }: Transcript, { params }: TranscriptionCall) =>
  logprobs && params.include ? { logprobs } : {}

const renderDiarized = (transcript: Transcript, call: TranscriptionCall) => ({
  task: 'transcribe',
  duration: transcript.duration ?? call.audio.seconds ?? transcript.segments?.at(-1)?.end ?? 0,
  segments: listSegments(transcript).map(renderSpoken),
})

/** Renders what one speaker says. Without a name, speakers are letters: A, B, … */
const renderSpoken = (
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
function renderUsage({ usage, cost }: Receipt) {
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
const listSegments = ({ text, segments, duration = 0 }: Transcript): TranscriptSegment[] =>
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

/**
 * How texts stream as OpenAI has it: pieces as they are heard, and all of it at the end. Of an answer
 * that comes whole, or that filters read, all of it is one piece.
 */
const transcriptStreaming: Streaming<'transcription', unknown> = {
  renderKeepAlive: () => ': keep-alive\n\n',
  streamEvents(answer, call) {
    const writer = new TranscriptWriter(answer, call)
    return writeEvents(answer, { write: parts => parts.map(part => writer.write(part)).join('') })
  },
  renderFailure: ({ id }, error) => renderErrorEvent(id, error),
}

/** Writes the parts of an answer as events. The end waits for the usage. */
class TranscriptWriter {
  readonly #id: string
  readonly #call: TranscriptionCall
  #hasPieces = false
  #transcript: Transcript | null = null

  constructor({ id }: Pick<Answer<'transcription'>, 'id'>, call: TranscriptionCall) {
    this.#id = id
    this.#call = call
  }

  write(part: AnswerPart<'transcription'>): string {
    switch (part.type) {
      case 'transcript-delta':
        this.#hasPieces = true
        return renderEvent({ type: 'transcript.text.delta', delta: part.text })
      case 'transcript':
        this.#transcript = part
        return this.#writePieces(part)
      case 'error':
        return renderErrorEvent(this.#id, part.error)
      case 'receipt':
        return this.#transcript
          ? renderEvent({
              type: 'transcript.text.done',
              text: this.#transcript.text,
              ...renderLogprobs(this.#transcript, this.#call),
              usage: renderUsage(part.receipt),
            })
          : ''
      default:
        return ''
    }
  }

  #writePieces(transcript: Transcript): string {
    const spoken = wantsSpeakers(this.#call) ? listSegments(transcript).map(renderSpoken) : []
    const pieces = this.#hasPieces
      ? []
      : [{ type: 'transcript.text.delta', delta: transcript.text }]
    return [...spoken, ...pieces].map(renderEvent).join('')
  }
}

/** The most bytes of the fields beside the file: voices of speakers are among them. */
const LARGEST_FIELDS = 8 * 1024 * 1024

/**
 * The transcriptions API: recordings to text (wire reference B.3). The recording comes in
 * base64 or as the file of a form.
 */
export const transcriptions: Dialect<'transcription', TranscriptionBody> = {
  name: 'transcriptions',
  kind: 'transcription',
  path: '/audio/transcriptions',
  operation: {
    id: 'createAudioTranscriptions',
    tag: 'STT',
    summary: 'Transcribe a recording',
  },
  body: TranscriptionRequest,
  form: { body: TranscriptionForm, file: 'file', fields: LARGEST_FIELDS },
  toCall: toTranscriptionCall,
  collectResponse: collectTranscript,
  streaming: transcriptStreaming,
}
