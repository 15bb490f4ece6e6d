import { type Static, Type } from '@sinclair/typebox'
import { parseDataUrl } from '../../base/data-url.ts'
import { invalid } from '../../base/errors.ts'
import { omitUndefined } from '../../base/json.ts'
import {
  closed,
  list,
  oneOf,
  open,
  optional,
  SomeContent,
  SomeName,
} from '../../base/schema-builders.ts'
import type { Answer } from '../../language/answer.ts'
import {
  SPEECH_FORMATS,
  type SpeechCall,
  type SpeechFormat,
  type SpeechParams,
  type VoiceSample,
} from '../../language/speech.ts'
import { countInputTokens, countOutputTokens, type Receipt } from '../../language/usage.ts'
import type { AnswerPart } from '../../language/work.ts'
import type { Actor } from '../../resources/actor.ts'
import type { CallContext, Dialect } from './dialect.ts'
import { renderErrorEvent, renderEvent, writeEvents } from './events.ts'
import { readProviderOptions } from './provider-options.ts'
import { RawBody } from './raw-body.ts'
import { buildCallBase, providerWithOptions, routingFields } from './routing.ts'
import { dryRunFields } from './schema.ts'
import type { DialectWorld } from './world.ts'

/**
 * The speech request (wire reference B.3). `instructions` and the formats but two are OpenAI's own.
 * Fields that are not named here are refused: one that a provider reads may change what is charged.
 */

const FORMATS = ['pcm', 'mp3', 'wav', 'opus', 'flac', 'aac'] as const satisfies SpeechFormat[]

const SampleAudio = Type.Object(
  {
    type: Type.Literal('input_audio'),
    input_audio: Type.Object({ data: SomeContent, format: SomeName }, open),
  },
  open,
)
const SampleText = Type.Object(
  { type: Type.Literal('text'), text: Type.String({ minLength: 1, maxLength: 10_000 }) },
  open,
)
/** The recording of a voice, with its transcript. */
const MAX_REFERENCES = 2

const { user, session_id, trace } = routingFields

/** The longest text: ElevenLabs takes as many characters, others fewer. */
const LONGEST_INPUT = 40_000

/** The body of `POST /audio/speech`. */
const SpeechRequest = Type.Object(
  {
    model: SomeName,
    input: Type.String({ minLength: 1, maxLength: LONGEST_INPUT }),
    input_references: optional(
      list(Type.Union([SampleAudio, SampleText]), { maxItems: MAX_REFERENCES }),
    ),
    instructions: optional(Type.String({ minLength: 1, maxLength: LONGEST_INPUT })),
    response_format: optional(oneOf(...FORMATS)),
    speed: optional(Type.Number({ minimum: 0.25, maximum: 4 })),
    stream_format: optional(oneOf('audio', 'sse')),
    voice: optional(Type.Union([SomeName, Type.Object({ id: SomeName }, closed)])),
    provider: providerWithOptions,
    user,
    session_id,
    trace,
    debug: optional(Type.Object(dryRunFields, closed)),
  },
  closed,
)
type SpeechRequest = Static<typeof SpeechRequest>

/** The speech API: a text read aloud (wire reference B.3). Answers are bytes, or events. */
export const speech: Dialect<'speech', SpeechRequest> = {
  name: 'speech',
  kind: 'speech',
  path: '/audio/speech',
  operation: { id: 'createAudioSpeech', tag: 'TTS', summary: 'Read a text aloud' },
  body: SpeechRequest,
  produces: ['audio/*'],
  toCall: toSpeechCall,
  collectResponse: collectSpeech,
}

/**
 * Translates a checked body into a call. Throws 400 for references that are no recording with at
 * most one transcript, for a recording beside a named voice, and for an empty list of allowed
 * providers.
 */
function toSpeechCall(
  world: DialectWorld,
  actor: Actor,
  body: SpeechRequest,
  context: CallContext,
): SpeechCall {
  const { model, provider, user, session_id, trace, instructions } = body
  const base = { model, ...omitUndefined({ provider, user, session_id, trace }) }
  const sample = readSample(body)
  return {
    ...buildCallBase(world, actor, base, context),
    kind: 'speech',
    input: body.input,
    ...(instructions == null ? {} : { instructions }),
    ...(sample ? { sample } : {}),
    params: toParams(body),
    options: readProviderOptions(provider),
  }
}

