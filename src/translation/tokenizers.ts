import { Encoder, startWorker } from './tokenizers/encoder.ts'
import { FAMILIES, type TokenizerFamily } from './tokenizers/families.ts'
import { estimateByRuleOfThumb } from './tokenizers/rule-of-thumb.ts'

/** Counts tokens where the provider did not. Records mark such counts as estimated. */
export interface Tokenizers {
  /**
   * Counts the tokens of texts for models of this family. Never throws, and answers within
   * `COUNT_TIMEOUT_MS`.
   */
  count(family: TokenizerFamily, texts: string[]): Promise<number>
  /** Ends the Worker. Pending and later counts are answered by the rule of thumb. */
  close(): void
}

/** What tests replace, to be quick or to break things. Times in milliseconds. */
export interface TokenizersOptions {
  startWorker: () => Worker
  /** How long a count may take before the rule of thumb answers instead. */
  timeoutMs: number
  /** How long the Worker is kept without work. */
  idleMs: number
}

/** How long a count may take, in milliseconds. */
export const COUNT_TIMEOUT_MS = 2_000
const IDLE_MS = 60_000

/**
 * The characters of one count that are encoded, about 250,000 tokens. The rule of thumb estimates
 * the rest.
 */
const MAX_ENCODED_CHARACTERS = 1024 * 1024

/**
 * Opens the tokenizers. The first count that needs a vocabulary starts the Worker that holds it.
 */
export function openTokenizers(replace: Partial<TokenizersOptions> = {}): Tokenizers {
  const encoder = new Encoder({
    startWorker,
    timeoutMs: COUNT_TIMEOUT_MS,
    idleMs: IDLE_MS,
    ...replace,
  })
  let closed = false
  return {
    async count(family, texts) {
      const { encoding, native, multiplier } = FAMILIES[family]
      if (!encoding || closed) return scaleCount(estimateByRuleOfThumb(texts), multiplier)
      const { encoded, rest } = splitTexts(texts)
      const tokens = encoded.length === 0 ? 0 : await encoder.count(encoding, encoded)
      if (tokens === null) return scaleCount(estimateByRuleOfThumb(texts), multiplier)
      return scaleCount(tokens, native) + scaleCount(estimateByRuleOfThumb(rest), multiplier)
    },
    close() {
      closed = true
      encoder.end()
    },
  }
}

const scaleCount = (tokens: number, multiplier: number) => Math.round(tokens * multiplier)

/** Splits texts at the bound of what is encoded. Leaves out empty ones. */
function splitTexts(texts: string[]): { encoded: string[]; rest: string[] } {
  const encoded: string[] = []
  const rest: string[] = []
  let left = MAX_ENCODED_CHARACTERS
  for (const text of texts) {
    if (text.length > 0 && left > 0) encoded.push(text.slice(0, left))
    if (text.length > left) rest.push(text.slice(left))
    left -= Math.min(left, text.length)
  }
  return { encoded, rest }
}
