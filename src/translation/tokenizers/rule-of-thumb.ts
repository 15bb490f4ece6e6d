import { estimateTokenCount } from 'tokenx'

/**
 * A longer text is estimated from samples, so that even the longest prompt blocks the event loop
 * for only a few milliseconds.
 */
const READ_WHOLE = 64 * 1024
const SAMPLES = 16
const SAMPLE = READ_WHOLE / SAMPLES

/** The characters that are read of all texts together. Of more, every other or third text is. */
const READ_OF_ALL = 4 * READ_WHOLE

/** Estimates the o200k tokens of the texts, immediately and without a vocabulary. */
export function estimateByRuleOfThumb(texts: string[]): number {
  let cost = 0
  for (const text of texts) cost += Math.min(text.length, READ_WHOLE)
  if (cost <= READ_OF_ALL) return texts.reduce((sum, text) => sum + estimateText(text), 0)
  return estimateFromSome(texts, Math.ceil(cost / READ_OF_ALL))
}

function estimateFromSome(texts: string[], step: number): number {
  let [all, read, tokens] = [0, 0, 0]
  for (const [i, text] of texts.entries()) {
    all += text.length
    if (i % step > 0) continue
    read += text.length
    tokens += estimateText(text)
  }
  return read === 0 ? Math.ceil(all / CHARACTERS_PER_TOKEN) : Math.round((tokens * all) / read)
}

const CHARACTERS_PER_TOKEN = 4

function estimateText(text: string): number {
  if (text.length <= READ_WHOLE) return estimateTokenCount(text)
  return Math.round(
    (pickSamples(text).reduce((sum, sample) => sum + estimateTokenCount(sample), 0) * text.length) /
      READ_WHOLE,
  )
}

/** Returns evenly spaced samples of the text, the first at its start and the last at its end. */
function pickSamples(text: string): string[] {
  const step = (text.length - SAMPLE) / (SAMPLES - 1)
  return Array.from({ length: SAMPLES }, (_, i) => {
    const from = Math.floor(i * step)
    return text.slice(from, from + SAMPLE)
  })
}
