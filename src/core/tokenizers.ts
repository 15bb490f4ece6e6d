import { Encoder, startWorker } from './tokenizers/encoder.ts'
import { FAMILIES, type TokenizerFamily } from './tokenizers/families.ts'
import { estimateByRuleOfThumb } from './tokenizers/rule-of-thumb.ts'

/** Counts tokens where the provider did not. What it says is an estimate, and whoever records it says so. */
export interface Tokenizers {
  /** How many tokens these texts are to models of this family. Never throws, and takes no longer than `PATIENCE`. */
  count(family: TokenizerFamily, texts: string[]): Promise<number>
  /** Ends the Worker. Whoever waits, and whoever asks from now on, is answered by the rule of thumb. */
  close(): void
}

/** What may be other than usual, so that a test can be quick or break things. Times in milliseconds. */
export interface TokenizersOptions {
  startWorker: () => Worker
  /** How long a count may take before the rule of thumb answers instead. */
  patience: number
  /** How long the Worker stays without work. */
  idle: number
}

/** How long a count may take, in milliseconds. */
export const PATIENCE = 2_000
const IDLE = 60_000

/** As many characters of one count are encoded, about 250,000 tokens. The rest is judged by the rule of thumb. */
const MOST_ENCODED = 1024 * 1024

/** The tokenizers, none of them loaded: the first count that needs one starts the Worker that holds it. */
export function openTokenizers(replace: Partial<TokenizersOptions> = {}): Tokenizers {
  const encoder = new Encoder({ startWorker, patience: PATIENCE, idle: IDLE, ...replace })
  let closed = false
  return {
    async count(family, texts) {
      const { encoding, native, multiplier } = FAMILIES[family]
      if (!encoding || closed) return scaled(estimateByRuleOfThumb(texts), multiplier)
      const { encoded, rest } = parted(texts)
      const tokens = encoded.length === 0 ? 0 : await encoder.count(encoding, encoded)
      if (tokens === null) return scaled(estimateByRuleOfThumb(texts), multiplier)
      return scaled(tokens, native) + scaled(estimateByRuleOfThumb(rest), multiplier)
    },
    close() {
      closed = true
      encoder.end()
    },
  }
}

const scaled = (tokens: number, multiplier: number) => Math.round(tokens * multiplier)

/** The texts, without the empty ones, up to the bound and beyond it. */
function parted(texts: string[]): { encoded: string[]; rest: string[] } {
  const encoded: string[] = []
  const rest: string[] = []
  let left = MOST_ENCODED
  for (const text of texts) {
    if (text.length > 0 && left > 0) encoded.push(text.slice(0, left))
    if (text.length > left) rest.push(text.slice(left))
    left -= Math.min(left, text.length)
  }
  return { encoded, rest }
}
