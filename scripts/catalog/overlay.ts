import type { UsdPerMillionTokens } from '../../src/config/prices.ts'

/** A row that no package has, entered by hand from the provider's own price page. */
export interface OverlayRow {
  id: string
  name: string
  provider: string
  model: string
  prices: UsdPerMillionTokens
  context_length?: number
  output: string[]
}

const createEmbeddingRow = ({
  prompt,
  ...row
}: Omit<OverlayRow, 'prices' | 'output'> & { prompt: number }): OverlayRow => ({
  ...row,
  prices: { prompt, completion: 0 },
  output: ['embeddings'],
})

const createRerankRow = (row: Omit<OverlayRow, 'output'>): OverlayRow => ({
  ...row,
  output: ['rerank'],
})

/** A picture, and each megapixel of it, cost so much. */
const createPictureRow = ({
  prices,
  ...row
}: Omit<OverlayRow, 'prices' | 'output'> & {
  prices: Partial<UsdPerMillionTokens>
}): OverlayRow => ({
  ...row,
  prices: { prompt: 0, completion: 0, ...prices },
  output: ['image'],
})

/** A text of this many characters costs a dollar, as price lists have it per thousand or million. */
const createSpeechRow = ({
  usdPerMillion,
  ...row
}: Omit<OverlayRow, 'prices' | 'output'> & { usdPerMillion: number }): OverlayRow => ({
  ...row,
  prices: { prompt: 0, completion: 0, per_character: Number((usdPerMillion / 1e6).toFixed(12)) },
  output: ['speech'],
})

const createTranscriptionRow = ({
  usdPerHour,
  ...row
}: Omit<OverlayRow, 'prices' | 'output'> & { usdPerHour: number }): OverlayRow => ({
  ...row,
  prices: { prompt: 0, completion: 0, per_input_second: Number((usdPerHour / 3_600).toFixed(12)) },
  output: ['transcription'],
})

/** A second of a video costs so many dollars, by its resolution where that matters. */
const createVideoRow = ({
  second,
  ...row
}: Omit<OverlayRow, 'prices' | 'output'> & {
  second: Pick<UsdPerMillionTokens, 'per_second' | 'per_second_1080p' | 'per_second_4k'>
}): OverlayRow => ({
  ...row,
  prices: { prompt: 0, completion: 0, ...second },
  output: ['video'],
})

/**
 * Embeddings were read on 2026-11-21, ranking and sound on 2026-11-22, pictures and videos on
 * 2026-11-23: FLUX at https://docs.bfl.ai/quick_start/pricing, Recraft at
 * https://www.recraft.ai/docs/api-reference/pricing, Stability by the credits (a cent each) of
 * https://platform.stability.ai/pricing, Veo at https://ai.google.dev/gemini-api/docs/pricing, Runway
 * by the credits (a cent each) of https://docs.dev.runwayml.com/guides/pricing. Those of FLUX
 * and Recraft were read themselves (Recraft V4 as others quote it), Stability's and Veo's as others
 * quote the page, Runway's as a copy of its reference has it. Luma, fal and Fireworks have no row, as no
 * page could be read; Sora's API is shut down. A model that a package has without a price gets that
 * of its row.
 */
