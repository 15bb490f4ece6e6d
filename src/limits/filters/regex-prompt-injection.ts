import { handleEach, sortInTurns, type Work } from '../../base/turns.ts'
import type { Span } from '../patterns/machine.ts'
import { compileProgram, type Program } from '../patterns/program.ts'
import { searchText } from '../patterns/search.ts'
import { type Builtin, toAlphabet } from './builtin.ts'
import { LABELS } from './labels.data.ts'
import {
  foldText,
  isLetter,
  joinSpacedLetters,
  listNonBlankOffsets,
} from './regex-prompt-injection/folded-text.ts'
import {
  ENCODED,
  INJECTIONS,
  SCRAMBLED,
  SPOOFS,
  WITHOUT_RULES,
} from './regex-prompt-injection.data.ts'

const { hypothetical_bypass: _, ...WITHOUT_GAP } = INJECTIONS
const PHRASES = `\\b(?:${Object.values(WITHOUT_GAP).join('|')})`
const PLAIN_PROGRAM = compileProgram(`(?i)(?:${PHRASES}|${Object.values(SPOOFS).join('|')})`)
/** How a bypass begins and ends. Its gap of any words is no part of an automaton: that has many states. */
const BYPASS_START = compileProgram('(?i)\\bhypothetical(?:ly)?')
const BYPASS_END = compileProgram(`(?i)${WITHOUT_RULES}`)
/** Almost no text has it. */
const MAY_BYPASS = /hypothetical/i
/** The most characters between, none of which ends a sentence. */
const LONGEST_GAP = 60
const SENTENCE_END = /[.!?\n]/

let joinedProgram: Program | undefined

/** Returns the phrases without blanks as a program, compiled when spaced letters first occur. */
function getJoinedProgram(): Program {
  const phrases = Object.values(INJECTIONS)
    .join('|')
    .replaceAll('\\s+', '\\s*')
    .replaceAll('\\b', '')
  joinedProgram ??= compileProgram(`(?i)(?:${phrases})`)
  return joinedProgram
}

/**
 * Finds attempts to override a model's instructions: the phrases of the public list, in any case.
 * It also finds disguised ones: letters of other alphabets and characters without width, spaced
 * letters, words with their middle letters reordered, and tell-tale words in Base64 or hexadecimal
 * digits.
 */
export const promptInjection: Builtin = {
  label: LABELS['regex-prompt-injection'],
  name: 'Prompt injection',
  blockedMessage: 'Request blocked: prompt injection patterns detected',
  detectors: [],
  *find(text) {
    const found = yield* findPlain(text)
    yield* findDisguised(text, found)
    yield* findSpaced(text, found)
    yield* findScrambled(text, found)
    yield* findEncoded(text, found)
    return yield* sortInTurns(found, (a, b) => a.start - b.start)
  },
}

/** Disguised phrases are sought in one part of the text after the other, to bound the memory. */
const PART = 16_384
/** A part is read on for this many units: no disguised phrase is longer. */
const READ_ON = 512

/** Calls `find` with each part of the text, and adds what begins in it. */
function* findInParts(
  text: string,
  found: Span[],
  find: (part: string) => Work<Span[]>,
): Work<void> {
  for (let from = 0; from < text.length; from += PART) {
    for (const { start, end } of yield* find(text.slice(from, from + PART + READ_ON)))
      if (start < PART) found.push({ start: from + start, end: from + end })
    yield
  }
}

function* findMatches(program: Program, text: string): Work<Span[]> {
  const spans: Span[] = []
  yield* searchText(program, text, (start, end) => spans.push({ start, end }))
  return spans
}

function* findPlain(text: string): Work<Span[]> {
  const spans = yield* findMatches(PLAIN_PROGRAM, text)
  return MAY_BYPASS.test(text) ? [...spans, ...(yield* findBypasses(text))] : spans
}

