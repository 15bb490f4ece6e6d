import { type Json, parseCount, readObjects } from '../../../base/json.ts'
import { readUnits, type Usage } from '../../../language/usage.ts'
import { refuseImpossibleCounts } from '../reader.ts'

/**
 * Returns Google's `usageMetadata` in disjoint classes. `promptTokenCount` includes cached tokens,
 * but not what Google's own tools read. `candidatesTokenCount` excludes thoughts, and is missing if
 * there was no answer. Undefined if nothing was counted.
 */
export const readUsage = refuseImpossibleCounts(readPossibleUsage)

function readPossibleUsage(usage: Json, searches: number | null = null): Usage | undefined {
  const prompt = readCount(usage.promptTokenCount) + readCount(usage.toolUsePromptTokenCount)
  const candidates = readCount(usage.candidatesTokenCount)
  const reasoning = readCount(usage.thoughtsTokenCount)
  if (prompt + candidates + reasoning === 0) return undefined
  return {
    input: readInput(prompt, usage),
    output: readOutput(candidates, reasoning, usage),
    prediction: null,
    ...readUnits({ search: searches }),
  }
}

// The details of the prompt include cached tokens, which have details of their own.
function readInput(prompt: number, usage: Json): Usage['input'] {
  const cache_read = Math.min(readCount(usage.cachedContentTokenCount), prompt)
  const countUncached = (modality: string) =>
    countModality(modality, usage.promptTokensDetails) +
    countModality(modality, usage.toolUsePromptTokensDetails) -
    countModality(modality, usage.cacheTokensDetails)
  const audio = clamp(prompt - cache_read, countUncached('AUDIO'))
  const video = clamp(prompt - cache_read - audio, countUncached('VIDEO'))
  const image = clamp(prompt - cache_read - audio - video, countUncached('IMAGE'))
  return {
    text: prompt - cache_read - audio - video - image,
    cache_read,
    cache_write: 0,
    cache_write_1h: 0,
    audio,
    video,
    ...(image > 0 ? { image } : {}),
  }
}

function readOutput(candidates: number, reasoning: number, usage: Json): Usage['output'] {
  const audio = clamp(candidates, countModality('AUDIO', usage.candidatesTokensDetails))
  const image = clamp(candidates - audio, countModality('IMAGE', usage.candidatesTokensDetails))
  return { text: candidates - audio - image, reasoning, audio, image }
}

const countModality = (modality: string, details: unknown): number =>
  readObjects(details).reduce(
    (sum, one) => (one.modality === modality ? sum + readCount(one.tokenCount) : sum),
    0,
  )

const readCount = (value: unknown): number => parseCount(value) ?? 0

const clamp = (most: number, value: number): number => Math.min(Math.max(value, 0), most)