export const OVERLAY: OverlayRow[] = [
  createEmbeddingRow({
    id: 'cohere/embed-english-v3.0',
    name: 'Cohere: Embed English v3.0',
    provider: 'cohere',
    model: 'embed-english-v3.0',
    context_length: 512,
    prompt: 0.1,
  }),
  createEmbeddingRow({
    id: 'cohere/embed-multilingual-v3.0',
    name: 'Cohere: Embed Multilingual v3.0',
    provider: 'cohere',
    model: 'embed-multilingual-v3.0',
    context_length: 512,
    prompt: 0.1,
  }),
  createRerankRow({
    id: 'cohere/rerank-v3.5',
    name: 'Cohere: Rerank v3.5',
    provider: 'cohere',
    model: 'rerank-v3.5',
    context_length: 4_096,
    prices: { prompt: 0, completion: 0, per_search_unit: 0.002 },
  }),
  createRerankRow({
    id: 'amazon/rerank-v1',
    name: 'Amazon: Rerank v1',
    provider: 'bedrock',
    model: 'amazon.rerank-v1:0',
    context_length: 4_096,
    prices: { prompt: 0, completion: 0, per_search_unit: 0.001 },
  }),
  createRerankRow({
    id: 'voyage/rerank-2.5',
    name: 'Voyage AI: Rerank 2.5',
    provider: 'voyage',
    model: 'rerank-2.5',
    context_length: 32_000,
    prices: { prompt: 0.05, completion: 0 },
  }),
  createRerankRow({
    id: 'voyage/rerank-2.5-lite',
    name: 'Voyage AI: Rerank 2.5 Lite',
    provider: 'voyage',
    model: 'rerank-2.5-lite',
    context_length: 32_000,
    prices: { prompt: 0.02, completion: 0 },
  }),
  createPictureRow({
    id: 'black-forest-labs/flux.2-pro',
    name: 'Black Forest Labs: FLUX.2 Pro',
    provider: 'black-forest-labs',
    model: 'flux-2-pro',
    prices: { per_image: 0.015, per_megapixel: 0.015, per_input_image: 0.015 },
  }),
  createPictureRow({
    id: 'black-forest-labs/flux.2-max',
    name: 'Black Forest Labs: FLUX.2 Max',
    provider: 'black-forest-labs',
    model: 'flux-2-max',
    prices: { per_image: 0.04, per_megapixel: 0.03, per_input_image: 0.03 },
  }),
  createPictureRow({
    id: 'black-forest-labs/flux.2-flex',
    name: 'Black Forest Labs: FLUX.2 Flex',
    provider: 'black-forest-labs',
    model: 'flux-2-flex',
    prices: { per_megapixel: 0.05, per_input_image: 0.05 },
  }),
  createPictureRow({
    id: 'black-forest-labs/flux.2-klein-4b',
    name: 'Black Forest Labs: FLUX.2 Klein 4B',
    provider: 'black-forest-labs',
    model: 'flux-2-klein-4b',
    prices: { per_image: 0.013, per_megapixel: 0.001, per_input_image: 0.001 },
  }),
  createPictureRow({
    id: 'black-forest-labs/flux-1.1-pro',
    name: 'Black Forest Labs: FLUX 1.1 Pro',
    provider: 'black-forest-labs',
    model: 'flux-pro-1.1',
    prices: { per_image: 0.04 },
  }),
  createPictureRow({
    id: 'stabilityai/stable-image-core',
    name: 'Stability AI: Stable Image Core',
    provider: 'stability',
    model: 'stable-image-core',
    prices: { per_image: 0.03 },
  }),
  createPictureRow({
    id: 'stabilityai/stable-image-ultra',
    name: 'Stability AI: Stable Image Ultra',
    provider: 'stability',
    model: 'stable-image-ultra',
    prices: { per_image: 0.08 },
  }),
  createPictureRow({
    id: 'recraft/recraft-v3',
    name: 'Recraft: Recraft V3',
    provider: 'recraft',
    model: 'recraftv3',
    prices: { per_image: 0.04 },
  }),
  createPictureRow({
    id: 'recraft/recraft-v4',
    name: 'Recraft: Recraft V4',
    provider: 'recraft',
    model: 'recraftv4',
    prices: { per_image: 0.04 },
  }),
  createPictureRow({
    id: 'recraft/recraft-v4-vector',
    name: 'Recraft: Recraft V4 Vector',
    provider: 'recraft',
    model: 'recraftv4_vector',
    prices: { per_image: 0.08 },
  }),
  createPictureRow({
    id: 'recraft/recraft-v4.1',
    name: 'Recraft: Recraft V4.1',
    provider: 'recraft',
    model: 'recraftv4_1',
    prices: { per_image: 0.035 },
  }),
  createPictureRow({
    id: 'recraft/recraft-v4.1-pro',
    name: 'Recraft: Recraft V4.1 Pro',
    provider: 'recraft',
    model: 'recraftv4_1_pro',
    prices: { per_image: 0.21 },
  }),
  createPictureRow({
    id: 'stabilityai/stable-diffusion-3.5-large',
    name: 'Stability AI: Stable Diffusion 3.5 Large',
    provider: 'stability',
    model: 'sd3.5-large',
    prices: { per_image: 0.065 },
  }),
  createPictureRow({
    id: 'stabilityai/stable-diffusion-3.5-large-turbo',
    name: 'Stability AI: Stable Diffusion 3.5 Large Turbo',
    provider: 'stability',
    model: 'sd3.5-large-turbo',
    prices: { per_image: 0.04 },
  }),
  createPictureRow({
    id: 'stabilityai/stable-diffusion-3.5-medium',
    name: 'Stability AI: Stable Diffusion 3.5 Medium',
    provider: 'stability',
    model: 'sd3.5-medium',
    prices: { per_image: 0.035 },
  }),
  createSpeechRow({
    id: 'openai/tts-1',
    name: 'OpenAI: TTS-1',
    provider: 'openai',
    model: 'tts-1',
    usdPerMillion: 15,
  }),
  createSpeechRow({
    id: 'openai/tts-1-hd',
    name: 'OpenAI: TTS-1 HD',
    provider: 'openai',
    model: 'tts-1-hd',
    usdPerMillion: 30,
  }),
  createSpeechRow({
    id: 'deepgram/aura-2',
    name: 'Deepgram: Aura-2',
    provider: 'deepgram',
    model: 'aura-2',
    usdPerMillion: 30,
  }),
  createTranscriptionRow({
    id: 'openai/whisper-1',
    name: 'OpenAI: whisper-1',
    provider: 'openai',
    model: 'whisper-1',
    usdPerHour: 0.36,
  }),
  createTranscriptionRow({
    id: 'openai/whisper-large-v3',
    name: 'OpenAI: whisper-large-v3',
    provider: 'groq',
    model: 'whisper-large-v3',
    usdPerHour: 0.111,
  }),
  createTranscriptionRow({
    id: 'openai/whisper-large-v3-turbo',
    name: 'OpenAI: whisper-large-v3-turbo',
    provider: 'groq',
    model: 'whisper-large-v3-turbo',
    usdPerHour: 0.04,
  }),
  createTranscriptionRow({
    id: 'deepgram/nova-3',
    name: 'Deepgram: Nova-3',
    provider: 'deepgram',
    model: 'nova-3',
    usdPerHour: 0.258,
  }),
  createVideoRow({
    id: 'google/veo-3.1',
    name: 'Google: Veo 3.1',
    provider: 'google',
    model: 'veo-3.1-generate-preview',
    second: { per_second: 0.4, per_second_4k: 0.6 },
  }),
  createVideoRow({
    id: 'google/veo-3.1-fast',
    name: 'Google: Veo 3.1 Fast',
    provider: 'google',
    model: 'veo-3.1-fast-generate-preview',
    second: { per_second: 0.1, per_second_1080p: 0.12, per_second_4k: 0.3 },
  }),
  createVideoRow({
    id: 'google/veo-3.1-lite',
    name: 'Google: Veo 3.1 Lite',
    provider: 'google',
    model: 'veo-3.1-lite-generate-preview',
    second: { per_second: 0.05, per_second_1080p: 0.08 },
  }),
  createVideoRow({
    id: 'runway/gen-4-turbo',
    name: 'Runway: Gen-4 Turbo',
    provider: 'runway',
    model: 'gen4_turbo',
    second: { per_second: 0.05 },
  }),
  createVideoRow({
    id: 'runway/gen-4.5',
    name: 'Runway: Gen-4.5',
    provider: 'runway',
    model: 'gen4.5',
    second: { per_second: 0.12 },
  }),
]