/** Finds each beginning of a bypass with the last end that it has within its gap. */
function* findBypasses(text: string): Work<Span[]> {
  const ends = yield* findMatches(BYPASS_END, text)
  const starts = ends.length > 0 ? yield* findMatches(BYPASS_START, text) : []
  const spans: Span[] = []
  let next = 0
  for (const { start, end } of starts) {
    if (start < (spans.at(-1)?.end ?? 0)) continue
    while (next < ends.length && startOf(ends[next]) < start + SHORTEST_START) next++
    const gap = text.slice(end, end + LONGEST_GAP)
    const stop = gap.search(SENTENCE_END)
    const last = end + (stop < 0 ? LONGEST_GAP : stop)
    let found: Span | undefined
    for (let at = next; at < ends.length && startOf(ends[at]) <= last; at++) found = ends[at]
    if (found) spans.push({ start, end: found.end })
  }
  return spans
}

const SHORTEST_START = 'hypothetical'.length

const startOf = (span: Span | undefined): number => span?.start ?? 0

/** Finds phrases after every character is replaced by the one that it looks like. */
const findDisguised = (text: string, found: Span[]): Work<void> =>
  findInParts(text, found, function* (part) {
    const folded = foldText(part)
    return folded ? (yield* findPlain(folded.text)).map(folded.toOriginal) : []
  })

const findSpaced = (text: string, found: Span[]): Work<void> =>
  findInParts(text, found, function* (part) {
    const joined = joinSpacedLetters(part)
    if (!joined) return []
    return toOriginal(yield* findMatches(getJoinedProgram(), joined.text), joined.offsets)
  })

const toOriginal = (spans: Span[], offsets: number[]): Span[] =>
  spans.map(({ start, end }) => ({
    start: offsets[start] ?? 0,
    end: (offsets[end - 1] ?? 0) + 1,
  }))

/**
 * Finds words whose first and last letter are right and whose other letters are reordered. A single
 * one is a typing error: it counts only where it completes a phrase, or where there are several.
 */
function* findScrambled(text: string, found: Span[]): Work<void> {
  const slips: Span[] = []
  const phrases: Span[] = []
  for (let from = 0; from < text.length; from += PART) {
    const { corrected, slips: slipsOfPart } = correctWords(text.slice(from, from + PART + READ_ON))
    for (const { start, end } of slipsOfPart)
      if (start < PART) slips.push({ start: from + start, end: from + end })
    if (slipsOfPart.length > 0)
      for (const { start, end } of yield* findPlain(corrected))
        if (start < PART) phrases.push({ start: from + start, end: from + end })
    yield
  }
  const scrambled = phrases.length > 0 ? phrases : slips
  if (phrases.length > 0 || slips.length > 1)
    yield* handleEach(scrambled, span => void found.push(span))
}

/** Replaces scrambled words by what they stand for, and lists where they were. */
function correctWords(text: string): { corrected: string; slips: Span[] } {
  const slips: Span[] = []
  let corrected = ''
  let at = 0
  for (let start = 0; start < text.length; ) {
    const end = findWordEnd(text, start)
    const original = end - start < SHORTEST_WORD ? undefined : findOriginalWord(text, start, end)
    if (original !== undefined) {
      slips.push({ start, end })
      corrected += text.slice(at, start) + original
      at = end
    }
    start = Math.max(end, start + 1)
  }
  return { corrected: corrected + text.slice(at), slips }
}

const [SHORTEST_WORD, LONGEST_WORD] = [6, 12]

/** Finds the end of the letters from here on; of very many only the first make a word. */
function findWordEnd(text: string, start: number): number {
  const most = Math.min(text.length, start + LONGEST_WORD)
  let end = start
  while (end < most && isLetter(text.charCodeAt(end))) end += 1
  return end
}

/** Returns the word that this one is a scrambled form of; undefined for the word itself. */
function findOriginalWord(text: string, start: number, end: number): string | undefined {
  const words = BY_ENDS.get(nameEnds(text, start, end))
  if (!words) return undefined
  for (const word of words) if (isWord(text, start, word)) return undefined
  const sum = sumLetters(text, start, end)
  return words.find(word => sum === SUMS.get(word) && hasLetters(text, start, word))
}

