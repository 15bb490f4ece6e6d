import { omitUndefined } from '../../../base/json.ts'
import {
  needsTimes,
  type TranscriptionCall,
  wantsSpeakers,
  wantsWords,
} from '../../../language/transcription.ts'
import type { Endpoint } from '../../../resources/models/catalog.ts'
import { listDropped } from '../dropped.ts'

/** Parameters that are left out where an endpoint does not have them. */
const EXTRAS = ['chunking_strategy', 'include', 'keywords', 'languages'] as const
type TranscriptionExtra = (typeof EXTRAS)[number]

/** What an endpoint can be asked for when it transcribes. */
interface TranscriptionCapabilities {
  /** Whether it says when each segment was said, and when each word. */
  segments: boolean
  words: boolean
  /** Whether it takes words beside the recording. */
  prompt: boolean
  temperature: boolean
  /** Whether it says who speaks, and whether it can be told who may. */
  speakers: boolean
  knownSpeakers: boolean
  /** What it takes of OpenAI's own parameters that others do well without. */
  extras: readonly TranscriptionExtra[]
  /** Whether the text streams as it is heard. */
  streams: boolean
  /** The seconds that are charged for a shorter recording. */
  leastSeconds: number
  /** The fields of `provider.options` that go to the provider. */
  passthrough: readonly string[]
}

/** A server with OpenAI's form of which nothing more is known. */
const COMPATIBLE: TranscriptionCapabilities = {
  segments: true,
  words: true,
  prompt: true,
  temperature: true,
  speakers: false,
  knownSpeakers: false,
  extras: EXTRAS,
  streams: false,
  leastSeconds: 0,
  passthrough: ['hotwords', 'vad_filter'],
}

/** A server of which it is known that it has nothing of OpenAI's newer models. */
const PLAIN: TranscriptionCapabilities = { ...COMPATIBLE, extras: [] }

/** OpenAI's models that count tokens (https://platform.openai.com/docs/guides/speech-to-text). */
const GPT: TranscriptionCapabilities = {
  ...COMPATIBLE,
  segments: false,
  words: false,
  streams: true,
  passthrough: [],
}

/** OpenAI's model that tells speakers apart. Its times are those of what each says. */
const GPT_DIARIZE: TranscriptionCapabilities = {
  ...GPT,
  segments: true,
  prompt: false,
  speakers: true,
  knownSpeakers: true,
  extras: ['chunking_strategy'],
}

/** https://docs.mistral.ai/studio/audio/speech-to-text/transcribe-files */
const MISTRAL: TranscriptionCapabilities = {
  ...PLAIN,
  speakers: true,
  prompt: false,
  passthrough: ['diarize', 'context_bias'],
}

/** https://console.groq.com/docs/speech-to-text: a request is billed for at least ten seconds. */
const GROQ: TranscriptionCapabilities = { ...PLAIN, leastSeconds: 10 }

/** OpenRouter, and servers with its API: they choose who listens (wire reference B.3). */
const OPENROUTER: TranscriptionCapabilities = { ...PLAIN, prompt: false, passthrough: [] }

/** https://ai.google.dev/gemini-api/docs/audio */
const GEMINI: TranscriptionCapabilities = { ...GPT, extras: [], streams: false }

/** https://elevenlabs.io/docs/api-reference/speech-to-text/convert */
const ELEVENLABS: TranscriptionCapabilities = {
  ...PLAIN,
  speakers: true,
  prompt: false,
  passthrough: ['diarize', 'num_speakers', 'tag_audio_events', 'seed'],
}

/** https://developers.deepgram.com/reference/speech-to-text/listen-pre-recorded */
const DEEPGRAM: TranscriptionCapabilities = {
  ...PLAIN,
  speakers: true,
  prompt: false,
  temperature: false,
  passthrough: ['diarize', 'filler_words', 'keyterm', 'numerals', 'profanity_filter', 'redact'],
}

/** The sandbox reads what it has written into its own recordings. */
const SANDBOX: TranscriptionCapabilities = { ...PLAIN, passthrough: [] }

const BY_PROTOCOL: Record<string, TranscriptionCapabilities> = {
  gemini: GEMINI,
  elevenlabs: ELEVENLABS,
  deepgram: DEEPGRAM,
  sandbox: SANDBOX,
}

/** Tells whether the model is one of OpenAI's that count tokens, at any provider. */
export const isGptTranscriber = ({ upstreamModel }: Endpoint): boolean =>
  /^gpt-/.test(upstreamModel)

/** Returns what the endpoint can be asked for. */
export function getTranscriptionCapabilities(endpoint: Endpoint): TranscriptionCapabilities {
  const known = BY_PROTOCOL[endpoint.protocol]
  if (known) return known
  const { speech } = endpoint.provider.quirks
  if (speech === 'mistral') return MISTRAL
  if (speech === 'groq') return GROQ
  if (speech === 'openrouter') return OPENROUTER
  if (/^whisper-1$/.test(endpoint.upstreamModel)) return { ...PLAIN, passthrough: [] }
  if (!isGptTranscriber(endpoint)) return COMPATIBLE
  return tellsSpeakers(endpoint) ? GPT_DIARIZE : GPT
}

/** Tells whether the model is OpenAI's that tells speakers apart. */
export const tellsSpeakers = ({ upstreamModel }: Endpoint): boolean =>
  /^gpt-.*diarize/.test(upstreamModel)

/** Lists the parameters that the endpoint cannot use, under their wire names. */
export function listIgnoredTranscription(call: TranscriptionCall, endpoint: Endpoint): string[] {
  const { params, prompt } = call
  const { response_format: _, ...named } = params
  const can = getTranscriptionCapabilities(endpoint)
  const { extras, knownSpeakers } = can
  const isGiven = (name: keyof typeof named) => params[name] !== undefined
  return [
    ...new Set([
      ...(isGiven('temperature') && !can.temperature ? ['temperature'] : []),
      ...(prompt !== undefined && !can.prompt ? ['prompt'] : []),
      ...(ignoresTimes(call, can) ? ['timestamp_granularities'] : []),
      ...EXTRAS.filter(name => isGiven(name) && !extras.includes(name)),
      ...KNOWN_SPEAKERS.filter(name => isGiven(name) && !knownSpeakers),
      ...listDropped(omitUndefined({ ...named, prompt }), endpoint),
    ]),
  ]
}

const KNOWN_SPEAKERS = ['known_speaker_names', 'known_speaker_references'] as const

/** Whether times are asked for of what the endpoint, or the format of the answer, has none of. */
function ignoresTimes(
  call: Pick<TranscriptionCall, 'params'>,
  { words }: TranscriptionCapabilities,
): boolean {
  const { response_format, timestamp_granularities: times = [] } = call.params
  if (response_format !== 'verbose_json') return times.length > 0
  return wantsWords(call) && !words
}

/** Lists what the call asks for and no fallback of it would do, under the wire names. */
export function listUnsupportedTranscription(
  call: TranscriptionCall,
  endpoint: Endpoint,
): string[] {
  const { segments, speakers } = getTranscriptionCapabilities(endpoint)
  return (needsTimes(call) && !segments) || (wantsSpeakers(call) && !speakers)
    ? ['response_format']
    : []
}
