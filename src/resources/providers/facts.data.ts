/**
 * Public facts of providers, as of 2026-11-21, for a paying customer without a contract of their
 * own. Only certain facts are listed: a missing one counts as "may train" and "keeps data". An
 * operator with another agreement says so in the config, endpoint by endpoint (`data_policy`).
 */
export const FACTS = {
  openai: {
    privacy_policy_url: 'https://openai.com/policies/privacy-policy/',
    terms_of_service_url: 'https://openai.com/policies/services-agreement/',
    status_page_url: 'https://status.openai.com/',
    headquarters: 'US',
    training: false,
    retention_days: 30,
  },
  azure: {
    privacy_policy_url: 'https://www.microsoft.com/en-us/privacy/privacystatement',
    status_page_url: 'https://status.azure.com/',
    headquarters: 'US',
    training: false,
    retention_days: 30,
  },
  anthropic: {
    privacy_policy_url: 'https://www.anthropic.com/legal/privacy',
    terms_of_service_url: 'https://www.anthropic.com/legal/commercial-terms',
    status_page_url: 'https://status.anthropic.com/',
    headquarters: 'US',
    training: false,
    retention_days: 30,
  },
  // AI Studio trains on what it is sent unless the key belongs to a paying project.
  google: {
    privacy_policy_url: 'https://policies.google.com/privacy',
    terms_of_service_url: 'https://ai.google.dev/gemini-api/terms',
    headquarters: 'US',
  },
  vertex: {
    privacy_policy_url: 'https://cloud.google.com/terms/cloud-privacy-notice',
    terms_of_service_url: 'https://cloud.google.com/terms',
    status_page_url: 'https://status.cloud.google.com/',
    headquarters: 'US',
    training: false,
  },
  bedrock: {
    privacy_policy_url: 'https://aws.amazon.com/privacy/',
    terms_of_service_url: 'https://aws.amazon.com/service-terms/',
    status_page_url: 'https://health.aws.amazon.com/health/status',
    headquarters: 'US',
    training: false,
    retention_days: 0,
  },
  cohere: {
    privacy_policy_url: 'https://cohere.com/privacy',
    terms_of_service_url: 'https://cohere.com/terms-of-use',
    status_page_url: 'https://status.cohere.com/',
    headquarters: 'CA',
    retention_days: 30,
  },
  voyage: { headquarters: 'US' },
  jina: { privacy_policy_url: 'https://jina.ai/legal/', headquarters: 'DE' },
  mistral: {
    privacy_policy_url: 'https://mistral.ai/terms/#privacy-policy',
    terms_of_service_url: 'https://mistral.ai/terms/',
    status_page_url: 'https://status.mistral.ai/',
    headquarters: 'FR',
    retention_days: 30,
  },
  deepseek: {
    privacy_policy_url: 'https://cdn.deepseek.com/policies/en-US/deepseek-privacy-policy.html',
    status_page_url: 'https://status.deepseek.com/',
    headquarters: 'CN',
    training: true,
  },
  groq: {
    privacy_policy_url: 'https://groq.com/privacy-policy/',
    terms_of_service_url: 'https://groq.com/terms-of-use/',
    status_page_url: 'https://groqstatus.com/',
    headquarters: 'US',
    training: false,
  },
  xai: {
    privacy_policy_url: 'https://x.ai/legal/privacy-policy',
    terms_of_service_url: 'https://x.ai/legal/terms-of-service-enterprise',
    status_page_url: 'https://status.x.ai/',
    headquarters: 'US',
    training: false,
    retention_days: 30,
  },
  perplexity: {
    privacy_policy_url: 'https://www.perplexity.ai/hub/legal/privacy-policy',
    status_page_url: 'https://status.perplexity.com/',
    headquarters: 'US',
  },
  moonshotai: { headquarters: 'CN' },
  alibaba: { headquarters: 'CN' },
  minimax: { headquarters: 'CN' },
  zai: { headquarters: 'CN' },
  xiaomi: { headquarters: 'CN' },
  inclusionai: { headquarters: 'CN' },
  meta: { headquarters: 'US' },
  together: {
    privacy_policy_url: 'https://www.together.ai/privacy',
    terms_of_service_url: 'https://www.together.ai/terms-of-service',
    status_page_url: 'https://status.together.ai/',
    headquarters: 'US',
  },
  fireworks: {
    privacy_policy_url: 'https://fireworks.ai/privacy-policy',
    terms_of_service_url: 'https://fireworks.ai/terms-of-service',
    status_page_url: 'https://status.fireworks.ai/',
    headquarters: 'US',
    training: false,
    retention_days: 0,
  },
  cerebras: { privacy_policy_url: 'https://www.cerebras.ai/privacy-policy', headquarters: 'US' },
  // It passes calls for Google's and Anthropic's models on to them, and they decide what is kept.
  // No row of a provider would be true for those models.
  deepinfra: {
    privacy_policy_url: 'https://deepinfra.com/privacy',
    terms_of_service_url: 'https://deepinfra.com/terms',
    status_page_url: 'https://status.deepinfra.com/',
    headquarters: 'US',
  },
  baseten: { privacy_policy_url: 'https://www.baseten.co/privacy-policy/', headquarters: 'US' },
  nvidia: {
    privacy_policy_url: 'https://www.nvidia.com/en-us/about-nvidia/privacy-policy/',
    headquarters: 'US',
  },
  sambanova: { privacy_policy_url: 'https://sambanova.ai/privacy-policy', headquarters: 'US' },
  hyperbolic: { headquarters: 'US' },
  nebius: { headquarters: 'NL' },
  arcee: { headquarters: 'US' },
  cloudflare: {
    privacy_policy_url: 'https://www.cloudflare.com/privacypolicy/',
    terms_of_service_url: 'https://www.cloudflare.com/terms/',
    status_page_url: 'https://www.cloudflarestatus.com/',
    headquarters: 'US',
    training: false,
  },
  huggingface: {
    privacy_policy_url: 'https://huggingface.co/privacy',
    terms_of_service_url: 'https://huggingface.co/terms-of-service',
    status_page_url: 'https://status.huggingface.co/',
    headquarters: 'US',
  },
  novita: { headquarters: 'US' },
  nscale: { headquarters: 'GB' },
  ovhcloud: { headquarters: 'FR', datacenters: ['FR'] },
  vercel: {
    privacy_policy_url: 'https://vercel.com/legal/privacy-policy',
    terms_of_service_url: 'https://vercel.com/legal/terms',
    headquarters: 'US',
  },
  openrouter: {
    privacy_policy_url: 'https://openrouter.ai/privacy',
    terms_of_service_url: 'https://openrouter.ai/terms',
    status_page_url: 'https://status.openrouter.ai/',
    headquarters: 'US',
  },
  // Answers are made in this process.
  sandbox: { training: false, retention_days: 0 },
} satisfies Record<string, Partial<ProviderFacts>>

/** What a provider publishes about itself. Null where it is not certain. */
export interface ProviderFacts {
  privacy_policy_url: string | null
  terms_of_service_url: string | null
  status_page_url: string | null
  /** ISO 3166-1 alpha-2. */
  headquarters: string | null
  datacenters: string[] | null
  /** Whether it trains on what its paying API is sent. */
  training: boolean | null
  /** The number of days for which it keeps what it is sent. */
  retention_days: number | null
}