/** Names what a scrambled word keeps, in either case: its length, its first and last letter. */
const nameEnds = (text: string, start: number, end: number): number =>
  ((end - start) << 16) | ((text.charCodeAt(start) | 0x20) << 8) | (text.charCodeAt(end - 1) | 0x20)
const BY_ENDS = Map.groupBy(SCRAMBLED, word => nameEnds(word, 0, word.length))

/** Adds up the letters, in either case: that is the same in any order, and fast. */
function sumLetters(text: string, start: number, end: number): number {
  let sum = 0
  for (let i = start; i < end; i++) {
    const letter = text.charCodeAt(i) | 0x20
    sum += letter * letter
  }
  return sum
}
const SUMS = new Map(SCRAMBLED.map(word => [word, sumLetters(word, 0, word.length)]))

/** How often each letter occurs in the word that is compared: all are zero between two of them. */
const COUNTS = new Int8Array(0x80)

const addTo = (code: number, count: number): void => {
  COUNTS[code] = (COUNTS[code] as number) + count
}

/** Tells whether a text has the letters of a word from here on, in either case and any order. */
function hasLetters(text: string, start: number, word: string): boolean {
  for (let i = 0; i < word.length; i++) addTo(word.charCodeAt(i), 1)
  for (let i = 0; i < word.length; i++) addTo(text.charCodeAt(start + i) | 0x20, -1)
  let isSame = true
  for (let i = 0; i < word.length; i++) {
    isSame &&= COUNTS[word.charCodeAt(i)] === 0
    COUNTS[word.charCodeAt(i)] = 0
    COUNTS[text.charCodeAt(start + i) | 0x20] = 0
  }
  return isSame
}

/** Tells whether a text is a word from here on, in either case. */
function isWord(text: string, start: number, word: string): boolean {
  for (let i = 0; i < word.length; i++)
    if ((text.charCodeAt(start + i) | 0x20) !== word.charCodeAt(i)) return false
  return true
}

/**
 * Finds Base64 and hexadecimal digits, in one piece or in several, that encode one of the tell-tale
 * words.
 */
const findEncoded = (text: string, found: Span[]): Work<void> =>
  findInParts(text, found, function* (part) {
    yield
    if (!MAY_BE_ENCODED.test(part)) return []
    const spans = findEncodedWords(part)
    if (spans.length > 0) return spans
    const joined = part.replace(/\s+/g, '')
    const hidden = joined.length === part.length ? [] : findEncodedWords(joined)
    return hidden.length === 0 ? [] : toOriginal(hidden, listNonBlankOffsets(part))
  })

function toHexPattern(word: string): string {
  const digits = [...word].flatMap(letter => {
    const code = letter.charCodeAt(0)
    return [code < 0x70 ? '[46]' : '[57]', toEitherCase((code & 0xf).toString(16))]
  })
  return digits.join('\\s*')
}

const toEitherCase = (digit: string): string => `[${digit}${digit.toUpperCase()}]`

/** Lists the first whole group of three letters for each place at which a word may begin. */
const listGroups = (word: string): string[] => [0, 1, 2].map(i => word.slice(i, i + 3))

/** Lists the Base64 digits of a group, with its letters in either case. */
function listBase64(group: string): string[] {
  return [0, 1, 2, 3, 4, 5, 6, 7].map(bits =>
    btoa([...group].map((letter, i) => (bits & (1 << i) ? letter.toUpperCase() : letter)).join('')),
  )
}

/** Joins texts of one length into a pattern that reads each of their letters but once. */
function joinTexts(texts: string[]): string {
  if (texts.every(text => text === '')) return ''
  const branches = Map.groupBy(texts, text => text.charAt(0))
  const patterns = [...branches].map(([letter, all]) => {
    const rest = joinTexts(all.map(text => text.slice(1)))
    return rest === '' ? letter : `${letter}\\s*${rest}`
  })
  return `(?:${patterns.join('|')})`
}

