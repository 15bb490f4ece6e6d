import { omitUndefined } from '../../../base/json.ts'
import type { SpeechCall, SpeechFormat } from '../../../language/speech.ts'
import type { Endpoint } from '../../../resources/models/catalog.ts'
import { listDropped } from '../dropped.ts'

/** What an endpoint can be asked for when it speaks. */
interface SpeechCapabilities {
  formats: readonly SpeechFormat[]
  /** The slowest and the fastest that it speaks. Null where it has one speed. */
  speed: { min: number; max: number } | null
  /** Whether it can be told in words how to speak. */
  instructions: boolean
  /** Whether it speaks with the voice of a sample, and whether it takes the words of that. */
  cloning: boolean
  transcripts?: boolean
  /** The voice where a call names none; null where the server has one of its own. */
  voice: string | null
  /** The fields of `provider.options` that go to the provider. */
  passthrough: readonly string[]
}

const ALL: readonly SpeechFormat[] = ['pcm', 'mp3', 'wav', 'opus', 'flac', 'aac']

/** A server with OpenAI's form of which nothing more is known. */
const COMPATIBLE: SpeechCapabilities = {
  formats: ALL,
  speed: { min: 0.25, max: 4 },
  instructions: true,
  cloning: false,
  voice: null,
  passthrough: ['language', 'sample_rate', 'seed'],
}

/** https://platform.openai.com/docs/api-reference/audio/createSpeech */
const OPENAI: SpeechCapabilities = { ...COMPATIBLE, voice: 'alloy', passthrough: [] }

/** https://console.groq.com/docs/text-to-speech */
const GROQ: SpeechCapabilities = {
  formats: ['pcm', 'wav'],
  speed: null,
  instructions: false,
  cloning: false,
  voice: 'autumn',
  passthrough: [],
}

/** https://docs.mistral.ai/studio/audio/text-to-speech/generate-speech */
const MISTRAL: SpeechCapabilities = {
  formats: ['pcm', 'mp3', 'wav', 'opus', 'flac'],
  speed: null,
  instructions: false,
  cloning: true,
  voice: 'en_paul_neutral',
  passthrough: [],
}

/** OpenRouter, and servers with its API: they choose who speaks (wire reference B.3). */
const OPENROUTER: SpeechCapabilities = {
  ...COMPATIBLE,
  formats: ['pcm', 'mp3'],
  instructions: false,
  cloning: true,
  transcripts: true,
  passthrough: [],
}

/** https://ai.google.dev/gemini-api/docs/speech-generation */
const GEMINI: SpeechCapabilities = {
  formats: ['pcm', 'wav'],
  speed: null,
  instructions: true,
  cloning: false,
  voice: 'Kore',
  passthrough: ['languageCode'],
}

/** https://elevenlabs.io/docs/api-reference/text-to-speech/convert */
const ELEVENLABS: SpeechCapabilities = {
  formats: ['pcm', 'mp3', 'wav'],
  speed: { min: 0.7, max: 1.2 },
  instructions: false,
  cloning: false,
  voice: 'JBFqnCBsd6RMkjVDRZzb',
  passthrough: ['language_code', 'voice_settings', 'seed', 'apply_text_normalization'],
}

/** https://developers.deepgram.com/reference/text-to-speech/speak-request */
const DEEPGRAM: SpeechCapabilities = {
  formats: ALL,
  speed: null,
  instructions: false,
  cloning: false,
  voice: null,
  passthrough: [],
}

/** The sandbox hums. */
const SANDBOX: SpeechCapabilities = {
  ...COMPATIBLE,
  formats: ['pcm', 'wav'],
  instructions: false,
  passthrough: [],
}

const BY_QUIRK = {
  compatible: COMPATIBLE,
  openai: OPENAI,
  groq: GROQ,
  mistral: MISTRAL,
  openrouter: OPENROUTER,
}

const BY_PROTOCOL: Record<string, SpeechCapabilities> = {
  gemini: GEMINI,
  elevenlabs: ELEVENLABS,
  deepgram: DEEPGRAM,
  sandbox: SANDBOX,
}

/** Returns what the endpoint can be asked for. */
export function getSpeechCapabilities(endpoint: Endpoint): SpeechCapabilities {
  const { protocol, provider, upstreamModel } = endpoint
  const known = BY_PROTOCOL[protocol]
  if (known) return known
  const row = BY_QUIRK[provider.quirks.speech]
  if (isOlderOpenAi(endpoint)) return { ...row, voice: 'alloy', instructions: false }
  if (/^canopylabs\/orpheus-arabic/.test(upstreamModel)) return { ...row, voice: 'fahad' }
  return row
}

/** OpenAI's first models take no instructions, and do not say what they count. */
export const isOlderOpenAi = ({ upstreamModel }: Endpoint): boolean => /^tts-1/.test(upstreamModel)

/** Lists what the call asks for and no fallback of it would do, under the wire names. */
export function listUnsupportedSpeech(call: SpeechCall, endpoint: Endpoint): string[] {
  const { formats, cloning } = getSpeechCapabilities(endpoint)
  return [
    ...(formats.includes(call.params.response_format) ? [] : ['response_format']),
    ...(call.sample === undefined || cloning ? [] : ['input_references']),
  ]
}

/** Lists what the endpoint cannot use, or only the nearest of, under the wire names. */
export function listIgnoredSpeech(call: SpeechCall, endpoint: Endpoint): string[] {
  const { instructions, params, sample } = call
  const can = getSpeechCapabilities(endpoint)
  const { voice, speed } = params
  const given = omitUndefined({ voice, speed, instructions })
  const dropped = listDropped(given, endpoint)
  return [
    ...new Set([
      ...(speed === undefined || speed === 1 || isSpoken(speed, endpoint) ? [] : ['speed']),
      ...(instructions === undefined || can.instructions ? [] : ['instructions']),
      ...(sample?.transcript === undefined || can.transcripts ? [] : [TRANSCRIPT]),
      ...dropped,
    ]),
  ]
}

/** The words of a sample, which are a part of a field. */
export const TRANSCRIPT = 'input_references.text'

function isSpoken(speed: number, endpoint: Endpoint): boolean {
  const { speed: range } = getSpeechCapabilities(endpoint)
  return range !== null && speed >= range.min && speed <= range.max
}
