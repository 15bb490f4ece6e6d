import { getOwn } from '../../../base/json.ts'
import type { Endpoint } from '../../../resources/models/catalog.ts'

/** What a model accepts, as far as models of this API differ. */
export interface Capabilities {
  /**
   * The efforts that the model knows; null if it does not reason, 'any' if its efforts are unknown.
   */
  efforts: readonly string[] | 'any' | null
  /** Whether it accepts temperature and top_p. Some models do only when they do not reason. */
  sampling: 'always' | 'without-reasoning' | 'never'
  /** Whether it can return the log probabilities of its tokens. */
  logprobs: boolean
  /** The value that requests a reasoning summary; null if reasoning is shown unasked or never. */
  summary: 'auto' | null
  /** Whether it can return its reasoning encrypted, to be sent back. */
  encrypted: boolean
  verbosity: boolean
  /** Whether it knows the developer role. If not, developer messages become system messages. */
  developer: boolean
  /** The smallest output bound that it accepts. */
  leastOutput: number
  /** The field for the end user. */
  user: 'safety_identifier' | 'user'
}

/** OpenAI's newest models, and those that OpenAI and Azure serve under unknown names. */
const OPENAI: Capabilities = {
  efforts: 'any',
  sampling: 'never',
  logprobs: false,
  summary: 'auto',
  encrypted: true,
  verbosity: true,
  developer: true,
  leastOutput: 16,
  user: 'user',
}

/** Servers of open models, which accept sampling parameters and show their thinking. */
const OPEN: Capabilities = {
  efforts: 'any',
  sampling: 'always',
  logprobs: true,
  summary: null,
  encrypted: false,
  verbosity: true,
  developer: false,
  leastOutput: 1,
  user: 'user',
}

const XAI: Capabilities = { ...OPEN, summary: 'auto', encrypted: true, verbosity: false }

/**
 * By provider, the capabilities of models that match no pattern below. All others serve open
 * models.
 */
const BY_PROVIDER: Record<string, Partial<Capabilities>> = {
  openai: { ...OPENAI, user: 'safety_identifier' },
  azure: OPENAI,
  xai: XAI,
}

const BY_OTHERS = OPEN

const PLAIN: Partial<Capabilities> = {
  efforts: null,
  sampling: 'always',
  logprobs: true,
  summary: null,
  encrypted: false,
  verbosity: false,
  developer: true,
  leastOutput: 16,
}

const THINKING: Partial<Capabilities> = {
  sampling: 'never',
  logprobs: false,
  summary: 'auto',
  encrypted: true,
  verbosity: true,
  developer: true,
  leastOutput: 16,
}

/** From GPT-5.1 on, reasoning can be turned off. A model then accepts what a plain one does. */
const OPTIONAL: Partial<Capabilities> = { ...THINKING, sampling: 'without-reasoning' }

/**
 * By model, wherever it is served; the first pattern that matches counts. From OpenAI's model pages
 * and its reasoning guide (Limitations; GPT-5.1 parameter compatibility), and xAI's reasoning
 * guide.
 */
const BY_MODEL: [model: RegExp, Partial<Capabilities>][] = [
  [/^(gpt-3|gpt-4|chatgpt-4o)/, PLAIN],
  [/^gpt-5(\.\d+)?-chat/, { ...PLAIN, verbosity: true }],
  [/^gpt-5(\.\d+)?-pro/, { ...THINKING, efforts: ['medium', 'high', 'xhigh'] }],
  [/^gpt-5-codex/, { ...THINKING, efforts: ['low', 'medium', 'high'] }],
  [/^gpt-5(-|$)/, { ...THINKING, efforts: ['minimal', 'low', 'medium', 'high'] }],
  [/^gpt-5\.1-codex-max/, { ...THINKING, efforts: ['low', 'medium', 'high', 'xhigh'] }],
  [/^gpt-5\.\d+-codex/, { ...THINKING, efforts: ['low', 'medium', 'high', 'xhigh'] }],
  [/^gpt-5\.1(-|$)/, { ...OPTIONAL, efforts: ['none', 'low', 'medium', 'high'] }],
  [/^gpt-5\.[2-5](-|$)/, { ...OPTIONAL, efforts: ['none', 'low', 'medium', 'high', 'xhigh'] }],
  [/^gpt-5\./, { ...OPTIONAL, efforts: ['none', 'low', 'medium', 'high', 'xhigh', 'max'] }],
  [/^gpt-[6-9]/, { ...THINKING, efforts: ['low', 'medium', 'high', 'xhigh', 'max'] }],
  [/^o\d(-|$)/, { ...THINKING, efforts: ['low', 'medium', 'high'], verbosity: false }],
  [/^(codex|computer-use)/, { ...THINKING, efforts: ['low', 'medium', 'high'], verbosity: false }],
  [
    /^grok-(2|3(?!-mini)|4\.20-.*reasoning|4$|4-\d{4}|4-fast|4-1-fast|code)/,
    { ...XAI, efforts: null },
  ],
  [/^grok-3-mini/, { ...XAI, efforts: ['low', 'high'] }],
]

/** Returns what the model accepts at this endpoint. */
export function getCapabilities({ provider, upstreamModel }: Endpoint): Capabilities {
  const byProvider = { ...BY_OTHERS, ...getOwn(BY_PROVIDER, provider.slug) }
  const name = stripName(upstreamModel)
  return { ...byProvider, ...BY_MODEL.find(([model]) => model.test(name))?.[1] }
}

// Removes the vendor and the prefix of fine-tuned models, which do not affect capabilities.
const stripName = (name: string) => name.toLowerCase().replace(/^ft:/, '').replace(/^.*\//, '')