/**
 * Matches what every encoding of a tell-tale word contains, in upper or lower case: the digits of
 * its letters, or the four Base64 digits of the first whole group of three letters. That is much
 * faster than decoding, and few texts need more. Blanks may stand between two digits.
 */
const MAY_BE_ENCODED = new RegExp(
  [joinTexts(ENCODED.flatMap(listGroups).flatMap(listBase64)), ...ENCODED.map(toHexPattern)].join(
    '|',
  ),
)

/** Finds the runs of digits that encode a tell-tale word, by the code and then by their place. */
const findEncodedWords = (text: string): Span[] =>
  CODES.flatMap(code => findEncodedRuns(text, code))

interface Code {
  name: 'base64' | 'hex'
  isDigit: Uint8Array
  /** The fewest digits of a run. */
  fewest: number
  perGroup: number
}

const listDigits = (digits: RegExp): Uint8Array => toAlphabet(digits, false).ascii

const CODES: Code[] = [
  { name: 'base64', isDigit: listDigits(/[a-z0-9+/]/i), fewest: 8, perGroup: 4 },
  { name: 'hex', isDigit: listDigits(/[0-9a-f]/i), fewest: 12, perGroup: 2 },
]

const TELL_TALE = new RegExp(ENCODED.join('|'), 'gi')

// Every offset of the first whole group is tried: other digits may precede it.
function findEncodedRuns(text: string, code: Code): Span[] {
  const runs = listRuns(text, code)
  if (runs.length === 0) return runs
  const isFound = new Uint8Array(runs.length)
  for (let offset = 0; offset < code.perGroup; offset++) markRuns(text, runs, code, offset, isFound)
  return runs.filter((_, i) => isFound[i] === 1)
}

/** Lists where enough digits of a code stand in a row. */
function listRuns(text: string, { isDigit, fewest }: Code): Span[] {
  const runs: Span[] = []
  let start = 0
  for (let i = 0; i <= text.length; i++) {
    if (isDigit[text.charCodeAt(i)] === 1) continue
    if (i - start >= fewest) runs.push({ start, end: i })
    start = i + 1
  }
  return runs
}

/** Decodes all runs that are not yet found at once, from an offset, and marks those with a word. */
function markRuns(
  text: string,
  runs: Span[],
  { name, perGroup }: Code,
  offset: number,
  isFound: Uint8Array,
): void {
  const open: number[] = []
  const ends: number[] = []
  const parts: string[] = []
  let length = 0
  for (let i = 0; i < runs.length; i++) {
    if (isFound[i] === 1) continue
    const { start, end } = runs[i] as Span
    const rest = (end - start - offset) % perGroup
    // A single digit of a group encodes nothing.
    const until = rest === 1 ? end - 1 : end
    const zeros = SEPARATORS[perGroup]?.[rest] ?? ''
    parts.push(text.slice(start + offset, until), zeros)
    length += until - start - offset + zeros.length
    open.push(i)
    ends.push(length)
  }
  if (open.length === 0) return
  const decoded = Buffer.from(parts.join(''), name).toString('latin1')
  let at = 0
  TELL_TALE.lastIndex = 0
  for (let found = TELL_TALE.exec(decoded); found; found = TELL_TALE.exec(decoded)) {
    const place = (found.index * length) / decoded.length
    while ((ends[at] as number) <= place) at += 1
    isFound[open[at] as number] = 1
  }
}

/**
 * What follows the digits of a run, by how many are left beyond whole groups: zeros that complete
 * the last group and are no letters, and a group of them, so that no word begins in one run and ends
 * in the next.
 */
const SEPARATORS: Record<number, string[]> = {
  4: ['AAAA', 'AAAA', 'AAAAAA', 'AAAAA'],
  2: ['00', '00'],
}
