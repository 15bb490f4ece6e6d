import { isObject, type Json, parseCount, parsePartCount } from '../../../base/json.ts'
import { readUnits, type Usage } from '../../../language/usage.ts'
import { refuseImpossibleCounts } from '../reader.ts'

/**
 * Reads an OpenAI usage object into disjoint classes. There `prompt_tokens` includes cached,
 * written and audio tokens. `completion_tokens` includes reasoning and audio, though some servers
 * leave reasoning out. Undefined without counts.
 */
export const readUsage = refuseImpossibleCounts(readPossibleUsage)

function readPossibleUsage(usage: Json): Usage | undefined {
  const prompt = parseCount(usage.prompt_tokens)
  const completion = parseCount(usage.completion_tokens)
  if (prompt === undefined || completion === undefined) return undefined
  const counted = {
    input: readInput(prompt, usage),
    output: readOutput(prompt, completion, usage),
    prediction: readPrediction(usage.completion_tokens_details),
  }
  // OpenRouter's name, then Perplexity's.
  const { server_tool_use, num_search_queries } = usage
  if ((server_tool_use ?? num_search_queries) == null) return counted
  const searches = parseCount(readDetails(server_tool_use).web_search_requests)
  return { ...counted, ...readUnits({ search: searches ?? parseCount(num_search_queries) }) }
}

const NONE: Json = {}

/** Most usages have no details of a kind. */
const readDetails = (details: unknown): Json => (isObject(details) ? details : NONE)

function readInput(prompt: number, usage: Json): Usage['input'] {
  const details = readDetails(usage.prompt_tokens_details)
  const cache_read = parsePartCount(prompt, findCachedTokens(usage, details))
  const cache_write = parsePartCount(
    prompt - cache_read,
    details.cache_write_tokens ?? details.cache_creation_input_tokens,
  )
  const audio = parsePartCount(prompt - cache_read - cache_write, details.audio_tokens)
  const video = parsePartCount(prompt - cache_read - cache_write - audio, details.video_tokens)
  const text = prompt - cache_read - cache_write - audio - video
  const image = parsePartCount(text, details.image_tokens)
  return {
    text: text - image,
    cache_read,
    cache_write,
    cache_write_1h: 0,
    audio,
    video,
    ...(image > 0 ? { image } : {}),
  }
}

// Moonshot's and Mistral's names, the common one, another of Mistral, DeepSeek's: the first that is
// present counts.
const findCachedTokens = (usage: Json, details: Json): unknown =>
  usage.cached_tokens ??
  usage.num_cached_tokens ??
  details.cached_tokens ??
  (usage.prompt_token_details as Json | null | undefined)?.cached_tokens ??
  usage.prompt_cache_hit_tokens

function readOutput(prompt: number, completion: number, usage: Json): Usage['output'] {
  const details = readDetails(usage.completion_tokens_details)
  const reported = parseCount(details.reasoning_tokens) ?? 0
  const separate = countSeparateReasoning(prompt, completion, reported, usage)
  const total = completion + separate
  const reasoning = separate > 0 ? separate : Math.min(reported, total)
  const audio = parsePartCount(total - reasoning, details.audio_tokens)
  const image = parsePartCount(total - reasoning - audio, details.image_tokens)
  return { text: total - reasoning - audio - image, reasoning, audio, image }
}

/**
 * Returns the reasoning tokens that `completion_tokens` leaves out. The total shows them, except
 * Perplexity's, which leaves them out too.
 */
function countSeparateReasoning(
  prompt: number,
  completion: number,
  reported: number,
  usage: Json,
): number {
  if (reported > 0)
    return parseCount(usage.total_tokens) === prompt + completion + reported ? reported : 0
  // Fields that only Perplexity sends.
  return 'citation_tokens' in usage ||
    'num_search_queries' in usage ||
    'search_context_size' in usage
    ? (parseCount(usage.reasoning_tokens) ?? 0)
    : 0
}

function readPrediction(counted: unknown): Usage['prediction'] {
  if (counted == null) return null
  const details = readDetails(counted)
  const accepted = parseCount(details.accepted_prediction_tokens)
  const rejected = parseCount(details.rejected_prediction_tokens)
  return accepted || rejected ? { accepted: accepted ?? 0, rejected: rejected ?? 0 } : null
}
