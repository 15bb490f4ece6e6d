import { type Json, parseCount, parsePartCount, readObject } from '../../kernel/json.ts'
import { createTextUsage, type Usage } from '../../language/usage.ts'
import { refuseImpossibleCounts } from '../counts.ts'

/**
 * Returns Cohere's count of the tokens that the model read and wrote. `cached_tokens` are part of
 * the input. What Cohere itself adds to a prompt is counted but not charged, so `billed_units`
 * leaves it out. Undefined without counts.
 */
export const readUsage = refuseImpossibleCounts(readPossibleUsage)

function readPossibleUsage(fields: Json): Usage | undefined {
  const billed = readCounts(readObject(fields, 'billed_units'))
  const counted = readCounts(readObject(fields, 'tokens')) ?? billed
  if (!counted) return undefined
  const cache_read = parsePartCount(counted.input, fields.cached_tokens)
  const usage = createTextUsage(counted.input - cache_read, counted.output)
  return {
    ...usage,
    input: { ...usage.input, cache_read },
    ...(billed ? { billed: createTextUsage(billed.input, billed.output) } : {}),
  }
}

function readCounts({
  input_tokens,
  output_tokens,
}: Json): { input: number; output: number } | undefined {
  const input = parseCount(input_tokens)
  const output = parseCount(output_tokens)
  return input === undefined || output === undefined ? undefined : { input, output }
}
