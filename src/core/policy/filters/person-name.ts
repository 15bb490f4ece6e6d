import type { Span } from '../patterns/machine.ts'
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
      // The blank after the first word: most blanks are none, so what precedes is read last.
      anchor: / (?=[A-Z\x80-\uffffvdlzbaet])(?<=[A-Z\x80-\uffff][^ ]{0,200} )/g,
      before: toAlphabet(/[A-Za-z'.-]/, true),
    },
    {
      pattern: `${INTRODUCTION}${WORD}(?: ${WORD}){0,2}`,
      findSpans: findIntroducedName,
      // A point stands for what has other forms: s, ß.
      anchor: /(?:name i.t?|am called|call me|ich hei.e|appelle|nom e.t|me llamo|mi chiamo) /gi,
    },
  ],
}

/** A word, and what it may be within a name. */
interface Word {
  text: string
  start: number
  end: number
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
  for (let start = 0; start < text.length; ) {
    const space = text.indexOf(' ', start)
    const end = space === -1 ? text.length : space
    const word = text.slice(start, end)
    words.push({ text: word, start, end, kind: getKind(word) })
    start = end + 1
  }
  return words
}

/** Words that came before. They are forgotten when there are too many. */
const kinds = new Map<string, WordKind>()
const MOST_KINDS = 4_096
const LONGEST_KEPT = 32

function getKind(word: string): WordKind {
  const known = kinds.get(word)
  if (known) return known
  const kind = computeKind(word)
  if (word.length > LONGEST_KEPT) return kind
  if (kinds.size === MOST_KINDS) kinds.clear()
  kinds.set(word, kind)
  return kind
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
  const end = words[last]
  return {
    start: words[first]?.start ?? 0,
    end: (end?.end ?? 0) - (end?.text.endsWith('.') && end.text.length > 2 ? 1 : 0),
  }
}

function findIntroducedName(text: string): Span[] {
  const words = splitWords(text)
  const first = words.findIndex(
    (word, i) => i >= 2 && /^\p{Lu}/u.test(word.text) && !/^(?:Name|Nom)$/.test(word.text),
  )
  if (first === -1 || isNoName(words[first]?.text ?? '')) return []
  const stop = words.findIndex(
    (word, i) => i >= first && word.text.endsWith('.') && word.text.length > 2,
  )
  return [toSpan(words, first, stop === -1 ? words.length - 1 : stop)]
}

const isNoName = (word: string): boolean => NO_NAMES.has(word.replace(/\.$/, '').toLowerCase())
