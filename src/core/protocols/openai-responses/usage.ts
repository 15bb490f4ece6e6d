import { count, countWithin, isObject, type Json, member } from '../../kernel/json.ts'
import { readUnits } from '../../language/units.ts'
import type { Usage } from '../../language/usage.ts'

/**
 * Reads the usage of a response into disjoint classes. There `input_tokens` includes tokens read
 * from and written to the cache, and `output_tokens` includes reasoning. Undefined for impossible
 * counts. `searches` is the number of searches that the provider ran for this answer.
 */
export function usageOf(given: unknown, searches: number): Usage | undefined {
  if (!isObject(given)) return undefined
  const input = count(given.input_tokens)
  const output = count(given.output_tokens)
  if (input === undefined || output === undefined) return undefined
  return {
    input: inputOf(input, given),
    output: outputOf(output, given),
    prediction: null,
    ...(searches === 0 ? {} : readUnits({ search: searches })),
  }
}

function inputOf(told: number, given: Json): Usage['input'] {
  const details = member(given, 'input_tokens_details')
  const cached = count(details.cached_tokens) ?? 0
  // xAI sometimes reports more cached tokens than input tokens. Then the count excludes the cached
  // ones.
  const input = cached > told ? told + cached : told
  const cache_write = countWithin(input - cached, details.cache_write_tokens)
  const audio = countWithin(input - cached - cache_write, details.audio_tokens)
  return {
    text: input - cached - cache_write - audio,
    cache_read: cached,
    cache_write,
    cache_write_1h: 0,
    audio,
    video: 0,
  }
}

function outputOf(output: number, given: Json): Usage['output'] {
  const details = member(given, 'output_tokens_details')
  const reasoning = countWithin(output, details.reasoning_tokens)
  const audio = countWithin(output - reasoning, details.audio_tokens)
  const image = countWithin(output - reasoning - audio, details.image_tokens)
  return { text: output - reasoning - audio - image, reasoning, audio, image }
}
