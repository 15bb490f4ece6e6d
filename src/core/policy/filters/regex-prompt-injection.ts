import { Machine, type Span } from '../patterns/machine.ts'
import { compileProgram, type Program } from '../patterns/program.ts'
import type { Builtin } from './builtin.ts'
import { LABELS } from './labels.data.ts'
import {
  type FoldedText,
  foldText,
  joinSpacedLetters,
  listNonBlankOffsets,
} from './regex-prompt-injection/folded-text.ts'
import { ENCODED, INJECTIONS, SCRAMBLED, SPOOFS } from './regex-prompt-injection.data.ts'

const PHRASES = `\\b(?:${Object.values(INJECTIONS).join('|')})`
const PLAIN_PROGRAM = compileProgram(`(?i)(?:${PHRASES}|${Object.values(SPOOFS).join('|')})`)

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
  find: text =>
    [
      ...findPlain(text),
      ...findDisguised(text),
      ...findSpaced(text),
      ...findScrambled(text),
      ...findEncoded(text),
    ].toSorted((a, b) => a.start - b.start),
}

function findMatches(program: Program, text: string): Span[] {
  if (!program.matchesAnywhere(text)) return []
  const spans: Span[] = []
  const machine = new Machine(program, (start, end) => spans.push({ start, end }))
  machine.feed(text)
  machine.end()
  return spans
}

const findPlain = (text: string): Span[] => findMatches(PLAIN_PROGRAM, text)

/** Finds phrases after every character is replaced by the one that it looks like. */
const findDisguised = (text: string): Span[] =>
  IS_PLAIN.test(text) ? [] : mapToOriginal(foldText(text), findPlain)

// biome-ignore lint/suspicious/noControlCharactersInRegex: all of ASCII.
const IS_PLAIN = /^[\x00-\x7f]*$/

const findSpaced = (text: string): Span[] =>
  joinSpacedLetters(text).flatMap(run =>
    mapToOriginal(run, letters => findMatches(getJoinedProgram(), letters)),
  )

const mapToOriginal = ({ text, offsets }: FoldedText, find: (text: string) => Span[]): Span[] =>
  find(text).map(({ start, end }) => ({
    start: offsets[start] ?? 0,
    end: (offsets[end - 1] ?? 0) + 1,
  }))

/**
 * Finds words whose first and last letter are right and whose other letters are reordered. A single
 * one is a typing error: it counts only where it completes a phrase, or where there are several.
 */
function findScrambled(text: string): Span[] {
  const slips: Span[] = []
  const corrected = text.replace(/[a-z]{6,12}/gi, (word, start: number) => {
    const original = unscramble(word.toLowerCase())
    if (original !== undefined) slips.push({ start, end: start + word.length })
    return original ?? word
  })
  if (slips.length === 0) return []
  const phrases = findPlain(corrected)
  return phrases.length === 0 && slips.length > 1 ? slips : phrases
}

/** Returns the word that this one is a scrambled form of; undefined for the word itself. */
function unscramble(word: string): string | undefined {
  const original = BY_LETTERS.get(sortLetters(word))
  return original === word ? undefined : original
}

const sortLetters = (word: string): string =>
  `${word[0]}${[...word.slice(1, -1)].toSorted().join('')}${word.at(-1)}`
const BY_LETTERS = new Map(SCRAMBLED.map(word => [sortLetters(word), word]))

/**
 * Finds Base64 and hexadecimal digits, in one piece or in several, that encode one of the tell-tale
 * words.
 */
function findEncoded(text: string): Span[] {
  const found = findEncodedWords(text)
  if (found.length > 0) return found
  const joined = text.replace(/\s+/g, '')
  const hidden = joined.length === text.length ? [] : findEncodedWords(joined)
  return hidden.length === 0
    ? []
    : mapToOriginal({ text: joined, offsets: listNonBlankOffsets(text) }, () => hidden)
}

// Every offset of the first whole group is tried: other digits may precede it.
function findEncodedWords(text: string): Span[] {
  const found: Span[] = []
  for (const { code, digits, perGroup } of CODES)
    for (const { 0: run, index } of text.matchAll(digits))
      for (let offset = 0; offset < perGroup; offset++)
        if (hasEncodedWord(run.slice(offset), code))
          found.push({ start: index, end: index + run.length })
  return found
}

const CODES = [
  { code: 'base64' as const, digits: /[a-z0-9+/]{8,}/gi, perGroup: 4 },
  { code: 'hex' as const, digits: /[0-9a-f]{12,}/gi, perGroup: 2 },
]

function hasEncodedWord(run: string, code: 'base64' | 'hex'): boolean {
  const decoded = Buffer.from(run, code).toString('latin1').toLowerCase()
  return ENCODED.some(word => decoded.includes(word))
}
