import type { UsdPerMillionTokens } from '../../src/core/config/prices.ts'

/** A row that no package has, written by hand from the provider's own price page. */
export interface OverlayRow {
  id: string
  name: string
  provider: string
  model: string
  prices: UsdPerMillionTokens
  context_length: number
  output: string[]
}

const embedding = (
  provider: string,
  model: string,
  id: string,
  name: string,
  context_length: number,
  prompt: number,
): OverlayRow => ({
  id,
  name,
  provider,
  model,
  prices: { prompt, completion: 0 },
  context_length,
  output: ['embeddings'],
})

/** Read on 2026-11-21. */
export const OVERLAY: OverlayRow[] = [
  embedding(
    'cohere',
    'embed-english-v3.0',
    'cohere/embed-english-v3.0',
    'Cohere: Embed English v3.0',
    512,
    0.1,
  ),
  embedding(
    'cohere',
    'embed-multilingual-v3.0',
    'cohere/embed-multilingual-v3.0',
    'Cohere: Embed Multilingual v3.0',
    512,
    0.1,
  ),
]

/** Contexts of embedding models, which no package has, by slug. */
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

/** What else than text and images a family takes, by slug. */
export const INPUTS: [family: RegExp, inputs: string[]][] = [
  [/^anthropic\/claude-(?!2)/, ['file']],
  [/^google\/gemini-(?!embedding)(?!.*image)/, ['file', 'audio', 'video']],
  [
    /^openai\/(gpt-4o(?!.*(audio|transcribe|tts|search))|gpt-4\.1|gpt-5(?!.*image)|gpt-6|o1|o3|o4)/,
    ['file'],
  ],
]

/** What comes out of models that answer with something else than text, by the name. */
export const OUTPUTS: [name: RegExp, outputs: string[]][] = [
  [/rerank/, ['rerank']],
  [/embed|^bge|voyage-/, ['embeddings']],
  [/whisper|transcribe/, ['transcription']],
  [/-tts$/, ['speech']],
  [/audio/, ['text', 'audio']],
  [/^(gpt-image|flux|imagen)/, ['image']],
  [/(image|nano-banana)/, ['image', 'text']],
]

/** Models that a provider serves by another of its protocols only. */
export const PROTOCOLS: [provider: RegExp, model: RegExp, protocol: string][] = [
  [/^(openai|azure)$/, /-pro$|codex|deep-research/, 'openai-responses'],
]

/** How authors write themselves, where the public service has no model of theirs to tell. */
export const AUTHORS: Record<string, string> = {
  alpindale: 'Alpindale',
  baai: 'BAAI',
  baidu: 'Baidu',
  nousresearch: 'Nous',
  perplexity: 'Perplexity',
  pfnet: 'Preferred Networks',
  poolside: 'Poolside',
  'prime-intellect': 'Prime Intellect',
  sao10k: 'Sao10K',
  'tokyotech-llm': 'TokyoTech LLM',
  voyage: 'Voyage AI',
  writer: 'Writer',
}

/** Families that cannot be kept from reasoning, whatever a package says. */
export const ALWAYS_REASONING =
  /^deepseek\/deepseek-r1|^minimax\/minimax-m[12]\b|^qwen\/(qwq|qwen3-.*-thinking)/

/** USD for one request where a package has the price of the largest search: these are of a search as it is when nobody asks for a larger one. */
export const REQUESTS: Record<string, number> = {
  'perplexity/sonar': 0.005,
  'perplexity/sonar-pro': 0.006,
  'perplexity/sonar-reasoning': 0.005,
  'perplexity/sonar-reasoning-pro': 0.006,
}