function toParams({ response_format, speed, voice }: SpeechRequest): SpeechParams {
  return {
    response_format: response_format ?? 'pcm',
    // OpenAI has voices of its users by their id.
    ...(voice == null ? {} : { voice: typeof voice === 'string' ? voice : voice.id }),
    ...(speed == null ? {} : { speed }),
  }
}

const FIELD = 'input_references'

function readSample({ input_references, voice }: SpeechRequest): VoiceSample | undefined {
  const references = input_references ?? []
  if (references.length === 0) return undefined
  const audio = references.flatMap(one => (one.type === 'input_audio' ? [one.input_audio] : []))
  const texts = references.flatMap(one => (one.type === 'text' ? [one.text] : []))
  const [recording] = audio
  if (!recording || audio.length > 1 || texts.length > 1)
    throw invalid(`${FIELD}: expected one input_audio and at most one text`, FIELD)
  if (voice != null)
    throw invalid('voice: expected none beside input_references, which have another', 'voice')
  const [transcript] = texts
  return { ...readRecording(recording), ...(transcript === undefined ? {} : { transcript }) }
}

function readRecording({ data, format }: { data: string; format: string }): VoiceSample {
  try {
    return { format, data: parseDataUrl(`data:audio/wav;base64,${data}`).data }
  } catch {
    throw invalid(`${FIELD}: expected input_audio.data in base64`, FIELD)
  }
}

/**
 * Opens the sound of an answer: its bytes follow as they arrive. Throws the error of an answer that
 * failed before any.
 */
async function collectSpeech(
  answer: Answer<'speech'>,
  { params }: SpeechCall,
  { stream_format }: Pick<SpeechRequest, 'stream_format'> = {},
): Promise<RawBody> {
  if (stream_format === 'sse') return new RawBody('text/event-stream', writeSoundEvents(answer))
  const { parts } = answer
  const bytes = new SoundBytes(parts)
  await bytes.open()
  return new RawBody(SPEECH_FORMATS[params.response_format], bytes)
}

/** The bytes of a sound. An answer that breaks off throws its error. */
class SoundBytes implements AsyncIterator<Uint8Array> {
  readonly #parts: Answer<'speech'>['parts']
  /** What a batch brought beside the bytes that were taken. */
  #waiting: AnswerPart<'speech'>[] = []

  constructor(parts: Answer<'speech'>['parts']) {
    this.#parts = parts
  }

  /** Waits for the first bytes, or for the end. */
  async open(): Promise<void> {
    const first = await this.next()
    if (!first.done) this.#waiting.unshift({ type: 'sound', bytes: first.value })
  }

  async next(): Promise<IteratorResult<Uint8Array>> {
    for (;;) {
      for (let part = this.#waiting.shift(); part; part = this.#waiting.shift()) {
        if (part.type === 'error') throw part.error
        if (part.type === 'sound') return { done: false, value: part.bytes }
      }
      const step = await this.#parts.next()
      if (step.done) return { done: true, value: undefined }
      this.#waiting.push(...step.value)
    }
  }

  async return(): Promise<IteratorResult<Uint8Array>> {
    await this.#parts.return?.()
    return { done: true, value: undefined }
  }
}

/**
 * Writes a sound as events, as OpenAI has it: pieces in base64, and the usage at the end. A failure
 * after the first of them is an event too.
 */
function writeSoundEvents(answer: Answer<'speech'>): AsyncIterator<Uint8Array> {
  const encoder = new TextEncoder()
  const events = writeEvents(answer, {
    write: parts => parts.map(part => writePart(answer.id, part)).join(''),
  })
  return {
    async next() {
      const step = await events.next()
      return step.done ? step : { done: false, value: encoder.encode(step.value) }
    },
    async return() {
      await events.return?.()
      return { done: true, value: undefined }
    },
  }
}

function writePart(id: string, part: AnswerPart<'speech'>): string {
  switch (part.type) {
    case 'sound':
      return renderEvent({
        type: 'speech.audio.delta',
        audio: Buffer.from(part.bytes).toString('base64'),
      })
    case 'error':
      return renderErrorEvent(id, part.error)
    case 'receipt':
      return renderEvent({ type: 'speech.audio.done', usage: renderUsage(part.receipt) })
    default:
      return ''
  }
}

function renderUsage({ usage }: Receipt) {
  const [input_tokens, output_tokens] = [countInputTokens(usage), countOutputTokens(usage)]
  return { input_tokens, output_tokens, total_tokens: input_tokens + output_tokens }
}
