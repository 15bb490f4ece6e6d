import { count, countWithin, isObject, type Json, member } from '../../kernel/json.ts'
import { readUnits } from '../../language/units.ts'
import type { Usage } from '../../language/usage.ts'

/**
 * Reads an OpenAI usage object into disjoint classes. There `prompt_tokens` includes cached,
 * written and audio tokens. `completion_tokens` includes reasoning and audio, though some servers
 * leave reasoning out. Undefined for impossible counts: negative, fractional, absurd.
 */
export function usageOf(given: unknown): Usage | undefined {
  if (!isObject(given)) return undefined
  const prompt = count(given.prompt_tokens)
  const completion = count(given.completion_tokens)
  if (prompt === undefined || completion === undefined) return undefined
  return {
    input: inputOf(prompt, given),
    output: outputOf(prompt, completion, given),
    prediction: predictionOf(given),
    ...readUnits({ search: readSearches(given) }),
  }
}

// OpenRouter's name, then Perplexity's.
const readSearches = (given: Json): number | undefined =>
  count(member(given, 'server_tool_use').web_search_requests) ?? count(given.num_search_queries)

function inputOf(prompt: number, given: Json): Usage['input'] {
  const details = member(given, 'prompt_tokens_details')
  const cache_read = countWithin(prompt, cachedOf(given))
  const cache_write = countWithin(
    prompt - cache_read,
    details.cache_write_tokens ?? details.cache_creation_input_tokens,
  )
  const audio = countWithin(prompt - cache_read - cache_write, details.audio_tokens)
  const video = countWithin(prompt - cache_read - cache_write - audio, details.video_tokens)
  return {
    text: prompt - cache_read - cache_write - audio - video,
    cache_read,
    cache_write,
    cache_write_1h: 0,
    audio,
    video,
  }
}

// Moonshot's and Mistral's names, the common one, another of Mistral, DeepSeek's: the first that is
// present counts.
const cachedOf = (given: Json): unknown =>
  given.cached_tokens ??
  given.num_cached_tokens ??
  member(given, 'prompt_tokens_details').cached_tokens ??
  member(given, 'prompt_token_details').cached_tokens ??
  given.prompt_cache_hit_tokens

function outputOf(prompt: number, completion: number, given: Json): Usage['output'] {
  const details = member(given, 'completion_tokens_details')
  const thought = count(details.reasoning_tokens) ?? 0
  const apart = apartOf(prompt, completion, thought, given)
  const whole = completion + apart
  const reasoning = apart > 0 ? apart : Math.min(thought, whole)
  const audio = countWithin(whole - reasoning, details.audio_tokens)
  const image = countWithin(whole - reasoning - audio, details.image_tokens)
  return { text: whole - reasoning - audio - image, reasoning, audio, image }
}

/**
 * Returns the reasoning tokens that `completion_tokens` leaves out. The total shows them, except
 * Perplexity's, which leaves them out too.
 */
function apartOf(prompt: number, completion: number, thought: number, given: Json): number {
  if (thought > 0) return count(given.total_tokens) === prompt + completion + thought ? thought : 0
  return PERPLEXITY.some(name => name in given) ? (count(given.reasoning_tokens) ?? 0) : 0
}

/** Fields that only Perplexity sends. */
const PERPLEXITY = ['citation_tokens', 'num_search_queries', 'search_context_size']

function predictionOf(given: Json): Usage['prediction'] {
  const details = member(given, 'completion_tokens_details')
  const accepted = count(details.accepted_prediction_tokens)
  const rejected = count(details.rejected_prediction_tokens)
  return accepted || rejected ? { accepted: accepted ?? 0, rejected: rejected ?? 0 } : null
}
