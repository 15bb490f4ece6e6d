import type { Span } from '../patterns/machine.ts'
import type { Builtin } from './builtin.ts'
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
  blocked: 'Blocked PII detected: PERSON',
  patterns: [
    { pattern: `${WORD}(?: (?:${PARTICLE}){0,2}${WORD}){1,4}`, spans: namesIn },
    { pattern: `${INTRODUCTION}${WORD}(?: ${WORD}){0,2}`, spans: introduced },
  ],
}

interface Word {
  text: string
  start: number
  end: number
}

const wordsIn = (found: string): Word[] =>
  [...found.matchAll(/\S+/g)].map(({ 0: text, index }) => ({
    text,
    start: index,
    end: index + text.length,
  }))

/**
 * Finds every name among these words: it begins with a title or a given name, and continues as long
 * as capitalised words follow that can belong to it.
 */
function namesIn(found: string): Span[] {
  const words = wordsIn(found)
  const names: Span[] = []
  for (let i = 0; i < words.length; ) {
    const last = nameFrom(words, i)
    if (last !== undefined) names.push(spanOf(words, i + (isTitle(words[i]) ? 1 : 0), last))
    i = (last ?? i) + 1
  }
  return names
}

/** Finds the index of the last word of the name that begins at `first`. */
function nameFrom(words: Word[], first: number): number | undefined {
  const titled = isTitle(words[first])
  if (!titled && !isGiven(words[first])) return undefined
  let last = first
  for (let i = first + 1; i < words.length && i <= first + MOST_WORDS && goesOn(words, i); i++) {
    if (isFamilys(words[i])) last = i
    if (words[i]?.text.endsWith('.') && !isInitial(words[i])) break
  }
  return last > first ? last : undefined
}

const MOST_WORDS = 5

const goesOn = (words: Word[], i: number): boolean =>
  isFamilys(words[i]) || isInitial(words[i]) || (isParticle(words[i]) && i < words.length - 1)

const bare = (word: Word | undefined): string => (word?.text ?? '').replace(/\.$/, '').toLowerCase()
const isTitle = (word: Word | undefined): boolean => TITLES.has(bare(word))
const isGiven = (word: Word | undefined): boolean =>
  !word?.text.endsWith('.') &&
  bare(word)
    .split('-')
    .every(part => GIVEN_NAMES.has(withoutAccents(part)))
const isInitial = (word: Word | undefined): boolean => /^\p{Lu}\.?$/u.test(word?.text ?? '')
const isParticle = (word: Word | undefined): boolean => /^\p{Ll}/u.test(word?.text ?? '')
const isFamilys = (word: Word | undefined): boolean =>
  !isParticle(word) && bare(word).length > 1 && !isTitle(word) && !NO_NAMES.has(bare(word))

const withoutAccents = (text: string) => text.normalize('NFD').replace(/\p{M}/gu, '')

/** Returns the span of these words, without the full stop of a sentence. */
function spanOf(words: Word[], first: number, last: number): Span {
  const end = words[last]
  return {
    start: words[first]?.start ?? 0,
    end: (end?.end ?? 0) - (end?.text.endsWith('.') && end.text.length > 2 ? 1 : 0),
  }
}

function introduced(found: string): Span[] {
  const words = wordsIn(found)
  const first = words.findIndex(
    (word, i) => i >= 2 && /^\p{Lu}/u.test(word.text) && !/^(?:Name|Nom)$/.test(word.text),
  )
  if (first === -1 || NO_NAMES.has(bare(words[first]))) return []
  const stop = words.findIndex(
    (word, i) => i >= first && word.text.endsWith('.') && word.text.length > 2,
  )
  return [spanOf(words, first, stop === -1 ? words.length - 1 : stop)]
}
