import type { ProviderRow } from './providers.ts'

/**
 * The providers known by name: how each speaks and where it is. A credential in the config is all that is missing, and what the
 * blanks of an address ask for.
 * `max_completion_tokens` is what OpenAI's newer models call the output bound; every other server knows `max_tokens`.
 */
export const PROVIDERS = {
  openai: { name: 'OpenAI', protocol: 'openai-chat', base_url: 'https://api.openai.com/v1', outputBound: 'max_completion_tokens' },
  azure: { name: 'Azure', protocol: 'openai-chat', base_url: null, auth: 'api-key', outputBound: 'max_completion_tokens' },
  anthropic: { name: 'Anthropic', protocol: 'anthropic-messages', base_url: 'https://api.anthropic.com/v1' },
  google: { name: 'Google AI Studio', protocol: 'gemini', base_url: 'https://generativelanguage.googleapis.com/v1beta' },
  vertex: {
    name: 'Google',
    protocol: 'gemini',
    base_url: 'https://{region}-aiplatform.googleapis.com/v1/projects/{project}/locations/{region}/publishers/google',
    regions: { global: 'https://aiplatform.googleapis.com/v1/projects/{project}/locations/global/publishers/google' },
    auth: 'bearer',
    instead: 'service_account',
  },
  bedrock: {
    name: 'Amazon Bedrock',
    protocol: 'bedrock-converse',
    base_url: 'https://bedrock-runtime.{region}.amazonaws.com',
    instead: 'aws',
  },
  cohere: { name: 'Cohere', protocol: 'cohere-chat', base_url: 'https://api.cohere.com/v2' },
  voyage: { name: 'Voyage AI', protocol: 'voyage-rerank', base_url: 'https://api.voyageai.com/v1' },
  jina: { name: 'Jina AI', protocol: 'jina-rerank', base_url: 'https://api.jina.ai/v1' },
  mistral: { name: 'Mistral', protocol: 'openai-chat', base_url: 'https://api.mistral.ai/v1' },
  deepseek: { name: 'DeepSeek', protocol: 'openai-chat', base_url: 'https://api.deepseek.com/v1' },
  groq: { name: 'Groq', protocol: 'openai-chat', base_url: 'https://api.groq.com/openai/v1' },
  xai: { name: 'xAI', protocol: 'openai-chat', base_url: 'https://api.x.ai/v1' },
  perplexity: { name: 'Perplexity', protocol: 'openai-chat', base_url: 'https://api.perplexity.ai' },
  moonshotai: { name: 'Moonshot AI', protocol: 'openai-chat', base_url: 'https://api.moonshot.ai/v1' },
  alibaba: { name: 'Alibaba', protocol: 'openai-chat', base_url: 'https://dashscope-intl.aliyuncs.com/compatible-mode/v1' },
  together: { name: 'Together', protocol: 'openai-chat', base_url: 'https://api.together.xyz/v1' },
  fireworks: { name: 'Fireworks', protocol: 'openai-chat', base_url: 'https://api.fireworks.ai/inference/v1' },
  cerebras: { name: 'Cerebras', protocol: 'openai-chat', base_url: 'https://api.cerebras.ai/v1' },
  openrouter: { name: 'OpenRouter', protocol: 'openai-chat', base_url: 'https://openrouter.ai/api/v1', reasoning: 'object' },
  nvidia: { name: 'Nvidia', protocol: 'openai-chat', base_url: 'https://integrate.api.nvidia.com/v1' },
  hyperbolic: { name: 'Hyperbolic', protocol: 'openai-chat', base_url: 'https://api.hyperbolic.xyz/v1' },
  nebius: { name: 'Nebius', protocol: 'openai-chat', base_url: 'https://api.studio.nebius.com/v1' },
  sambanova: { name: 'SambaNova', protocol: 'openai-chat', base_url: 'https://api.sambanova.ai/v1' },
  deepinfra: { name: 'DeepInfra', protocol: 'openai-chat', base_url: 'https://api.deepinfra.com/v1/openai' },
  ollama: { name: 'Ollama', protocol: 'openai-chat', base_url: 'http://127.0.0.1:11434/v1', keyless: true },
  lmstudio: { name: 'LM Studio', protocol: 'openai-chat', base_url: 'http://127.0.0.1:1234/v1', keyless: true },
  vllm: { name: 'vLLM', protocol: 'openai-chat', base_url: 'http://127.0.0.1:8000/v1', keyless: true },
  llamacpp: { name: 'llama.cpp', protocol: 'openai-chat', base_url: 'http://127.0.0.1:8080/v1', keyless: true },
  sandbox: { name: 'Sandbox', protocol: 'sandbox', base_url: 'sandbox:', keyless: true },
} satisfies Record<string, ProviderRow>
