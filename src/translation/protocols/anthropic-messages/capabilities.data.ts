import type { Endpoint } from '../../../resources/models/catalog.ts'

/** What a model of this protocol accepts and what it refuses. */
export interface Capabilities {
  /** The most output tokens in one answer. */
  maxOutputTokens: number
  /**
   * How thinking is requested: by a token budget, adaptively (the model decides), either way, or
   * not at all.
   */
  thinking: 'none' | 'budget' | 'adaptive' | 'either'
  /**
   * How thinking is turned off: by omitting the parameter, by `disabled`, by allowing it only
   * between tools, or by the lowest effort where it cannot be turned off.
   */
  thinkingOff: 'omit' | 'disabled' | 'between_tools' | 'least'
  /** The values of `output_config.effort` that it knows, lowest first. */
  efforts: readonly string[]
  /**
   * Which of temperature, top_p and top_k it accepts: all of them, either temperature or top_p, or
   * none.
   */
  sampling: 'all' | 'either' | 'none'
  /** Whether `tool_choice` may force a tool call. */
  supportsForcedTools: boolean
  /** Whether it enforces a schema natively (`output_config.format`, and `strict` tools). */
  supportsSchemas: boolean
  /** Whether it continues an answer that the caller began (prefill). */
  supportsPrefill: boolean
  /** Whether Anthropic's own service takes system messages within its conversation. */
  supportsSystemTurns: boolean
}

const EFFORTS = ['low', 'medium', 'high', 'max'] as const
const FINER_EFFORTS = ['low', 'medium', 'high', 'xhigh', 'max'] as const

/** What the newest models do. An unknown Claude model is treated as one of them. */
const NEWEST: Capabilities = {
  maxOutputTokens: 128_000,
  thinking: 'adaptive',
  thinkingOff: 'least',
  efforts: FINER_EFFORTS,
  sampling: 'none',
  supportsForcedTools: false,
  supportsSchemas: true,
  supportsPrefill: false,
  supportsSystemTurns: false,
}

const CLAUDE_5: Capabilities = { ...NEWEST, thinkingOff: 'disabled', supportsForcedTools: true }
const CLAUDE_4_6: Capabilities = {
  ...CLAUDE_5,
  thinking: 'either',
  efforts: EFFORTS,
  sampling: 'either',
}

const CLAUDE_4_5: Capabilities = {
  ...CLAUDE_4_6,
  maxOutputTokens: 64_000,
  thinking: 'budget',
  thinkingOff: 'omit',
  efforts: [],
  supportsPrefill: true,
}

const CLAUDE_4: Capabilities = { ...CLAUDE_4_5, sampling: 'all', supportsSchemas: false }
const CLAUDE_3: Capabilities = { ...CLAUDE_4, maxOutputTokens: 4_096, thinking: 'none' }

/** Models of other vendors behind the same API. */
export const OTHER_VENDOR: Capabilities = {
  ...CLAUDE_4,
  maxOutputTokens: 8_192,
  thinkingOff: 'disabled',
}

/**
 * Maps the provider's model name, with dots as hyphens, to capabilities. The first match wins.
 * Sources: Anthropic's pages "Models overview", "Extended thinking", "Adaptive thinking", "Effort",
 * "Structured outputs", "Mid-conversation system messages" and the migration guide of each model.
 */
