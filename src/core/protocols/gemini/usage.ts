import { count, isObject, type Json, objects } from '../../kernel/json.ts'
import { readUnits } from '../../language/units.ts'
import type { Usage } from '../../language/usage.ts'

/**
 * Returns Google's `usageMetadata` in disjoint classes. `promptTokenCount` includes cached tokens,
 * but not what Google's own tools read. `candidatesTokenCount` excludes thoughts, and is missing if
 * there was no answer. Undefined if nothing was counted.
 */
export function usageOf(given: unknown, searches: number | null = null): Usage | undefined {
  if (!isObject(given)) return undefined
  const prompt = counted(given.promptTokenCount) + counted(given.toolUsePromptTokenCount)
  const candidates = counted(given.candidatesTokenCount)
  const reasoning = counted(given.thoughtsTokenCount)
  if (prompt + candidates + reasoning === 0) return undefined
  return {
    input: inputOf(prompt, given),
    output: outputOf(candidates, reasoning, given),
    prediction: null,
    ...readUnits({ search: searches }),
  }
}

// The details of the prompt include cached tokens, which have details of their own.
function inputOf(prompt: number, given: Json): Usage['input'] {
  const cache_read = Math.min(counted(given.cachedContentTokenCount), prompt)
  const fresh = (modality: string) =>
    of(modality, given.promptTokensDetails) +
    of(modality, given.toolUsePromptTokensDetails) -
    of(modality, given.cacheTokensDetails)
  const audio = within(prompt - cache_read, fresh('AUDIO'))
  const video = within(prompt - cache_read - audio, fresh('VIDEO'))
  return {
    text: prompt - cache_read - audio - video,
    cache_read,
    cache_write: 0,
    cache_write_1h: 0,
    audio,
    video,
  }
}

function outputOf(candidates: number, reasoning: number, given: Json): Usage['output'] {
  const audio = within(candidates, of('AUDIO', given.candidatesTokensDetails))
  const image = within(candidates - audio, of('IMAGE', given.candidatesTokensDetails))
  return { text: candidates - audio - image, reasoning, audio, image }
}

const of = (modality: string, details: unknown): number =>
  objects(details).reduce(
    (sum, one) => (one.modality === modality ? sum + counted(one.tokenCount) : sum),
    0,
  )

const counted = (value: unknown): number => count(value) ?? 0

const within = (most: number, value: number): number => Math.min(Math.max(value, 0), most)
