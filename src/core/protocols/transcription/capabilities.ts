import type { Endpoint } from '../../catalog/models.ts'
import { needsTimes, type TranscriptionCall, wantsWords } from '../../language/transcription.ts'

/** What an endpoint can be asked for when it transcribes. */
export interface TranscriptionCapabilities {
  /** Whether it says when each segment was said, and when each word. */
  segments: boolean
  words: boolean
  /** Whether it takes words beside the recording. */
  prompt: boolean
  temperature: boolean
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
  leastSeconds: 0,
  passthrough: ['hotwords', 'vad_filter'],
}

/** OpenAI's models that count tokens (https://platform.openai.com/docs/guides/speech-to-text). */
const GPT: TranscriptionCapabilities = {
  ...COMPATIBLE,
  segments: false,
  words: false,
  passthrough: [],
}

/** https://docs.mistral.ai/studio/audio/speech-to-text/transcribe-files */
const MISTRAL: TranscriptionCapabilities = {
  ...COMPATIBLE,
  prompt: false,
  passthrough: ['diarize', 'context_bias'],
}

/** https://console.groq.com/docs/speech-to-text: a request is billed for at least ten seconds. */
const GROQ: TranscriptionCapabilities = { ...COMPATIBLE, leastSeconds: 10 }

/** OpenRouter, and servers with its API: they choose who listens (wire reference B.3). */
const OPENROUTER: TranscriptionCapabilities = { ...COMPATIBLE, prompt: false, passthrough: [] }

/** https://ai.google.dev/gemini-api/docs/audio */
const GEMINI: TranscriptionCapabilities = { ...GPT }

/** https://elevenlabs.io/docs/api-reference/speech-to-text/convert */
const ELEVENLABS: TranscriptionCapabilities = {
  ...COMPATIBLE,
  prompt: false,
  passthrough: ['diarize', 'num_speakers', 'tag_audio_events', 'seed'],
}

/** https://developers.deepgram.com/reference/speech-to-text/listen-pre-recorded */
const DEEPGRAM: TranscriptionCapabilities = {
  ...COMPATIBLE,
  prompt: false,
  temperature: false,
  passthrough: ['diarize', 'filler_words', 'keyterm', 'numerals', 'profanity_filter', 'redact'],
}

/** The sandbox reads what it has written into its own recordings. */
const SANDBOX: TranscriptionCapabilities = { ...COMPATIBLE, passthrough: [] }

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
  return isGptTranscriber(endpoint) ? GPT : COMPATIBLE
}

/** Lists what the call asks for and the endpoint cannot do, under the wire names. */
export function listUnsupportedTranscription(
  call: TranscriptionCall,
  endpoint: Endpoint,
): string[] {
  const { segments, words, prompt } = getTranscriptionCapabilities(endpoint)
  return [
    ...(needsTimes(call) && !segments ? ['response_format'] : []),
    ...(wantsWords(call) && !words ? ['timestamp_granularities'] : []),
    ...(call.prompt !== undefined && !prompt ? ['prompt'] : []),
  ]
}
