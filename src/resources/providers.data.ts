import type { Quirks } from '../config/quirks.ts'
import type { ProviderVariables } from './providers/environment.ts'
import type { ProviderRow } from './providers.ts'

/** Sampling parameters that OpenAI's own API does not have. */
const SAMPLING_EXTRAS = ['top_k', 'min_p', 'top_a', 'repetition_penalty']

/** The bound of the gateway's own tools. OpenAI's API has it for responses alone. */
const STEPS = 'max_tool_calls'

/** OpenAI refuses what it does not know, both parameters and fields of a message. */
const OPENAI: Partial<Quirks> = {
  output_bound: 'max_completion_tokens',
  reasoning_back: 'none',
  cache_markers: false,
  json_word: true,
  most_stops: 4,
  dropped: [...SAMPLING_EXTRAS, 'input_type', STEPS],
}

/** Supports OpenAI's chat as it was before the developer role, without cache markers. */
const PLAIN: Partial<Quirks> = { developer_role: false, cache_markers: false }

/** Serves open models, some of which think aloud in the text. */
const OPEN_MODELS: Partial<Quirks> = { ...PLAIN, think_tags: true, reasoning_back: 'reasoning' }

/** The variables of a service with one prefix or several: `OPENAI_API_KEY`, `OPENAI_BASE_URL`. */
const named = (...prefixes: string[]): ProviderVariables => ({
  api_key: prefixes.map(prefix => `${prefix}_API_KEY`),
  base_url: prefixes.map(prefix => `${prefix}_BASE_URL`),
})

/**
 * The providers known by name: the protocols and address of each. The config adds only the
 * credential, and the values for the blanks of an address. Those that drain do not stop when their
 * client leaves (OpenRouter's guide, "Streaming", Stream Cancellation).
 */
