import { getOwn } from '../../base/json.ts'
import type { EncodingName } from './encodings.ts'

/** Models that share a tokenizer, exactly or approximately. */
export type TokenizerFamily =
  | 'openai'
  | 'anthropic'
  | 'gemini'
  | 'llama'
  | 'mistral'
  | 'qwen'
  | 'deepseek'
  | 'cohere'
  | 'unknown'

/** How the tokens of a family are counted. */
interface CountingMethod {
  /** The encoding whose tokens are counted. Null if there is only the rule of thumb. */
  encoding: EncodingName | null
  /** The model's own tokens per token of the encoding. */
  native: number
  /** The model's own tokens per token of the rule of thumb, which is calibrated against o200k. */
  multiplier: number
}

const useRuleOfThumb = (multiplier: number): CountingMethod => ({
  encoding: null,
  native: 1,
  multiplier,
})

/**
 * The sources of the numbers. "Table": the model table of ai-tokenizer 1.0.6, fitted to the counts
 * of the providers' APIs. "Recordings": recorded answers of at least 400 characters with the
 * provider's own count.
 * - openai: its own encoding. The few models before GPT-4o have another one (cl100k), which differs
 *   by 1 % on English and code.
 * - anthropic: the published encoding is that of Claude 2, and later models need more tokens.
 *   Table: 1.1 times as many. Recordings: 1.08 to 1.15. On prose and code the encoding gives about
 *   1.1 tokens per token of o200k, so the multiplier for the rule of thumb is 1.2.
 * - gemini: table, 1.08 times o200k for all but two previews. Gemma has the same vocabulary.
 * - qwen: table, 1.00 times cl100k, which is 1.00 times o200k on English and code. Recordings: 1.02
 *   and 1.04.
 * - deepseek: table, 1.00 times o200k. Recordings: 0.96 to 1.10.
 * - llama: the tokenizer of Llama 3 gave 8,187 tokens where o200k gave 8,198 (34 KB of English).
 * - mistral: table, 1.00 times cl100k, within 6 %.
 * - cohere: only three short answers are known (0.90 to 0.95), so 1.
 */
export const FAMILIES: Record<TokenizerFamily, CountingMethod> = {
  openai: { encoding: 'o200k', native: 1, multiplier: 1 },
  anthropic: { encoding: 'claude', native: 1.1, multiplier: 1.2 },
  gemini: useRuleOfThumb(1.08),
  llama: useRuleOfThumb(1),
  mistral: useRuleOfThumb(1),
  qwen: useRuleOfThumb(1.03),
  deepseek: useRuleOfThumb(1),
  cohere: useRuleOfThumb(1),
  unknown: useRuleOfThumb(1),
}

/**
 * Patterns in the model names of each family. The first match wins: a model distilled into Llama is
 * a Llama.
 */
const FAMILY_BY_NAME: [TokenizerFamily, RegExp][] = [
  ['llama', /llama/],
  ['qwen', /qwen|qwq|qvq/],
  ['anthropic', /claude/],
  ['gemini', /gemini|gemma/],
  ['mistral', /mi[ns]tral|mixtral|codestral|devstral|magistral|pixtral|voxtral/],
  ['deepseek', /deepseek/],
  ['cohere', /\bcommand-|\baya-/],
  ['openai', /\b(chat)?gpt-|^o[1-9]\b/],
]

/** The families that only the author's name tells. */
const FAMILY_BY_AUTHOR: Record<string, TokenizerFamily> = {
  openai: 'openai',
  anthropic: 'anthropic',
  google: 'gemini',
  'meta-llama': 'llama',
  meta: 'llama',
  mistralai: 'mistral',
  mistral: 'mistral',
  qwen: 'qwen',
  alibaba: 'qwen',
  deepseek: 'deepseek',
  'deepseek-ai': 'deepseek',
  cohere: 'cohere',
}

/** Returns the family of a model by our slug, else by the provider's name of it. */
export function getTokenizerFamily({
  model,
  upstreamModel,
}: {
  model: string
  upstreamModel: string
}): TokenizerFamily {
  return findFamilyBySlug(model) ?? findFamilyBySlug(upstreamModel) ?? 'unknown'
}

function findFamilyBySlug(slug: string): TokenizerFamily | undefined {
  const [author = '', ...rest] = slug.toLowerCase().split('/')
  const name = rest.length > 0 ? rest.join('/') : author
  const named = FAMILY_BY_NAME.find(([, pattern]) => pattern.test(name))
  return named ? named[0] : getOwn(FAMILY_BY_AUTHOR, author)
}
