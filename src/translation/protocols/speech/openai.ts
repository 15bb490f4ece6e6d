import {
  isObject,
  type Json,
  omitUndefined,
  parseCount,
  parseObject,
  readString,
} from '../../../base/json.ts'
import type { SpeechCall, SpeechFormat, SpeechPart } from '../../../language/speech.ts'
import { createTextUsage, type Usage } from '../../../language/usage.ts'
import type { Endpoint } from '../../../resources/models/catalog.ts'
import { unreadableAnswer } from '../failure.ts'
import { readFailure, readStreamFailure } from '../openai-chat/failure.ts'
import { applyParameterQuirks, buildPath } from '../openai-chat/request.ts'
import type { Frame, Protocol, Reader, UpstreamRequest } from '../protocol.ts'
import { refuseImpossibleCounts, UnreadableEvents } from '../reader.ts'
import { pickSpeed, pickVoice, readSpeechOptions, speechDefaults } from '../speech.ts'
import { isOlderOpenAi } from './capabilities.ts'
import { Sound, SoundReader, START, toSoundPart, toSoundParts } from './sound.ts'

/**
 * OpenAI's speech and that of compatible servers: `POST {base_url}/audio/speech`. Most answer with
 * bytes, OpenAI's newer models with events if asked for them, as only those say what was counted
 * (https://platform.openai.com/docs/api-reference/audio/createSpeech), and Mistral with base64.
 */
export const openaiSpeech: Protocol<'speech'> = {
  ...speechDefaults,
  buildRequest,
  parseAnswer,
  createReader: (call, endpoint) => new SpeechEventReader(createSound(call, endpoint)),
  createByteReader: (call, endpoint) => new SoundReader(createSound(call, endpoint)),
  readFailure,
}

const createSound = (call: SpeechCall, endpoint: Endpoint): Sound =>
  new Sound(pickSentFormat(call, endpoint), call.params.response_format)

// These two have samples of other forms as `pcm`, or none: theirs are made of `wav`.
const MAKES_WAV = new Set<string>(['groq', 'mistral'])

function pickSentFormat({ params }: SpeechCall, { provider }: Endpoint): SpeechFormat {
  const { response_format } = params
  return response_format === 'pcm' && MAKES_WAV.has(provider.quirks.speech)
    ? 'wav'
    : response_format
}

function buildRequest(call: SpeechCall, endpoint: Endpoint): UpstreamRequest {
  const { quirks } = endpoint.provider
  const known = omitUndefined({
    model: endpoint.upstreamModel,
    input: call.input,
    response_format: pickSentFormat(call, endpoint),
    speed: pickSpeed(call, endpoint),
    instructions: call.instructions,
    ...STYLES[quirks.speech](call, endpoint),
  })
  const body = applyParameterQuirks({ ...readSpeechOptions(call, endpoint), ...known }, quirks)
  return { path: buildPath(endpoint, '/audio/speech'), body }
}

/** How the servers differ in their parameters. */
const STYLES: Record<
  Endpoint['provider']['quirks']['speech'],
  (call: SpeechCall, endpoint: Endpoint) => Json
> = {
  compatible: (call, endpoint) => ({ voice: pickVoice(call, endpoint) }),
  openai: (call, endpoint) => ({
    voice: renderVoice(pickVoice(call, endpoint)),
    stream_format: isOlderOpenAi(endpoint) ? undefined : 'sse',
  }),
  groq: (call, endpoint) => ({
    voice: pickVoice(call, endpoint),
    sample_rate: call.params.response_format === 'pcm' ? 24_000 : undefined,
  }),
  mistral: (call, endpoint) => ({
    voice_id: pickVoice(call, endpoint),
    ref_audio: call.sample?.data,
  }),
  openrouter: (call, endpoint) => ({
    voice: pickVoice(call, endpoint),
    input_references: call.sample && [
      { type: 'input_audio', input_audio: { data: call.sample.data, format: call.sample.format } },
      ...(call.sample.transcript === undefined
        ? []
        : [{ type: 'text', text: call.sample.transcript }]),
    ],
  }),
}

// A voice that a user has made is named by its id.
const renderVoice = (voice: string | undefined): unknown =>
  voice?.startsWith('voice_') ? { id: voice } : voice

function parseAnswer(body: unknown, call: SpeechCall, endpoint: Endpoint): SpeechPart[] {
  if (!isObject(body)) throw unreadableAnswer()
  if (body.error) throw readStreamFailure(body.error)
  const parts = toSoundParts(body.audio_data ?? body.audio, createSound(call, endpoint))
  const usage = readUsage(body.usage)
  return usage ? [...parts, { type: 'usage', usage }] : parts
}

/** Reads OpenAI's usage of speech: tokens of text in, tokens of sound out. */
const readUsage = refuseImpossibleCounts((usage: Json): Usage | undefined => {
  const input = parseCount(usage.input_tokens ?? usage.prompt_tokens)
  const output = parseCount(usage.output_tokens ?? usage.completion_tokens)
  if (input === undefined || output === undefined) return undefined
  const counted = createTextUsage(input, 0)
  return { ...counted, output: { ...counted.output, audio: output } }
})

/** Reads the events of a sound: pieces in base64, then the usage. */
class SpeechEventReader implements Reader<SpeechPart> {
  complete = false
  readonly #sound: Sound
  readonly #unreadable = new UnreadableEvents()
  #hasStarted = false

  constructor(sound: Sound) {
    this.#sound = sound
  }

  read({ data, json, event: name }: Frame): SpeechPart[] {
    if (this.complete) return []
    if (data.trim() === '[DONE]') throw unreadableAnswer()
    const event = json === undefined ? parseObject(data) : json
    return event ? this.#readEvent(event, name) : this.#unreadable.skip()
  }

  #readEvent(event: Json, name: string | null): SpeechPart[] {
    const type = readString(event.type) ?? name ?? ''
    if (type === 'error' || isObject(event.error)) throw readStreamFailure(event.error ?? event)
    if (type === 'speech.audio.delta')
      return this.#start(this.#sound.push(decode(event.audio ?? event.audio_data)))
    return type === 'speech.audio.done' ? this.#finish(event) : []
  }

  #finish(event: Json): SpeechPart[] {
    const parts = this.#start(this.#sound.end())
    this.complete = true
    const usage = readUsage(event.usage)
    return [
      ...parts,
      ...(usage ? [{ type: 'usage' as const, usage }] : []),
      { type: 'sound-end' as const },
    ]
  }

  #start(pieces: Uint8Array[]): SpeechPart[] {
    const parts = pieces.map(toSoundPart)
    if (this.#hasStarted || parts.length === 0) return parts
    this.#hasStarted = true
    return [START, ...parts]
  }
}

function decode(data: unknown): Uint8Array {
  if (typeof data !== 'string') throw unreadableAnswer()
  return Buffer.from(data, 'base64')
}
