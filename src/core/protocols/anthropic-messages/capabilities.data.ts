/** What a model of this protocol takes, and what it refuses. */
export interface Capabilities {
  /** The most output tokens of one answer. */
  maxOutput: number
  /** How it is asked to think: by a budget of tokens, as it sees fit (adaptive), either way, or not at all. */
  thinking: 'none' | 'budget' | 'adaptive' | 'either'
  /** How it is asked not to think: by leaving the wish out, by saying so, by thinking only between tools, or as little as it can. */
  off: 'omit' | 'disabled' | 'between_tools' | 'least'
  /** The efforts it knows (`output_config.effort`), from the least. */
  efforts: readonly string[]
  /** Whether it takes temperature, top_p and top_k: all, either temperature or top_p, or none of them. */
  sampling: 'all' | 'either' | 'none'
  /** Whether it may be made to call a tool. */
  forcedTools: boolean
  /** Whether it keeps to a schema by itself (`output_config.format`, and `strict` tools). */
  schemas: boolean
  /** Whether it goes on with an answer that was begun for it. */
  prefill: boolean
}

const EFFORTS = ['low', 'medium', 'high', 'max'] as const
const FINER_EFFORTS = ['low', 'medium', 'high', 'xhigh', 'max'] as const

/** What the newest models do. A Claude that nobody here knows is taken for one of them. */
const NEWEST: Capabilities = {
  maxOutput: 128_000,
  thinking: 'adaptive',
  off: 'least',
  efforts: FINER_EFFORTS,
  sampling: 'none',
  forcedTools: false,
  schemas: true,
  prefill: false,
}

const CLAUDE_5: Capabilities = { ...NEWEST, off: 'disabled', forcedTools: true }
const CLAUDE_4_6: Capabilities = { ...CLAUDE_5, thinking: 'either', efforts: EFFORTS, sampling: 'either' }
const CLAUDE_4_5: Capabilities = {
  ...CLAUDE_4_6,
  maxOutput: 64_000,
  thinking: 'budget',
  off: 'omit',
  efforts: [],
  prefill: true,
}
const CLAUDE_4: Capabilities = { ...CLAUDE_4_5, sampling: 'all', schemas: false }
const CLAUDE_3: Capabilities = { ...CLAUDE_4, maxOutput: 4_096, thinking: 'none' }

/** Other vendors' models behind the same API. */
export const STRANGER: Capabilities = { ...CLAUDE_4, maxOutput: 8_192, off: 'disabled' }

/**
 * By the provider's name of the model, dots as hyphens: the first that matches. From Anthropic's pages "Models overview",
 * "Extended thinking", "Adaptive thinking", "Effort", "Structured outputs" and the migration guides of each model.
 */
export const CAPABILITIES: [model: RegExp, capabilities: Capabilities][] = [
  [/claude-sonnet-5-5/, { ...NEWEST, off: 'between_tools' }],
  [/claude-opus-5-5|claude-fable-5-[12]/, NEWEST],
  [/claude-haiku-5-5/, CLAUDE_5],
  [/claude-fable-5/, { ...NEWEST, forcedTools: true }],
  [/claude-(opus|sonnet)-5(?!-\d)|claude-opus-4-8/, CLAUDE_5],
  // It thinks only when asked to, and not every host lets one say that it shall not.
  [/claude-opus-4-7/, { ...CLAUDE_5, off: 'omit' }],
  [/claude-(opus|sonnet)-4-6/, CLAUDE_4_6],
  [/claude-opus-4-5/, { ...CLAUDE_4_5, efforts: ['low', 'medium', 'high'] }],
  [/claude-(sonnet|haiku)-4-5/, CLAUDE_4_5],
  [/claude-opus-4-1/, { ...CLAUDE_4_5, maxOutput: 32_000 }],
  [/claude-sonnet-4(-0|-2025|@|$)/, CLAUDE_4],
  [/claude-opus-4(-0|-2025|@|$)/, { ...CLAUDE_4, maxOutput: 32_000 }],
  [/claude-3-7/, CLAUDE_4],
  [/claude-3-5/, { ...CLAUDE_3, maxOutput: 8_192 }],
  [/claude-(3|2|v2|instant)/, CLAUDE_3],
  [/claude/, NEWEST],
]