export const PROVIDERS = {
  openai: {
    name: 'OpenAI',
    protocol: 'openai-chat',
    also: ['openai-responses'],
    base_url: 'https://api.openai.com/v1',
    quirks: { ...OPENAI, speech: 'openai' },
    variables: named('OPENAI'),
  },
  azure: {
    name: 'Azure',
    protocol: 'openai-chat',
    also: ['openai-responses'],
    base_url: null,
    auth: 'api-key',
    quirks: OPENAI,
    variables: {
      api_key: ['AZURE_API_KEY', 'AZURE_OPENAI_API_KEY'],
      base_url: ['AZURE_BASE_URL', 'AZURE_OPENAI_ENDPOINT'],
      bare_path: '/openai/v1',
    },
  },
  anthropic: {
    name: 'Anthropic',
    protocol: 'anthropic-messages',
    base_url: 'https://api.anthropic.com/v1',
    variables: named('ANTHROPIC'),
  },
  google: {
    name: 'Google AI Studio',
    protocol: 'gemini',
    on_abort: 'drain',
    base_url: 'https://generativelanguage.googleapis.com/v1beta',
    variables: {
      api_key: ['GEMINI_API_KEY', 'GOOGLE_API_KEY', 'GOOGLE_GENERATIVE_AI_API_KEY'],
      base_url: ['GEMINI_BASE_URL', 'GOOGLE_GEMINI_BASE_URL'],
    },
  },
  vertex: {
    name: 'Google',
    home: 'google',
    protocol: 'gemini',
    on_abort: 'drain',
    base_url:
      'https://{region}-aiplatform.googleapis.com/v1/projects/{project}/locations/{region}/publishers/google',
    regions: {
      global:
        'https://aiplatform.googleapis.com/v1/projects/{project}/locations/global/publishers/google',
    },
    auth: 'bearer',
    instead: 'service_account',
  },
  'vertex-anthropic': {
    name: 'Google',
    protocol: 'anthropic-vertex',
    base_url:
      'https://{region}-aiplatform.googleapis.com/v1/projects/{project}/locations/{region}/publishers/anthropic',
    regions: {
      global:
        'https://aiplatform.googleapis.com/v1/projects/{project}/locations/global/publishers/anthropic',
    },
    auth: 'bearer',
    instead: 'service_account',
  },
  bedrock: {
    name: 'Amazon Bedrock',
    protocol: 'bedrock-converse',
    on_abort: 'drain',
    base_url: 'https://bedrock-runtime.{region}.amazonaws.com',
    instead: 'aws',
    variables: {
      api_key: ['AWS_BEARER_TOKEN_BEDROCK'],
      access_key_id: ['AWS_ACCESS_KEY_ID'],
      secret_access_key: ['AWS_SECRET_ACCESS_KEY'],
      session_token: ['AWS_SESSION_TOKEN'],
      region: ['AWS_REGION', 'AWS_DEFAULT_REGION'],
      base_url: ['AWS_ENDPOINT_URL_BEDROCK_RUNTIME', 'BEDROCK_BASE_URL'],
    },
  },
  cohere: {
    name: 'Cohere',
    protocol: 'cohere-chat',
    base_url: 'https://api.cohere.com/v2',
    variables: named('CO', 'COHERE'),
  },
  voyage: {
    name: 'VoyageAI by MongoDB',
    protocol: 'voyage-rerank',
    base_url: 'https://api.voyageai.com/v1',
    variables: named('VOYAGE'),
  },
  jina: {
    name: 'Jina AI',
    protocol: 'jina-rerank',
    base_url: 'https://api.jina.ai/v1',
    variables: named('JINA'),
  },
  elevenlabs: {
    name: 'ElevenLabs',
    protocol: 'elevenlabs',
    base_url: 'https://api.elevenlabs.io/v1',
    variables: named('ELEVENLABS', 'ELEVEN'),
  },
  runway: {
    name: 'Runway',
    protocol: 'runway',
    base_url: 'https://api.dev.runwayml.com/v1',
    variables: {
      api_key: ['RUNWAYML_API_SECRET', 'RUNWAY_API_KEY'],
      base_url: ['RUNWAYML_BASE_URL', 'RUNWAY_BASE_URL'],
    },
  },
  luma: {
    name: 'Luma',
    protocol: 'luma',
    base_url: 'https://api.lumalabs.ai/dream-machine/v1',
    variables: named('LUMA', 'LUMAAI'),
  },
  deepgram: {
    name: 'Deepgram',
    protocol: 'deepgram',
    base_url: 'https://api.deepgram.com/v1',
    variables: named('DEEPGRAM'),
  },
  'black-forest-labs': {
    name: 'Black Forest Labs',
    protocol: 'bfl',
    on_abort: 'drain',
    base_url: 'https://api.bfl.ai/v1',
    variables: named('BFL'),
  },
  fal: {
    name: 'fal',
    protocol: 'fal',
    on_abort: 'drain',
    base_url: 'https://fal.run',
    variables: { api_key: ['FAL_KEY', 'FAL_API_KEY'], base_url: ['FAL_BASE_URL'] },
  },
  recraft: {
    name: 'Recraft',
    protocol: 'openai-chat',
    base_url: 'https://external.api.recraft.ai/v1',
    quirks: { images: 'recraft' },
    variables: {
      api_key: ['RECRAFT_API_TOKEN', 'RECRAFT_API_KEY'],
      base_url: ['RECRAFT_BASE_URL'],
    },
  },
  stability: {
    name: 'Stability AI',
    home: 'stabilityai',
    protocol: 'stability',
    base_url: 'https://api.stability.ai/v2beta',
    variables: named('STABILITY'),
  },
  mistral: {
    name: 'Mistral',
    home: 'mistralai',
    protocol: 'openai-chat',
    on_abort: 'drain',
    base_url: 'https://api.mistral.ai/v1',
    quirks: {
      ...PLAIN,
      speech: 'mistral',
      names: false,
      reasoning_back: 'content',
      tool_call_ids: 'nine',
      required_tool: 'any',
      prefill: 'prefix',
      counts_stream: false,
      renamed: { seed: 'random_seed', dimensions: 'output_dimension' },
      dropped: [
        ...SAMPLING_EXTRAS,
        'logit_bias',
        'logprobs',
        'top_logprobs',
        'user',
        'service_tier',
        'verbosity',
        'input_type',
        STEPS,
      ],
    },
    variables: named('MISTRAL'),
  },
  deepseek: {
    name: 'DeepSeek',
    protocol: 'openai-chat',
    also: [{ protocol: 'anthropic-messages', base_url: 'https://api.deepseek.com/anthropic/v1' }],
    base_url: 'https://api.deepseek.com/v1',
    quirks: {
      ...PLAIN,
      reasoning: 'thinking',
      reasoning_back: 'reasoning_content',
      alternating: true,
      json_schema: false,
      json_word: true,
    },
    variables: named('DEEPSEEK'),
  },
  groq: {
    name: 'Groq',
    protocol: 'openai-chat',
    on_abort: 'drain',
    base_url: 'https://api.groq.com/openai/v1',
    quirks: {
      ...PLAIN,
      speech: 'groq',
      names: false,
      reasoning_back: 'reasoning',
      think_tags: true,
      json_word: true,
      most_stops: 4,
      dropped: ['logit_bias', 'logprobs', 'top_logprobs', STEPS],
    },
    variables: named('GROQ'),
  },
  xai: {
    name: 'xAI',
    home: 'x-ai',
    protocol: 'openai-chat',
    also: ['openai-responses'],
    base_url: 'https://api.x.ai/v1',
    quirks: { ...PLAIN, images: 'xai', reasoning_back: 'reasoning_content' },
    variables: named('XAI'),
  },
  perplexity: {
    name: 'Perplexity',
    protocol: 'openai-chat',
    on_abort: 'drain',
    base_url: 'https://api.perplexity.ai',
    quirks: {
      ...PLAIN,
      names: false,
      alternating: true,
      think_tags: true,
      reasoning_back: 'none',
      web_search: true,
      dropped: ['logit_bias', 'parallel_tool_calls'],
    },
    variables: named('PERPLEXITY'),
  },
  moonshotai: {
    name: 'Moonshot AI',
    protocol: 'openai-chat',
    also: [{ protocol: 'anthropic-messages', base_url: 'https://api.moonshot.ai/anthropic/v1' }],
    base_url: 'https://api.moonshot.ai/v1',
    quirks: {
      ...PLAIN,
      reasoning: 'thinking',
      reasoning_back: 'reasoning_content',
      prefill: 'partial',
    },
    variables: named('MOONSHOT'),
  },
  alibaba: {
    name: 'Alibaba',
    home: 'qwen',
    protocol: 'openai-chat',
    on_abort: 'drain',
    base_url: 'https://dashscope-intl.aliyuncs.com/compatible-mode/v1',
    quirks: {
      ...PLAIN,
      reasoning: 'enable_thinking',
      reasoning_back: 'reasoning_content',
      cache_markers: true,
      json_schema: false,
      json_word: true,
      prefill: 'partial',
    },
    variables: named('DASHSCOPE', 'ALIBABA'),
  },
  together: {
    name: 'Together',
    protocol: 'openai-chat',
    base_url: 'https://api.together.xyz/v1',
    quirks: { ...OPEN_MODELS, images: 'together' },
    variables: named('TOGETHER', 'TOGETHER_AI'),
  },
  fireworks: {
    name: 'Fireworks',
    protocol: 'openai-chat',
    base_url: 'https://api.fireworks.ai/inference/v1',
    quirks: { ...OPEN_MODELS, reasoning_back: 'reasoning_content', images: 'fireworks' },
    variables: named('FIREWORKS'),
  },
  cerebras: {
    name: 'Cerebras',
    protocol: 'openai-chat',
    base_url: 'https://api.cerebras.ai/v1',
    quirks: {
      ...OPEN_MODELS,
      dropped: [...SAMPLING_EXTRAS, 'frequency_penalty', 'presence_penalty', 'logit_bias', STEPS],
    },
    variables: named('CEREBRAS'),
  },
  xiaomi: {
    name: 'Xiaomi',
    protocol: 'openai-chat',
    base_url: 'https://api.xiaomimimo.com/v1',
    quirks: { ...PLAIN, reasoning_back: 'reasoning_content' },
    variables: named('XIAOMI'),
  },
  zai: {
    name: 'Z.AI',
    home: 'z-ai',
    protocol: 'openai-chat',
    also: [{ protocol: 'anthropic-messages', base_url: 'https://api.z.ai/api/anthropic/v1' }],
    base_url: 'https://api.z.ai/api/paas/v4',
    quirks: { ...PLAIN, reasoning: 'thinking', reasoning_back: 'reasoning_content' },
    variables: named('ZAI', 'Z_AI'),
  },
  minimax: {
    name: 'Minimax',
    protocol: 'openai-chat',
    also: [{ protocol: 'anthropic-messages', base_url: 'https://api.minimax.io/anthropic/v1' }],
    on_abort: 'drain',
    base_url: 'https://api.minimax.io/v1',
    quirks: OPEN_MODELS,
    variables: named('MINIMAX'),
  },
  meta: {
    name: 'Meta',
    protocol: 'openai-responses',
    base_url: 'https://api.meta.ai/v1',
    variables: named('META'),
  },
  inclusionai: {
    name: 'InclusionAI',
    protocol: 'openai-chat',
    base_url: 'https://api.ant-ling.com/v1',
    quirks: OPEN_MODELS,
    variables: named('INCLUSIONAI'),
  },
  arcee: {
    name: 'Arcee AI',
    protocol: 'openai-chat',
    base_url: 'https://api.arcee.ai/api/v1',
    quirks: OPEN_MODELS,
    variables: named('ARCEE'),
  },
  avian: {
    name: 'Avian',
    protocol: 'openai-chat',
    base_url: 'https://api.avian.io/v1',
    quirks: OPEN_MODELS,
    variables: named('AVIAN'),
  },
  baseten: {
    name: 'BaseTen',
    protocol: 'openai-chat',
    base_url: 'https://inference.baseten.co/v1',
    quirks: OPEN_MODELS,
    variables: named('BASETEN'),
  },
  cloudflare: {
    name: 'Cloudflare',
    protocol: 'openai-chat',
    base_url: null,
    quirks: OPEN_MODELS,
    variables: { api_key: ['CLOUDFLARE_API_TOKEN'], base_url: ['CLOUDFLARE_BASE_URL'] },
  },
  doubleword: {
    name: 'Doubleword',
    protocol: 'openai-chat',
    base_url: 'https://api.doubleword.ai/v1',
    quirks: OPEN_MODELS,
    variables: named('DOUBLEWORD'),
  },
  huggingface: {
    name: 'Hugging Face',
    protocol: 'openai-chat',
    on_abort: 'drain',
    base_url: 'https://router.huggingface.co/v1',
    quirks: OPEN_MODELS,
    variables: {
      api_key: ['HF_TOKEN', 'HUGGINGFACE_API_KEY'],
      base_url: ['HUGGINGFACE_BASE_URL'],
    },
  },
  novita: {
    name: 'Novita',
    protocol: 'openai-chat',
    base_url: 'https://api.novita.ai/v3/openai',
    quirks: OPEN_MODELS,
    variables: named('NOVITA'),
  },
  nscale: {
    name: 'Nscale',
    protocol: 'openai-chat',
    base_url: 'https://inference.api.nscale.com/v1',
    quirks: OPEN_MODELS,
    variables: named('NSCALE'),
  },
  ovhcloud: {
    name: 'OVHcloud',
    protocol: 'openai-chat',
    base_url: 'https://oai.endpoints.kepler.ai.cloud.ovh.net/v1',
    quirks: OPEN_MODELS,
    variables: named('OVHCLOUD'),
  },
  vercel: {
    name: 'Vercel',
    protocol: 'openai-chat',
    base_url: 'https://ai-gateway.vercel.sh/v1',
    quirks: { reasoning: 'object' },
    variables: named('AI_GATEWAY', 'VERCEL_AI_GATEWAY'),
  },
  openrouter: {
    name: 'OpenRouter',
    protocol: 'openai-chat',
    base_url: 'https://openrouter.ai/api/v1',
    quirks: {
      reasoning: 'object',
      images: 'openrouter',
      speech: 'openrouter',
      videos: 'openrouter',
    },
    variables: named('OPENROUTER'),
  },
  nvidia: {
    name: 'Nvidia',
    protocol: 'openai-chat',
    base_url: 'https://integrate.api.nvidia.com/v1',
    quirks: OPEN_MODELS,
    variables: named('NVIDIA'),
  },
  hyperbolic: {
    name: 'Hyperbolic',
    protocol: 'openai-chat',
    base_url: 'https://api.hyperbolic.xyz/v1',
    quirks: OPEN_MODELS,
    variables: named('HYPERBOLIC'),
  },
  nebius: {
    name: 'Nebius',
    protocol: 'openai-chat',
    on_abort: 'drain',
    base_url: 'https://api.studio.nebius.com/v1',
    quirks: OPEN_MODELS,
    variables: named('NEBIUS'),
  },
  sambanova: {
    name: 'SambaNova',
    protocol: 'openai-chat',
    on_abort: 'drain',
    base_url: 'https://api.sambanova.ai/v1',
    quirks: OPEN_MODELS,
    variables: named('SAMBANOVA'),
  },
  deepinfra: {
    name: 'DeepInfra',
    protocol: 'openai-chat',
    base_url: 'https://api.deepinfra.com/v1/openai',
    quirks: OPEN_MODELS,
    variables: named('DEEPINFRA'),
  },
  ollama: {
    name: 'Ollama',
    protocol: 'openai-chat',
    base_url: 'http://127.0.0.1:11434/v1',
    keyless: true,
    quirks: OPEN_MODELS,
    variables: { base_url: ['OLLAMA_BASE_URL'] },
  },
  lmstudio: {
    name: 'LM Studio',
    protocol: 'openai-chat',
    base_url: 'http://127.0.0.1:1234/v1',
    keyless: true,
    quirks: { ...OPEN_MODELS, reasoning_back: 'reasoning_content' },
    variables: { base_url: ['LMSTUDIO_BASE_URL'] },
  },
  vllm: {
    name: 'vLLM',
    protocol: 'openai-chat',
    base_url: 'http://127.0.0.1:8000/v1',
    keyless: true,
    quirks: { ...OPEN_MODELS, reasoning: 'template' },
    variables: { base_url: ['VLLM_BASE_URL'] },
  },
  llamacpp: {
    name: 'llama.cpp',
    protocol: 'openai-chat',
    base_url: 'http://127.0.0.1:8080/v1',
    keyless: true,
    quirks: { ...OPEN_MODELS, reasoning: 'template', reasoning_back: 'reasoning_content' },
    variables: { base_url: ['LLAMACPP_BASE_URL'] },
  },
  sandbox: { name: 'Sandbox', protocol: 'sandbox', base_url: 'sandbox:', keyless: true },
} satisfies Record<string, ProviderRow>
