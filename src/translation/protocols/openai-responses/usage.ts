import { type Json, parseCount, parsePartCount, readObject } from '../../../base/json.ts'
import { readUnits, type Usage } from '../../../language/usage.ts'
import { refuseImpossibleCounts } from '../reader.ts'

/**
 * Reads the usage of a response into disjoint classes. There `input_tokens` includes tokens read
 * from and written to the cache, and `output_tokens` includes reasoning. Undefined without
 * counts. `searches` is the number of searches that the provider ran for this answer.
 */
export const readUsage = refuseImpossibleCounts(readPossibleUsage)

function readPossibleUsage(usage: Json, searches: number): Usage | undefined {
  const input = parseCount(usage.input_tokens)
  const output = parseCount(usage.output_tokens)
  if (input === undefined || output === undefined) return undefined
  return {
    input: readInput(input, usage),
    output: readOutput(output, usage),
    prediction: null,
    ...(searches === 0 ? {} : readUnits({ search: searches })),
  }
}

function readInput(reported: number, usage: Json): Usage['input'] {
  const details = readObject(usage, 'input_tokens_details')
  const cached = parseCount(details.cached_tokens) ?? 0
  // xAI sometimes reports more cached tokens than input tokens. Then the count excludes the cached
  // ones.
  const input = cached > reported ? reported + cached : reported
  const cache_write = parsePartCount(input - cached, details.cache_write_tokens)
  const audio = parsePartCount(input - cached - cache_write, details.audio_tokens)
  return {
    text: input - cached - cache_write - audio,
    cache_read: cached,
    cache_write,
    cache_write_1h: 0,
    audio,
    video: 0,
  }
}

function readOutput(output: number, usage: Json): Usage['output'] {
  const details = readObject(usage, 'output_tokens_details')
  const reasoning = parsePartCount(output, details.reasoning_tokens)
  const audio = parsePartCount(output - reasoning, details.audio_tokens)
  const image = parsePartCount(output - reasoning - audio, details.image_tokens)
  return { text: output - reasoning - audio - image, reasoning, audio, image }
}
