/** The encodings that we have. */
export type EncodingName = 'o200k' | 'claude'

type Count = (text: string) => number

/** How many tokens these texts are in this encoding. The vocabulary is loaded on first use, which takes a while: for the Worker. */
export async function encodedCount(encoding: EncodingName, texts: string[]): Promise<number> {
  const count = await ENCODINGS[encoding]()
  let tokens = 0
  for (const text of texts) for (const piece of pieces(text)) tokens += count(piece)
  return tokens
}

// Merges that are remembered. With runs of a thousand characters the usual hundred thousand would be hundreds of megabytes.
const MOST_REMEMBERED = 5_000

// What a text says is a text: `<|endoftext|>` in it is no command. The other package means the same by 'all'.
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

/** Merging takes the square of a run's length: a megabyte without a space would take hours. */
const LONGEST_RUN = 1_000

/** The text in pieces that have no longer run than that, of anything but white space or of white space alone. */
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
