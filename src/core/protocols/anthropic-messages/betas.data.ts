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
