/** The available encodings. */
export type EncodingName = 'o200k' | 'claude'

type Count = (text: string) => number

/**
 * Counts the tokens of the texts in an encoding. The first use loads the vocabulary, which takes a
 * while, so this runs in the Worker.
 */
export async function encodedCount(encoding: EncodingName, texts: string[]): Promise<number> {
  const count = await ENCODINGS[encoding]()
  let tokens = 0
  for (const text of texts) for (const piece of pieces(text)) tokens += count(piece)
  return tokens
}

// The size of the cache of merges. With runs of a thousand characters, the default of a hundred
// thousand entries would take hundreds of megabytes.
const MOST_REMEMBERED = 5_000

// Counts `<|endoftext|>` in a text as ordinary text. The other package does the same with 'all'.
const ORDINARY = { disallowedSpecial: new Set<string>() }

const ENCODINGS: Record<EncodingName, () => Promise<Count>> = {
  o200k: once(async () => {
    const { countTokens, setMergeCacheSize } = await import('gpt-tokenizer/encoding/o200k_base')
    setMergeCacheSize(MOST_REMEMBERED)
    return text => countTokens(text, ORDINARY)
  }),
  claude: once(async () => {
    const [{ Tokenizer }, claude] = await Promise.all([
      import('ai-tokenizer'),
      import('ai-tokenizer/encoding/claude'),
    ])
    const tokenizer = new Tokenizer(claude, undefined, MOST_REMEMBERED)
    return text => tokenizer.encode(text, 'all').length
  }),
}

function once<Value>(make: () => Promise<Value>): () => Promise<Value> {
  let made: Promise<Value> | undefined
  return () => {
    made ??= make()
    return made
  }
}

/**
 * Merging takes quadratic time in the length of a run. A megabyte without a space would take hours.
 */
const LONGEST_RUN = 1_000

/**
 * Splits a text so that no run, of white space or of anything else, is longer than `LONGEST_RUN`.
 */
export function pieces(text: string): string[] {
  const runs = /\S+|\s+/g
  const cut: string[] = []
  let from = 0
  let begun = 0
  while (runs.test(text)) {
    for (let at = begun + LONGEST_RUN; at < runs.lastIndex; at += LONGEST_RUN) {
      cut.push(text.slice(from, at))
      from = at
    }
    begun = runs.lastIndex
  }
  cut.push(text.slice(from))
  return cut
}