/** Context lengths of embedding models, which no package has, by slug. */
export const CONTEXTS: Record<string, number> = {
  'openai/text-embedding-3-small': 8192,
  'openai/text-embedding-3-large': 8192,
  'openai/text-embedding-ada-002': 8192,
  'google/gemini-embedding-001': 2048,
  'mistralai/mistral-embed': 8192,
  'voyage/voyage-3-large': 32_000,
  'voyage/voyage-3.5': 32_000,
  'voyage/voyage-3.5-lite': 32_000,
  'voyage/voyage-code-3': 32_000,
}

/** The inputs that a family accepts in addition to text and images, by slug. */
export const INPUTS: [family: RegExp, inputs: string[]][] = [
  [/^anthropic\/claude-(?!2)/, ['file']],
  [/^google\/gemini-(?!embedding)(?!.*image)/, ['file', 'audio', 'video']],
  [
    /^openai\/(gpt-4o(?!.*(audio|transcribe|tts|search))|gpt-4\.1|gpt-5(?!.*image)|gpt-6|o1|o3|o4)/,
    ['file'],
  ],
]

/** The outputs of models that answer with more than text, by name. */
export const OUTPUTS: [name: RegExp, outputs: string[]][] = [
  [/rerank/, ['rerank']],
  [/embed|^bge|voyage-/, ['embeddings']],
  [/whisper|transcribe/, ['transcription']],
  [/-tts$/, ['speech']],
  [/audio/, ['text', 'audio']],
  [/^(gpt-image|flux|imagen)/, ['image']],
  [/(image|nano-banana)/, ['image', 'text']],
]

