/** The shells that lines are completed for. */
export const SHELLS = ['bash', 'zsh', 'fish'] as const
export type Shell = (typeof SHELLS)[number]

/** A word of a line as it was typed, and as the shell would pass it on. */
export interface Word {
  raw: string
  value: string
  /** The quote that is still open at its end, where it begins, and how much of the value is before. */
  open: { quote: string; from: number; length: number } | null
}

/**
 * Splits a line into words by the rules of quotes and backslashes that bash, zsh and fish share. The
 * last word is the one that is being typed: it is empty after a space.
 */
export function splitLine(line: string): Word[] {
  const words: Word[] = []
  let rest = line.trimStart()
  for (;;) {
    const { word, length } = readWord(rest)
    words.push(word)
    if (length === rest.length) return words
    rest = rest.slice(length).trimStart()
  }
}

/** Reads one word that was typed, whatever is in it. */
export const readTypedWord = (raw: string): Word => readWord(raw, true).word

function readWord(text: string, isWhole = false): { word: Word; length: number } {
  let value = ''
  let open = null as Word['open']
  let at = 0
  for (; at < text.length; at++) {
    const letter = text[at] ?? ''
    if (letter === open?.quote) open = null
    else if (open === null && (letter === '"' || letter === "'"))
      open = { quote: letter, from: at + 1, length: value.length }
    else if (letter === '\\' && open?.quote !== "'") {
      at += 1
      value += text[at] ?? ''
    } else if (open === null && !isWhole && /\s/.test(letter)) break
    else value += letter
  }
  return { word: { raw: text.slice(0, at), value, open }, length: Math.min(at, text.length) }
}

/**
 * Renders what bash puts in place of the word that is being typed, for one that begins like it:
 * what follows its open quote, or the last of the characters at which readline breaks words. Each
 * character that means something to the shell is quoted. Undefined where a quote cannot hold it.
 */
export function renderForBash(
  candidate: string,
  { raw, value, open }: Word,
  breaks: string,
): string | undefined {
  if (open) return quoteWithin(open.quote, candidate.slice(open.length))
  const from = findBreak(raw, breaks)
  const done = from === 0 ? '' : readTypedWord(raw.slice(0, from)).value
  return value.startsWith(done) ? quoteForBash(candidate.slice(done.length)) : undefined
}

/** Finds where readline begins the word: after the last break that is not quoted. */
function findBreak(raw: string, breaks: string): number {
  for (let at = raw.length - 1; at >= 0; at--)
    if (breaks.includes(raw[at] ?? '') && !/["'\\]/.test(raw[at] ?? '') && raw[at - 1] !== '\\')
      return at + 1
  return 0
}

function quoteWithin(quote: string, text: string): string | undefined {
  // History expansion takes an exclamation mark within double quotes, escaped or not.
  if (text.includes(quote === "'" ? "'" : '!')) return undefined
  return quote === "'" ? text : text.replace(/["$`\\]/g, '\\$&')
}

// biome-ignore lint/suspicious/noControlCharactersInRegex: all of ASCII.
const quoteForBash = (text: string): string => text.replace(/[\x00-\x7f]/g, quoteLetter)

const quoteLetter = (letter: string): string =>
  /[\w./:@%+=,-]/.test(letter) ? letter : `\\${letter}`
