import type { Span } from '../patterns/machine.ts'
import { seekExpression } from './anchors.ts'
import { type Builtin, toAlphabet } from './builtin.ts'
import { LABELS } from './labels.data.ts'

/**
 * Given names common in the United States, Britain, Germany, France, Spain and Italy, few of which
 * are words or months. Lower case.
 */
const GIVEN_NAMES = new Set(
  `aaron abigail adam adrian ahmed aisha alan albert alejandro alessandro alex alexander alexandra
alfred ali alice alicia allison amanda amelia amy ana andre andrea andreas andrew angela anita
anja ann anna anne annette anthony antoine antonio arthur astrid barbara beatrice ben benjamin
bernd bernard bertrand beth bettina bianca bob brandon brenda brian bruno camille carl carla
carlos carmen carol caroline catherine cathy celine charles charlotte chiara chloe chris christian
christina christine christophe christopher claire clara claudia claus colin craig cristina cynthia
daniel daniela david deborah denis denise dennis diana diego dieter dirk dmitri dominik donald
donna dorothy doris douglas edward eleanor elena eli elias elisabeth elizabeth ella elsa emily
emma emmanuel enrique eric erik ernst esther eva evelyn fabian fatima felix fernando florian
francesca francesco francis francisco frank franz frederic friedrich fritz gabriel gabriele gary
george georg gerald gerhard gianluca giovanni giulia giuseppe gisela gloria greg gregory guillaume
gunter gustav hannah hans harold harry heather heidi heike heinrich helen helena helga helmut
henri henry herbert hiroshi holger horst howard hugo ian ibrahim ines ingrid irene isabel isabella
ivan jack jacob jacques jakob james jan jana jane janet janice jason javier jean jeff jeffrey
jennifer jens jeremy jerry jessica jim joan joachim joe joel johan johann johannes john jonas
jonathan jorge jose joseph josh joshua joyce juan judith judy julia julian julie jurgen justin
karen karin karl kate katharina katherine kathleen kathy katja katrin keith kelly ken kenneth
kevin kim klaus kristin kurt kyle lars laura lauren laurent lea lena leo leon leonard leonardo
linda lisa lorenzo louis louise luca lucas lucia lucy luis luisa lukas luke lutz lydia manfred
manuel marcel marco marcus margaret maria marianne marie marina mario mark markus marta martha
martin martina mary matteo matthew matthias maurice max maximilian megan melanie melissa michael
michel michelle miguel mike miriam mohamed mohammed monica monika moritz nadia nancy natalie
natasha nathan nicholas nicolas nicole nikolai nils nina noah nora norbert olaf oliver olivia
olivier omar oscar otto pablo pamela paolo pascal patricia patrick paul paula pauline pedro peter
petra philip philipp philippe pierre rachel rafael rainer ralf ralph ramon raymond rebecca
reinhard renate rene ricardo richard rita robert roberto roger roland ronald rosa rudolf russell
ruth ryan sabine sabrina samantha samuel sandra sara sarah scott sean sebastian sergio sharon
shirley silvia simon simone sofia sophia sophie stefan stefanie stella stephan stephanie stephen
steve steven susan susanne sven sylvia tamara tania tanja teresa theo theodor theresa thierry
thomas tim timothy tina tobias todd tom torsten tyler ulrich ulrike ursula ute uwe valentina
valerie vanessa vera veronica veronika victor victoria vincent virginia vladimir walter wendy
werner wilhelm william wolfgang yasmin yusuf yves yvonne zoe`.split(/\s+/),
)

/** Titles before a name, lower case and without their full stop. */
const TITLES = new Set(
  `mr mrs ms miss mx dr prof professor sir madam herr frau monsieur madame mme mlle m sr sra señor
señora signor signora`.split(/\s+/),
)

/** Capitalised words that follow a given name or a title and are no family names. */
const NO_NAMES = new Set(
  `january february march april may june july august september october november december monday
tuesday wednesday thursday friday saturday sunday street avenue road university college school
hospital church airport station bridge park river lake mountain island city county state award
prize museum foundation institute company corporation inc ltd gmbh and or the of for in on at to
from with is was has had will would could should said says asked told thinks inside outside
president minister chairman who bank code api`.split(/\s+/),
)

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