/** Slugs under which the public service sells what the author calls otherwise, or has withdrawn. */
export const NOT_AT_HOME =
  /^openai\/gpt-[\d.]+-(astra|luna|sol|terra)-pro$|^google\/gemini-2\.5-pro-preview$|^x-ai\/grok-imagine/

/** The author's own name of a model where it is not that of the slug, and prices no reseller has. */
export const AT_HOME: Record<string, { model: string; prices?: UsdPerMillionTokens }> = {
  'anthropic/claude-sonnet-4': {
    model: 'claude-sonnet-4-20250514',
    prices: {
      ...{ prompt: 3, completion: 15, cache_read: 0.3, cache_write: 3.75, cache_write_1h: 6 },
      web_search: 0.01,
    },
  },
  'openai/gpt-5.2-chat': { model: 'gpt-5.2-chat-latest' },
}

/** The display names of authors without a model on the public service. */
export const AUTHORS: Record<string, string> = {
  alpindale: 'Alpindale',
  baai: 'BAAI',
  baidu: 'Baidu',
  deepgram: 'Deepgram',
  nousresearch: 'Nous',
  perplexity: 'Perplexity',
  pfnet: 'Preferred Networks',
  poolside: 'Poolside',
  'prime-intellect': 'Prime Intellect',
  runway: 'Runway',
  sao10k: 'Sao10K',
  'tokyotech-llm': 'TokyoTech LLM',
  voyage: 'Voyage AI',
  writer: 'Writer',
}

/** Families that always reason, whatever a package says. */
export const ALWAYS_REASONING =
  /^deepseek\/deepseek-r1|^minimax\/minimax-m[12]\b|^qwen\/(qwq|qwen3-.*-thinking)/

/**
 * USD for one request, where a package has the price of the largest search. These are the prices of
 * the default search.
 */
export const REQUESTS: Record<string, number> = {
  'perplexity/sonar': 0.005,
  'perplexity/sonar-pro': 0.006,
  'perplexity/sonar-reasoning': 0.005,
  'perplexity/sonar-reasoning-pro': 0.006,
}
