import { Secret } from '../../src/base/secret.ts'
import { NO_QUIRKS } from '../../src/config/quirks.ts'
import type { TextCall } from '../../src/language/call.ts'
import type { EmbeddingCall } from '../../src/language/embedding.ts'
import type { ImageCall } from '../../src/language/image.ts'
import type { RerankCall } from '../../src/language/rerank.ts'
import type { SpeechCall } from '../../src/language/speech.ts'
import type { TranscriptionCall } from '../../src/language/transcription.ts'
import type { VideoCall } from '../../src/language/video.ts'
import type { Endpoint } from '../../src/resources/models/catalog.ts'
import { toExactPrices } from '../../src/resources/prices.ts'
import type { Provider } from '../../src/resources/providers/provider.ts'

/** Builds a call that says "Hi" to `acme/small`, with `more` applied. */
export const buildTextCall = (more: Partial<TextCall> = {}): TextCall => ({
  kind: 'text',
  dialect: 'chat',
  id: 'gen-1772600767-00000000000000000001',
  models: ['acme/small'],
  messages: [{ role: 'user', blocks: [{ type: 'text', text: 'Hi' }] }],
  tools: [],
  params: {},
  extra: {},
  betas: [],
  stream: false,
  routing: {},
  user: null,
  session_id: null,
  trace: null,
  preset_id: null,
  echoUpstreamBody: false,
  origin: {
    request_id: 'req-1',
    http_referer: null,
    title: null,
    user_agent: null,
    region: 'global',
    traceContext: null,
  },
  ...more,
})

/** Builds a call for the vector of "Hi" by `acme/embed`, with `more` applied. */
export const buildEmbeddingCall = (more: Partial<EmbeddingCall> = {}): EmbeddingCall => ({
  kind: 'embedding',
  id: 'gen-1772600767-00000000000000000001',
  models: ['acme/embed'],
  inputs: [{ type: 'text', text: 'Hi' }],
  params: {},
  extra: {},
  stream: false,
  routing: {},
  user: null,
  session_id: null,
  trace: null,
  preset_id: null,
  echoUpstreamBody: false,
  origin: {
    request_id: 'req-1',
    http_referer: null,
    title: null,
    user_agent: null,
    region: 'global',
    traceContext: null,
  },
  ...more,
})

/** Builds a call that ranks "Hi" and "Bye" by "Hello", with `more` applied. */
export function buildRerankCall(more: Partial<RerankCall> = {}): RerankCall {
  const { inputs: _, ...base } = buildEmbeddingCall({ models: ['acme/rank'] })
  return {
    ...base,
    kind: 'rerank',
    query: 'Hello',
    documents: [{ text: 'Hi' }, { text: 'Bye' }],
    params: {},
    ...more,
  }
}

/** Builds a call that draws "A cat" by `acme/draw`, with `more` applied. */
export function buildImageCall(more: Partial<ImageCall> = {}): ImageCall {
  const { inputs: _, extra: __, ...base } = buildEmbeddingCall({ models: ['acme/draw'] })
  return {
    ...base,
    kind: 'image',
    prompt: 'A cat',
    references: [],
    params: {},
    options: {},
    ...more,
  }
}

/** Builds a call that has `acme/film` make a video of a cat, with `more` applied. */
export function buildVideoCall(more: Partial<VideoCall> = {}): VideoCall {
  const { inputs: _, extra: __, ...base } = buildEmbeddingCall({ models: ['acme/film'] })
  return {
    ...base,
    kind: 'video',
    job_id: 'job-00000000000000000000000000000001',
    prompt: 'A cat',
    frames: [],
    references: [],
    params: {},
    options: {},
    ...more,
  }
}

/** Builds a call that has `acme/speak` say "Hi" as samples, with `more` applied. */
export function buildSpeechCall(more: Partial<SpeechCall> = {}): SpeechCall {
  const { inputs: _, extra: __, ...base } = buildEmbeddingCall({ models: ['acme/speak'] })
  return {
    ...base,
    kind: 'speech',
    input: 'Hi',
    params: { response_format: 'pcm' },
    options: {},
    ...more,
  }
}

/** Builds a call that has `acme/listen` write down a second of silence, with `more` applied. */
export function buildTranscriptionCall(more: Partial<TranscriptionCall> = {}): TranscriptionCall {
  const { inputs: _, extra: __, ...base } = buildEmbeddingCall({ models: ['acme/listen'] })
  return {
    ...base,
    kind: 'transcription',
    audio: {
      format: 'wav',
      size: 48_044,
      seconds: 1,
      read: async (_position, length) => new Uint8Array(length),
    },
    params: { response_format: 'json' },
    options: {},
    ...more,
  }
}

/** Builds a provider `local` that speaks openai-chat, with `more` applied. */
export const buildProvider = (more: Partial<Provider> = {}): Provider => ({
  slug: 'local',
  edition: 1,
  configured: true,
  name: 'Local',
  protocol: 'openai-chat',
  base_url: 'http://127.0.0.1:4010/v1',
  auth: 'bearer',
  api_key: new Secret('mock'),
  aws: null,
  service_account: null,
  headers: {},
  alsoSpeaks: [],
  quirks: NO_QUIRKS,
  finish_reasons: {},
  fetchesUrls: true,
  isHosted: true,
  on_abort: 'cancel',
  ...more,
})

/** Builds the endpoint of `acme/small` at that provider, as `up-small`, with `more` applied. */
export const buildEndpoint = (more: Partial<Endpoint> = {}): Endpoint => ({
  id: 'acme/small local/up-small',
  provider: buildProvider(),
  protocol: 'openai-chat',
  model: 'acme/small',
  upstreamModel: 'up-small',
  output_modalities: ['text'],
  prices: toExactPrices({ prompt: 0.15, completion: 0.6 }),
  context_length: 128_000,
  max_completion_tokens: null,
  supported_parameters: null,
  data_policy: { training: true, retention_days: null },
  region: null,
  quantization: 'unknown',
  service_tier: null,
  tier_prices: null,
  distillable: false,
  is_byok: false,
  ...more,
})
