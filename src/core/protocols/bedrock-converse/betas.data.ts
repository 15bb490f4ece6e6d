/**
 * Anthropic's features by header that Bedrock's Claude knows (Bedrock user guide, "Anthropic Claude Messages API"). It refuses a
 * whole request for one that it does not know (translation trap 36).
 */
export const BETAS = new Set([
  'computer-use-2024-10-22',
  'computer-use-2025-01-24',
  'context-1m-2025-08-07',
  'context-management-2025-06-27',
  'dev-full-thinking-2025-05-14',
  'effort-2025-11-24',
  'interleaved-thinking-2025-05-14',
  'output-128k-2025-02-19',
  'token-efficient-tools-2025-02-19',
  'tool-examples-2025-10-29',
  'tool-search-tool-2025-10-19',
])
