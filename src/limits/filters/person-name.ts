import type { Span } from '../patterns/machine.ts'
import { seekExpression } from './anchors.ts'
import { type Builtin, toAlphabet } from './builtin.ts'
import { LABELS } from './labels.data.ts'
import { GIVEN_NAMES, NO_NAMES, TITLES } from './names.data.ts'

const WORD = "\\p{Lu}(?:['’]\\p{Lu})?[\\p{Ll}\\p{M}]*(?:['’-]?\\p{Lu}?[\\p{Ll}\\p{M}]+)*\\.?"
const PARTICLE = '(?:van|von|de|der|den|du|da|di|del|la|le|zu|zur|bin|al|el|ter|ten) '
const INTRODUCTION =
  "(?i:my name is|i am called|call me|ich heiße|mein name ist|je m['’]appelle" +
  '|mon nom est|me llamo|mi chiamo) '

/**
 * Finds names of people by a rule of thumb, not by a model as the public service does: what follows
 * a title or an introduction, and what follows one of about 450 given names. Names from other parts
 * of the world, given names alone and names in lower case are missed. Things named after people are
 * found too.
 */
export const personName: Builtin = {
  label: LABELS['person-name'],
  name: 'Person name',
  blockedMessage: 'Blocked PII detected: PERSON',
  detectors: [
    {
      pattern: `${WORD}(?: (?:${PARTICLE}){0,2}${WORD}){1,4}`,
      findSpans: findNames,
      anchor: seekBlank,
      before: toAlphabet(/[A-Za-z'.-]/, true),
    },
    {
      pattern: `${INTRODUCTION}${WORD}(?: ${WORD}){0,2}`,
      findSpans: findIntroducedName,
      // A point stands for what has other forms: s, ß.
      anchor: seekExpression(
        /(?:name i.t?|am called|call me|ich hei.e|appelle|nom e.t|me llamo|mi chiamo) /gi,
      ),
    },
  ],
}

/** The longest first word of a name: longer ones are neither titles nor given names. */
const LONGEST_FIRST = 200

/** Finds a blank after a word with a large letter, and before a large letter or a particle. */
function seekBlank(text: string, from: number, to: number): number {
  for (let i = from; i < to && i + 1 < text.length; i++)
    if (
      text.charCodeAt(i) === BLANK &&
      readLetter(text.charCodeAt(i + 1)) !== NO_LETTER &&
      followsLarge(text, i)
    )
      return i
  return -1
}

/** Tells whether the word that ends here has a letter that may be a large one. */
function followsLarge(text: string, end: number): boolean {
  const least = Math.max(0, end - LONGEST_FIRST - 1)
  for (let i = end - 1; i >= least; i--) {
    const code = text.charCodeAt(i)
    if (code === BLANK) return false
    if (isLarge(code)) return true
  }
  return false
}

const BLANK = 0x20
const [UNKNOWN, LARGE, SMALL, NO_LETTER] = [0, 1, 2, 3]
/** What is known of each UTF-16 unit: a large letter, the first of a particle, or neither. */
const LETTERS = new Uint8Array(0x10000)
for (const letter of 'vdlzbaet') LETTERS[letter.charCodeAt(0)] = SMALL

/** Tells whether a unit is a large letter, or half of a character that may be one. */
const isLarge = (code: number): boolean => readLetter(code) === LARGE

function readLetter(code: number): number {
  const known = LETTERS[code] as number
  if (known !== UNKNOWN) return known
  const kind = /^[\p{Lu}\p{Cs}]$/u.test(String.fromCharCode(code)) ? LARGE : NO_LETTER
  LETTERS[code] = kind
  return kind
}

/** A word of a text, and what it may be within a name. */
interface Word extends Span {
  kind: WordKind
}

interface WordKind {
  isTitle: boolean
  isGivenName: boolean
  isFamilyName: boolean
  isInitial: boolean
  isParticle: boolean
  /** Whether a full stop follows it. */
  isLast: boolean
}

/** Splits what a pattern has matched: there is no other blank in it than a space. */
function splitWords(text: string): Word[] {
  const words: Word[] = []
  let hash = 0
  let start = 0
  for (let i = 0; i <= text.length; i++) {
    const code = i < text.length ? text.charCodeAt(i) : BLANK
    if (code !== BLANK) {
      hash = (Math.imul(hash, 31) + code) | 0
      continue
    }
    words.push({ start, end: i, kind: getKind(text, start, i, hash) })
    start = i + 1
    hash = 0
  }
  return words
}

/**
 * Words that came before, each at the place of its hash: to find one there takes no copy of it.
 * Another word of the same place takes it.
 */
const PLACES = 4_096
const knownWords: (string | undefined)[] = new Array(PLACES).fill(undefined)
const knownKinds: (WordKind | undefined)[] = new Array(PLACES).fill(undefined)
const LONGEST_KEPT = 32

function getKind(text: string, start: number, end: number, hash: number): WordKind {
  const place = (hash ^ (hash >>> 12)) & (PLACES - 1)
  const word = knownWords[place]
  if (word !== undefined && containsWord(text, start, end, word))
    return knownKinds[place] as WordKind
  const kind = computeKind(text.slice(start, end))
  if (end - start > LONGEST_KEPT) return kind
  // A part of a text would keep all of it in memory.
  knownWords[place] = Buffer.from(text.slice(start, end), 'utf16le').toString('utf16le')
  knownKinds[place] = kind
  return kind
}

function containsWord(text: string, start: number, end: number, word: string): boolean {
  if (word.length !== end - start) return false
  for (let i = 0; i < word.length; i++)
    if (word.charCodeAt(i) !== text.charCodeAt(start + i)) return false
  return true
}

function computeKind(word: string): WordKind {
  const isLast = word.endsWith('.')
  const name = (isLast ? word.slice(0, -1) : word).toLowerCase()
  const isTitle = TITLES.has(name)
  const isParticle = /^\p{Ll}/u.test(word)
  return {
    isTitle,
    isGivenName: !isLast && isGivenName(name),
    isFamilyName: !isParticle && name.length > 1 && !isTitle && !NO_NAMES.has(name),
    isInitial: word.length <= 3 && /^\p{Lu}\.?$/u.test(word),
    isParticle,
    isLast,
  }
}

/** Tells whether a name in lower case is a given one, or several with hyphens between them. */
function isGivenName(name: string): boolean {
  const plain = IS_ASCII.test(name) ? name : removeAccents(name)
  return plain.includes('-')
    ? plain.split('-').every(part => GIVEN_NAMES.has(part))
    : GIVEN_NAMES.has(plain)
}

const IS_ASCII = /^[\0-\x7f]*$/
const removeAccents = (text: string) => text.normalize('NFD').replace(/\p{M}/gu, '')

/**
 * Finds every name among these words: it begins with a title or a given name, and continues as long
 * as capitalised words follow that can belong to it.
 */
function findNames(text: string): Span[] {
  const words = splitWords(text)
  const names: Span[] = []
  for (let i = 0; i < words.length; ) {
    const last = findNameEnd(words, i)
    if (last !== undefined) names.push(toSpan(words, i + (words[i]?.kind.isTitle ? 1 : 0), last))
    i = (last ?? i) + 1
  }
  return names
}

/** Finds the index of the last word of the name that begins at `first`. */
function findNameEnd(words: Word[], first: number): number | undefined {
  const kind = words[first]?.kind
  if (!kind?.isTitle && !kind?.isGivenName) return undefined
  let last = first
  for (let i = first + 1; i < words.length && i <= first + MAX_WORDS; i++) {
    const { isFamilyName, isInitial, isParticle, isLast } = (words[i] as Word).kind
    if (!isFamilyName && !isInitial && !(isParticle && i < words.length - 1)) break
    if (isFamilyName) last = i
    if (isLast && !isInitial) break
  }
  return last > first ? last : undefined
}

const MAX_WORDS = 5

/** Returns the span of these words, without the full stop of a sentence. */
function toSpan(words: Word[], first: number, last: number): Span {
  const end = words[last] as Word
  return { start: (words[first] as Word).start, end: end.end - (endsSentence(end) ? 1 : 0) }
}

const endsSentence = ({ start, end, kind }: Word): boolean => kind.isLast && end - start > 2

function findIntroducedName(text: string): Span[] {
  const words = splitWords(text)
  const texts = words.map(({ start, end }) => text.slice(start, end))
  const first = texts.findIndex(
    (word, i) => i >= 2 && /^\p{Lu}/u.test(word) && !/^(?:Name|Nom)$/.test(word),
  )
  if (first === -1 || isNoName(texts[first] ?? '')) return []
  const stop = words.findIndex((word, i) => i >= first && endsSentence(word))
  return [toSpan(words, first, stop === -1 ? words.length - 1 : stop)]
}

const isNoName = (word: string): boolean => NO_NAMES.has(word.replace(/\.$/, '').toLowerCase())
