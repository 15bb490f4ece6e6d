/** The available encodings. */
export type EncodingName = 'o200k' | 'claude'

type CountText = (text: string) => number

/**
 * Counts the tokens of the texts in an encoding. The first use loads the vocabulary, which takes a
 * while, so this runs in the Worker.
 */
export async function countEncodedTokens(encoding: EncodingName, texts: string[]): Promise<number> {
  const count = await ENCODINGS[encoding]()
  let tokens = 0
  for (const text of texts) for (const piece of splitLongRuns(text)) tokens += count(piece)
  return tokens
}

// The size of the cache of merges. With runs of a thousand characters, the default of a hundred
// thousand entries would take hundreds of megabytes.
const MERGE_CACHE_SIZE = 5_000

// Counts `<|endoftext|>` in a text as ordinary text. The other package does the same with 'all'.
const PLAIN_TEXT = { disallowedSpecial: new Set<string>() }

const ENCODINGS: Record<EncodingName, () => Promise<CountText>> = {
  o200k: memoize(async () => {
    const { countTokens, setMergeCacheSize } = await import('gpt-tokenizer/encoding/o200k_base')
    setMergeCacheSize(MERGE_CACHE_SIZE)
    return text => countTokens(text, PLAIN_TEXT)
  }),
  claude: memoize(async () => {
    const [{ Tokenizer }, claude] = await Promise.all([
      import('ai-tokenizer'),
      import('ai-tokenizer/encoding/claude'),
    ])
    const tokenizer = new Tokenizer(claude, undefined, MERGE_CACHE_SIZE)
    return text => tokenizer.encode(text, 'all').length
  }),
}

function memoize<Value>(make: () => Promise<Value>): () => Promise<Value> {
  let value: Promise<Value> | undefined
  return () => {
    value ??= make()
    return value
  }
}

/**
 * Merging takes quadratic time in the length of a run. A megabyte without a space would take hours.
 */
const LONGEST_RUN = 1_000

/**
 * What the encodings merge as one, next to next throughout a text: runs of white space and of
 * anything else, and, in o200k, line ends and slashes after signs. What is no such run is short.
 */
const RUNS = [/\S+|\s+/g, /[\r\n/]+|[^\r\n/]{1,1000}/g]

/**
 * Splits a text so that no run, of white space, of anything else, or of line ends and slashes, is
 * longer than `LONGEST_RUN`.
 */
export const splitLongRuns = (text: string): string[] =>
  RUNS.reduce((pieces, runs) => pieces.flatMap(piece => splitRuns(piece, runs)), [text])

function splitRuns(text: string, runs: RegExp): string[] {
  const pieces: string[] = []
  let from = 0
  let runStart = 0
  while (runs.test(text)) {
    for (let at = runStart + LONGEST_RUN; at < runs.lastIndex; at += LONGEST_RUN) {
      pieces.push(text.slice(from, at))
      from = at
    }
    runStart = runs.lastIndex
  }
  pieces.push(text.slice(from))
  return pieces
}