const CAPABILITIES: [model: RegExp, capabilities: Capabilities][] = [
  [/claude-sonnet-5-5/, { ...NEWEST, thinkingOff: 'between_tools' }],
  [/claude-opus-5-5|claude-fable-5-[12]/, { ...NEWEST, supportsSystemTurns: true }],
  [/claude-haiku-5-5/, CLAUDE_5],
  [/claude-fable-5/, { ...NEWEST, supportsForcedTools: true, supportsSystemTurns: true }],
  [/claude-opus-5(?!-\d)|claude-opus-4-8/, { ...CLAUDE_5, supportsSystemTurns: true }],
  [/claude-sonnet-5(?!-\d)/, CLAUDE_5],
  // It thinks only on request, and not every host accepts `disabled`.
  [/claude-opus-4-7/, { ...CLAUDE_5, thinkingOff: 'omit' }],
  [/claude-(opus|sonnet)-4-6/, CLAUDE_4_6],
  [/claude-opus-4-5/, { ...CLAUDE_4_5, efforts: ['low', 'medium', 'high'] }],
  [/claude-(sonnet|haiku)-4-5/, CLAUDE_4_5],
  [/claude-opus-4-1/, { ...CLAUDE_4_5, maxOutputTokens: 32_000 }],
  [/claude-sonnet-4(-0|-2025|@|$)/, CLAUDE_4],
  [/claude-opus-4(-0|-2025|@|$)/, { ...CLAUDE_4, maxOutputTokens: 32_000 }],
  [/claude-3-7/, CLAUDE_4],
  [/claude-3-5/, { ...CLAUDE_3, maxOutputTokens: 8_192 }],
  [/claude-(3|2|v2|instant)/, CLAUDE_3],
  [/claude/, NEWEST],
]

/** Returns the capabilities of the endpoint's model. */
export function getCapabilities({ upstreamModel }: Endpoint): Capabilities {
  const name = upstreamModel.toLowerCase().replaceAll('.', '-')
  return CAPABILITIES.find(([model]) => model.test(name))?.[1] ?? OTHER_VENDOR
}

/**
 * The name of this protocol on Google's Vertex AI. The body is the same, the URL differs, and
 * Vertex does not fetch media by URL.
 */
export const VERTEX = 'anthropic-vertex'

/** Tells whether the endpoint is Anthropic's own service, or a base URL under its domain. */
export const isAnthropic = ({ provider }: Endpoint): boolean =>
  provider.slug === 'anthropic' ||
  /^https:\/\/([a-z0-9-]+\.)*anthropic\.com(\/|$)/i.test(provider.base_url)

/**
 * The beta features (`anthropic-beta` header) that other hosts of this API are known to accept.
 * Those hosts refuse a whole request for one unknown feature. Anthropic's own service gets every
 * feature and reports unknown ones itself.
 */
export const KNOWN_BETAS = new Set([
  'claude-code-20250219',
  'computer-use-2024-10-22',
  'computer-use-2025-01-24',
  'computer-use-2025-11-24',
  'context-1m-2025-08-07',
  'context-management-2025-06-27',
  'dev-full-thinking-2025-05-14',
  'fine-grained-tool-streaming-2025-05-14',
  'interleaved-thinking-2025-05-14',
  'output-128k-2025-02-19',
  'tool-examples-2025-10-29',
  'tool-search-tool-2025-10-19',
  'token-efficient-tools-2025-02-19',
  'web-search-2025-03-05',
])

/**
 * The beta feature that each of this API's own tools requires, by tool type. A type that is not
 * listed requires none.
 */
export const BETA_BY_TOOL_TYPE: Record<string, string> = {
  code_execution_20250522: 'code-execution-2025-05-22',
  code_execution_20250825: 'code-execution-2025-08-25',
  computer_20241022: 'computer-use-2024-10-22',
  bash_20241022: 'computer-use-2024-10-22',
  text_editor_20241022: 'computer-use-2024-10-22',
  computer_20250124: 'computer-use-2025-01-24',
  computer_20251124: 'computer-use-2025-11-24',
  memory_20250818: 'context-management-2025-06-27',
  web_fetch_20250910: 'web-fetch-2025-09-10',
  web_fetch_20260209: 'code-execution-web-tools-2026-02-09',
  web_search_20260209: 'code-execution-web-tools-2026-02-09',
  advisor_20260301: 'advisor-tool-2026-03-01',
  mcp_toolset: 'mcp-client-2025-11-20',
}

/** The beta feature that each of this API's own parameters requires. */
export const BETA_BY_PARAMETER: Record<string, string> = {
  context_management: 'context-management-2025-06-27',
  mcp_servers: 'mcp-client-2025-04-04',
  fallbacks: 'server-side-fallback-2026-06-01',
  speed: 'fast-mode-2026-02-01',
}
