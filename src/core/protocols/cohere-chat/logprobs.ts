import { isObject, objects, text } from '../../kernel/json.ts'
import type { Logprobs } from '../../language/part.ts'

/**
 * Cohere's logprobs in OpenAI's shape. It gives them for pieces of text, and what a piece of several tokens has is the sum of
 * theirs. The next likely tokens it does not tell.
 */
export function logprobsOf(given: unknown): Logprobs | undefined {
  const content = (isObject(given) ? [given] : objects(given)).flatMap(piece => {
    const token = text(piece.text)
    const logprobs = Array.isArray(piece.logprobs) ? piece.logprobs.filter(value => typeof value === 'number') : []
    if (token === null || logprobs.length === 0) return []
    const logprob = logprobs.reduce((sum, value) => sum + value, 0)
    return [{ token, logprob, bytes: [...Buffer.from(token)], top_logprobs: [] }]
  })
  return content.length > 0 ? { content } : undefined
}
