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

interface Word {
  text: string
  start: number
  end: number
}

const splitWords = (text: string): Word[] =>
  [...text.matchAll(/\S+/g)].map(({ 0: text, index }) => ({
    text,
    start: index,
    end: index + text.length,
  }))

/**
 * Finds every name among these words: it begins with a title or a given name, and continues as long
 * as capitalised words follow that can belong to it.
 */
function findNames(text: string): Span[] {
  const words = splitWords(text)
  const names: Span[] = []
  for (let i = 0; i < words.length; ) {
    const last = findNameEnd(words, i)
    if (last !== undefined) names.push(toSpan(words, i + (isTitle(words[i]) ? 1 : 0), last))
    i = (last ?? i) + 1
  }
  return names
}

/** Finds the index of the last word of the name that begins at `first`. */
function findNameEnd(words: Word[], first: number): number | undefined {
  const hasTitle = isTitle(words[first])
  if (!hasTitle && !isGivenName(words[first])) return undefined
  let last = first
  for (
    let i = first + 1;
    i < words.length && i <= first + MAX_WORDS && canContinueName(words, i);
    i++
  ) {
    if (isFamilyName(words[i])) last = i
    if (words[i]?.text.endsWith('.') && !isInitial(words[i])) break
  }
  return last > first ? last : undefined
}

const MAX_WORDS = 5

const canContinueName = (words: Word[], i: number): boolean =>
  isFamilyName(words[i]) || isInitial(words[i]) || (isParticle(words[i]) && i < words.length - 1)

const normalizeWord = (word: Word | undefined): string =>
  (word?.text ?? '').replace(/\.$/, '').toLowerCase()
const isTitle = (word: Word | undefined): boolean => TITLES.has(normalizeWord(word))
const isGivenName = (word: Word | undefined): boolean =>
  !word?.text.endsWith('.') &&
  normalizeWord(word)
    .split('-')
    .every(part => GIVEN_NAMES.has(removeAccents(part)))
const isInitial = (word: Word | undefined): boolean => /^\p{Lu}\.?$/u.test(word?.text ?? '')
const isParticle = (word: Word | undefined): boolean => /^\p{Ll}/u.test(word?.text ?? '')
const isFamilyName = (word: Word | undefined): boolean =>
  !isParticle(word) &&
  normalizeWord(word).length > 1 &&
  !isTitle(word) &&
  !NO_NAMES.has(normalizeWord(word))

const removeAccents = (text: string) => text.normalize('NFD').replace(/\p{M}/gu, '')

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
  if (first === -1 || NO_NAMES.has(normalizeWord(words[first]))) return []
  const stop = words.findIndex(
    (word, i) => i >= first && word.text.endsWith('.') && word.text.length > 2,
  )
  return [toSpan(words, first, stop === -1 ? words.length - 1 : stop)]
}
