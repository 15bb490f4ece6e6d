/** The sources of the rows of one of our providers. */
export interface ProviderSource {
  /** pi-ai's name of the provider. What pi-ai lists is what is served. */
  pi?: string
  /**
   * genai-prices' name of the provider. Its rows are what is served where pi-ai does not know the
   * provider.
   */
  priced?: string
  /** The author whose models it serves, where it serves no others. */
  home?: string
  /**
   * The names of its author's models that are at no provider but by its leave: as long as a reseller
   * sells one, it is served.
   */
  closed?: RegExp
  /** Converts the source's name of a model to the provider's own. */
  toUpstreamName?: (id: string) => string
  /** Rows of the source that are another provider's, or that cannot be called by this name. */
  skip?: RegExp
  /**
   * Rows that only genai-prices has and that are still served: pi-ai lists only models with tools.
   */
  keep?: RegExp
  /** Set for a reseller: it adds endpoints, and no models of its own. */
  joinsOnly?: boolean
}

// Hugging Face's router lists the provider of each model at that provider's price. The names are
// Hugging Face's, and most servers use them unchanged.
const removeOwner = (id: string) => id.slice(id.indexOf('/') + 1)
const toSambanovaName = (id: string) =>
  removeOwner(id).replace(/^(?=Llama-3\.[13]-\d+B-Instruct)/, 'Meta-')
const toFireworksName = (id: string) => (id.includes('/') ? id : `accounts/fireworks/models/${id}`)
const toCohereName = (id: string) => COHERE_NAMES[id] ?? id
const COHERE_NAMES: Record<string, string> = {
  'command-a': 'command-a-03-2025',
  'command-r': 'command-r-08-2024',
  'command-r-plus': 'command-r-plus-08-2024',
  'command-r7b': 'command-r7b-12-2024',
}
const toNovitaName = (id: string) => id.toLowerCase().replace(/^deepseek-ai\//, 'deepseek/')

/**
 * Our providers and their sources. Monthly plans (copilots, coding plans) have no price per token
 * and are left out.
 */
export const PROVIDER_SOURCES: Record<string, ProviderSource> = {
  openai: {
    pi: 'openai',
    priced: 'openai',
    home: 'openai',
    closed: /^(?!gpt-oss|whisper-large)/,
    skip: /^ft:|oss|cyber|daybreak|realtime|moderation|^gpt-3\.5-0301/,
    keep: /^gpt-3\.5-turbo(-instruct)?$|search-preview|deep-research/,
  },
  anthropic: { pi: 'anthropic', priced: 'anthropic', home: 'anthropic', closed: /^claude/ },
  google: {
    pi: 'google',
    priced: 'google',
    home: 'google',
    closed: /^(gemini|veo)/,
    skip: /claude|live|maas|robotics|computer-use|deep-research/,
  },
  vertex: { pi: 'google-vertex', priced: 'google', home: 'google', skip: /claude|gemma/ },
  bedrock: { pi: 'amazon-bedrock', priced: 'aws', skip: /^(us-gov|au|apac|ca|in|jp)\.|sonic/ },
  azure: { pi: 'azure', priced: 'azure', skip: /cyber|daybreak|:free|mai-|wizardlm/ },
  mistral: { pi: 'mistral', priced: 'mistral', skip: /^labs-|:free/ },
  xai: { pi: 'xai', priced: 'x-ai', home: 'x-ai', closed: /^grok/, skip: /voice/ },
  deepseek: {
    pi: 'deepseek',
    priced: 'deepseek',
    home: 'deepseek',
    skip: /chat|reasoner|v3|terminus/,
  },
  moonshotai: { pi: 'moonshotai', priced: 'moonshotai', home: 'moonshotai' },
  minimax: { pi: 'minimax', priced: 'minimax', home: 'minimax' },
  zai: { pi: 'zai', priced: 'zai', home: 'z-ai' },
  meta: { pi: 'meta', home: 'meta' },
  xiaomi: { pi: 'xiaomi', home: 'xiaomi' },
  inclusionai: { pi: 'ant-ling', home: 'inclusionai' },
  cohere: { priced: 'cohere', home: 'cohere', toUpstreamName: toCohereName, skip: /^command$/ },
  perplexity: { priced: 'perplexity', home: 'perplexity', skip: /^llama|r1-1776|search$/ },
  voyage: { priced: 'voyageai', home: 'voyage' },
  groq: { pi: 'groq', priced: 'groq' },
  cerebras: { pi: 'cerebras', priced: 'cerebras' },
  together: { pi: 'together', priced: 'together' },
  fireworks: {
    pi: 'fireworks',
    priced: 'fireworks',
    toUpstreamName: toFireworksName,
    skip: /\/routers\//,
  },
  nvidia: { pi: 'nvidia' },
  baseten: { pi: 'baseten', priced: 'baseten' },
  cloudflare: {
    pi: 'cloudflare-workers-ai',
    priced: 'cloudflare',
    skip: /indictrans|distilbert|m2m100|moondream|guard/,
  },
  huggingface: { pi: 'huggingface' },
  nebius: { priced: 'huggingface_nebius' },
  hyperbolic: { priced: 'huggingface_hyperbolic' },
  novita: {
    priced: 'huggingface_novita',
    toUpstreamName: toNovitaName,
    skip: /Base-PT|Prover|AutoGLM/i,
  },
  nscale: { priced: 'huggingface_nscale' },
  sambanova: { priced: 'huggingface_sambanova', toUpstreamName: toSambanovaName },
  ovhcloud: { priced: 'ovhcloud' },
  doubleword: { priced: 'doubleword' },
  arcee: { priced: 'arcee', skip: /latest/ },
  avian: { priced: 'avian' },
  openrouter: { pi: 'openrouter', skip: /^(openrouter\/|auto$)/ },
  vercel: { pi: 'vercel-ai-gateway', joinsOnly: true },
}
