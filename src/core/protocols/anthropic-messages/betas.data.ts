/**
 * The features by header (`anthropic-beta`) that other hosts of this API are known to take. They refuse a whole request for one
 * that they do not know; Anthropic's own takes all, and says itself which it does not know.
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

/** The features that a tool of this API's own has need of, by its type. Those that are not listed need none. */
export const BETA_OF_TOOL: Record<string, string> = {
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

/** The features that a parameter of this API's own has need of. */
export const BETA_OF_PARAMETER: Record<string, string> = {
  context_management: 'context-management-2025-06-27',
  mcp_servers: 'mcp-client-2025-04-04',
  fallbacks: 'server-side-fallback-2026-06-01',
  speed: 'fast-mode-2026-02-01',
}
