import type { Endpoint } from '../../catalog/models.ts'
import { own } from '../../kernel/json.ts'

/** What a model takes, where models of this API differ. */
export interface Capabilities {
  /** The efforts that it knows; null where it does not reason, 'any' where nobody has said. */
  efforts: readonly string[] | 'any' | null
  /** Whether it takes temperature and top_p: some models do only when they do not reason. */
  sampling: 'always' | 'without-reasoning' | 'never'
  /** Whether the probabilities of its tokens can be asked for. */
  logprobs: boolean
  /** How it is asked to tell what it thinks; null where it tells by itself or not at all. */
  summary: 'auto' | null
  /** Whether it gives its reasoning encrypted, to be sent back. */
  encrypted: boolean
  verbosity: boolean
  /** Whether it knows developers; else their words are the system's. */
  developer: boolean
  /** The least output bound that it takes. */
  leastOutput: number
  /** What the end user is called. */
  user: 'safety_identifier' | 'user'
}

/** OpenAI's newest models, and whatever OpenAI and Azure serve under a name that tells nothing. */
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

/** Servers of open models: they sample as they are told, and think in the open. */
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

/** By provider, what a model takes that no pattern below knows. Everybody else serves open models. */
const BY_PROVIDER: Record<string, Partial<Capabilities>> = {
  openai: { ...OPENAI, user: 'safety_identifier' },
  azure: OPENAI,
  xai: XAI,
}
const OTHERS = OPEN

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
/** From GPT-5.1 on, a model may be told not to reason, and takes what a plain one does then. */
const OPTIONAL: Partial<Capabilities> = { ...THINKING, sampling: 'without-reasoning' }

/**
 * By model, wherever it is served; the first pattern that fits counts. From OpenAI's model pages and its reasoning guide
 * (Limitations; GPT-5.1 parameter compatibility), and xAI's reasoning guide.
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

/** What the model takes at this endpoint. */
export function capabilitiesOf({ provider, upstreamModel }: Endpoint): Capabilities {
  const served = { ...OTHERS, ...own(BY_PROVIDER, provider.slug) }
  const name = plainName(upstreamModel)
  return { ...served, ...BY_MODEL.find(([model]) => model.test(name))?.[1] }
}

// A vendor before the model, and the mark of a model that has been tuned, say nothing of what it takes.
const plainName = (name: string) => name.toLowerCase().replace(/^ft:/, '').replace(/^.*\//, '')
