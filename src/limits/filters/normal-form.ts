import type { Span } from '../patterns/machine.ts'
import { Shifts } from './shifts.ts'

/**
 * The normal form of a text that may come in pieces: NFKC (so full-width letters, ligatures and the
 * like become plain ones), and without what is not seen: zero-width characters, soft hyphens,
 * variation selectors, NUL. It does not depend on how the text is cut, since each character is
 * normalised with the marks that follow it, and waits until the next one has come.
 */
export class NormalForm {
  /** Where the text first differs from its form; null while it does not. */
  firstChange: number | null = null
  /** How far the form of the text is known. */
  knownUntil = 0
  /** The last characters of the text, as far as what follows may still change them. */
  open = ''
  #length = 0
  readonly #shifts = new Shifts()

  /** Reads more text, and returns what is added to the form. */
  read(text: string, isLast = false): string {
    const unread = this.open + text
    const until = isLast ? unread.length : findHalf(unread)
    let form = ''
    let at = 0
    let next = findUnusual(unread, at, until)
    while (next < until) {
      const start = findClusterStart(unread, next, at)
      const end = findClusterEnd(unread, start)
      if (end >= until && !isLast) return this.#pause(unread, at, start, form)
      form += unread.slice(at, start)
      form += this.#addCluster(unread.slice(start, end), this.knownUntil + start, form.length)
      at = end
      next = findUnusual(unread, at, until)
    }
    const end = isLast ? until : findOpen(unread, at, until)
    return this.#pause(unread, at, end, form)
  }

  /** Returns the span of the text that a span of its form stands for. */
  toOriginal(span: Span): Span {
    return this.#shifts.toOriginal(span)
  }

  /** Returns where the character at an offset of the form begins in the text. */
  findOrigin(offset: number): number {
    return this.#shifts.findOrigin(offset)
  }

  /** Forgets where the form before this offset comes from. */
  forget(offset: number): void {
    this.#shifts.forget(offset)
  }

  #addCluster(cluster: string, offset: number, formLength: number): string {
    const replacement = normalizeCluster(cluster)
    if (replacement === cluster) return cluster
    this.firstChange ??= offset
    if (replacement.length !== cluster.length)
      this.#shifts.add(offset, cluster.length, this.#length + formLength, replacement.length)
    return replacement
  }

  /** Keeps what is still open, and returns what has been added to the form. */
  #pause(unread: string, at: number, openFrom: number, form: string): string {
    const added = form + unread.slice(at, openFrom)
    this.open = unread.slice(openFrom)
    this.knownUntil += openFrom
    this.#length += added.length
    return added
  }
}

/** What a UTF-16 unit is for a text's normal form. Only the first kind needs no closer look. */
const [UNKNOWN, PLAIN, ATTACHED, SPECIAL] = [0, 1, 2, 3]
const KINDS = new Uint8Array(0x10000)

/**
 * Finds the next unit that may differ in the normal form, or may change the one before it; `to` if
 * there is none before it.
 */
export function findUnusual(text: string, from: number, to: number): number {
  for (let i = from; i < to; i++) {
    const code = text.charCodeAt(i)
    if (KINDS[code] !== PLAIN && readKind(code) !== PLAIN) return i
  }
  return to
}

/**
 * Tells whether all of a text is ASCII that is its own normal form, by the engine's own search:
 * whatever is no ASCII takes more bytes than units.
 */
export const isPlainAscii = (text: string): boolean =>
  Buffer.byteLength(text) === text.length && !UNUSUAL_ASCII.some(unit => text.includes(unit))

function readKind(code: number): number {
  if (KINDS[code] === UNKNOWN) KINDS[code] = computeKind(code)
  return KINDS[code] as number
}

function computeKind(code: number): number {
  const character = String.fromCharCode(code)
  if (isSurrogate(code) || (code >= 0x1100 && code <= 0x115e)) return SPECIAL
  if (IS_ATTACHED.test(character)) return ATTACHED
  return character.normalize('NFKC') === character ? PLAIN : SPECIAL
}

const isSurrogate = (code: number): boolean => (code & 0xf800) === 0xd800

/** What is not seen, marks, and the second and third letters of Hangul syllables. */
const IS_ATTACHED = /[\p{M}\p{DI}\p{Cf}\0\u1161-\u11ff]/u

/** NUL alone. */
const UNUSUAL_ASCII = Array.from({ length: 128 }, (_, code) => code)
  .filter(code => readKind(code) !== PLAIN)
  .map(code => String.fromCharCode(code))

// Digits, blanks and most signs of ASCII stay as they are, whatever mark follows.
const isFixed = (code: number): boolean =>
  code < 0x80 &&
  !((code >= 0x41 && code <= 0x5a) || (code >= 0x61 && code <= 0x7a)) &&
  !(code >= 0x3c && code <= 0x3e)

/** Finds where the cluster of an unusual unit begins: at most one plain character before it. */
const findClusterStart = (text: string, offset: number, from: number): number =>
  offset > from &&
  KINDS[text.charCodeAt(offset)] === ATTACHED &&
  !isFixed(text.charCodeAt(offset - 1))
    ? offset - 1
    : offset

/** Finds where the last character begins if a mark may still follow and change it. */
const findOpen = (text: string, from: number, until: number): number =>
  until > from && !isFixed(text.charCodeAt(until - 1)) ? until - 1 : until

/** Finds where the text ends, without the first half of a character. */
const findHalf = (text: string): number =>
  (text.charCodeAt(text.length - 1) & 0xfc00) === 0xd800 ? text.length - 1 : text.length

function findClusterEnd(text: string, start: number): number {
  CLUSTER.lastIndex = start
  CLUSTER.test(text)
  return CLUSTER.lastIndex
}

/** A syllable or another character, with the marks that change it and what is not seen. */
const CLUSTER =
  /(?:(?:[\u1100-\u115e][\u1161-\u11a7]|[\uac00-\ud7a3])[\u11a8-\u11ff]?|[\s\S])[\p{M}\p{DI}\p{Cf}\0]{0,32}/uy
const UNSEEN = /[\p{DI}\p{Cf}\0]/gu

/** Normalises a cluster. The usual ones are remembered. */
function normalizeCluster(cluster: string): string {
  const known = clusters.get(cluster)
  if (known !== undefined) return known
  const normal = cluster.replace(UNSEEN, '').normalize('NFKC')
  if (cluster.length > LONGEST_REMEMBERED) return normal
  if (clusters.size === MOST_REMEMBERED) clusters.clear()
  clusters.set(cluster, normal)
  return normal
}

const clusters = new Map<string, string>()
const MOST_REMEMBERED = 4_096
const LONGEST_REMEMBERED = 4
