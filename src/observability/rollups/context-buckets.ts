/** How long prompts are: up to a thousand tokens, up to ten thousand, … */
export const CONTEXT_BUCKETS = ['1K', '10K', '100K', '1M', '10M'] as const
type ContextBucket = (typeof CONTEXT_BUCKETS)[number]

const FIRST = 1_000

/** Returns the bucket of a prompt of so many tokens. The last one has all that are longer. */
export function findContextBucket(tokens: number): ContextBucket {
  const place = CONTEXT_BUCKETS.findIndex((_, i) => tokens <= FIRST * 10 ** i)
  return CONTEXT_BUCKETS[place] ?? '10M'
}
