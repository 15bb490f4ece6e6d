import { Machine, type Span } from '../patterns/machine.ts'
import { type Program, programOf } from '../patterns/program.ts'
import type { Builtin } from './builtin.ts'
import { LABELS } from './labels.data.ts'
import {
  type Folded,
  folded,
  lettersJoined,
  placesWithoutBlanks,
} from './regex-prompt-injection/folded.ts'
import { ENCODED, INJECTIONS, SCRAMBLED, SPOOFS } from './regex-prompt-injection.data.ts'

const PHRASES = `\\b(?:${Object.values(INJECTIONS).join('|')})`
const AS_THEY_STAND = programOf(`(?i)(?:${PHRASES}|${Object.values(SPOOFS).join('|')})`)

let runTogether: Program | undefined

/** Returns the phrases without blanks as a program, compiled when spaced letters first occur. */
function runTogetherProgram(): Program {
  const phrases = Object.values(INJECTIONS)
    .join('|')
    .replaceAll('\\s+', '\\s*')
    .replaceAll('\\b', '')
  runTogether ??= programOf(`(?i)(?:${phrases})`)
  return runTogether
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
  blocked: 'Request blocked: prompt injection patterns detected',
  patterns: [],
  find: text =>
    [
      ...plain(text),
      ...disguised(text),
      ...spaced(text),
      ...scrambled(text),
      ...encoded(text),
    ].toSorted((a, b) => a.start - b.start),
}

function spansOf(program: Program, text: string): Span[] {
  if (!program.isIn(text)) return []
  const spans: Span[] = []
  const machine = new Machine(program, (start, end) => spans.push({ start, end }))
  machine.feed(text)
  machine.end()
  return spans
}

const plain = (text: string): Span[] => spansOf(AS_THEY_STAND, text)

/** Finds phrases after every character is replaced by the one that it looks like. */
const disguised = (text: string): Span[] =>
  IS_PLAIN.test(text) ? [] : inOriginal(folded(text), plain)

// biome-ignore lint/suspicious/noControlCharactersInRegex: all of ASCII.
const IS_PLAIN = /^[\x00-\x7f]*$/

const spaced = (text: string): Span[] =>
  lettersJoined(text).flatMap(run =>
    inOriginal(run, joined => spansOf(runTogetherProgram(), joined)),
  )

const inOriginal = ({ text, at }: Folded, find: (text: string) => Span[]): Span[] =>
  find(text).map(({ start, end }) => ({ start: at[start] ?? 0, end: (at[end - 1] ?? 0) + 1 }))

/**
 * Finds words whose first and last letter are right and whose other letters are reordered. A single
 * one is a typing error: it counts only where it completes a phrase, or where there are several.
 */
function scrambled(text: string): Span[] {
  const slips: Span[] = []
  const mended = text.replace(/[a-z]{6,12}/gi, (word, start: number) => {
    const meant = unscrambled(word.toLowerCase())
    if (meant !== undefined) slips.push({ start, end: start + word.length })
    return meant ?? word
  })
  if (slips.length === 0) return []
  const phrases = plain(mended)
  return phrases.length === 0 && slips.length > 1 ? slips : phrases
}

/** Returns the word that this one is a scrambled form of; undefined for the word itself. */
function unscrambled(word: string): string | undefined {
  const meant = BY_LETTERS.get(lettersOf(word))
  return meant === word ? undefined : meant
}

const lettersOf = (word: string): string =>
  `${word[0]}${[...word.slice(1, -1)].toSorted().join('')}${word.at(-1)}`
const BY_LETTERS = new Map(SCRAMBLED.map(word => [lettersOf(word), word]))

/**
 * Finds Base64 and hexadecimal digits, in one piece or in several, that encode one of the tell-tale
 * words.
 */
function encoded(text: string): Span[] {
  const found = telling(text)
  if (found.length > 0) return found
  const joined = text.replace(/\s+/g, '')
  const hidden = joined.length === text.length ? [] : telling(joined)
  return hidden.length === 0
    ? []
    : inOriginal({ text: joined, at: placesWithoutBlanks(text) }, () => hidden)
}

// Every offset of the first whole group is tried: other digits may precede it.
function telling(text: string): Span[] {
  const found: Span[] = []
  for (const { code, digits, perGroup } of CODES)
    for (const { 0: run, index } of text.matchAll(digits))
      for (let offset = 0; offset < perGroup; offset++)
        if (tells(run.slice(offset), code)) found.push({ start: index, end: index + run.length })
  return found
}

const CODES = [
  { code: 'base64' as const, digits: /[a-z0-9+/]{8,}/gi, perGroup: 4 },
  { code: 'hex' as const, digits: /[0-9a-f]{12,}/gi, perGroup: 2 },
]

function tells(run: string, code: 'base64' | 'hex'): boolean {
  const decoded = Buffer.from(run, code).toString('latin1').toLowerCase()
  return ENCODED.some(word => decoded.includes(word))
}
