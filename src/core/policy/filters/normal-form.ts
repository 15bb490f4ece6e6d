import type { Span } from '../patterns/machine.ts'

/** A part of a text in its normal form, and where it comes from. */
export interface NormalPart {
  text: string
  /** Returns the span of the original text that a span of the normal form stands for. */
  toOriginal(span: Span): Span
  /** The part of the original text in which a match must begin to belong to this part. */
  owned: Span
}

/** Parts are read on, and begin earlier, so that what crosses their borders is found in one. */
const PART = 16_384
const READ_ON = 4_096
const READ_BACK = 256

/**
 * Yields the parts of a text that look different in their normal form: NFKC (so full-width letters,
 * ligatures and the like become plain ones), and without what is not seen: zero-width characters,
 * soft hyphens, variation selectors, NUL. Memory does not grow with the text.
 */
export function* readNormalParts(text: string): Generator<NormalPart | undefined> {
  for (let from = 0; from < text.length; from += PART) {
    const start = skipLowSurrogate(text, Math.max(0, from - READ_BACK))
    const part = normalizePart(text, start, Math.min(text.length, from + PART + READ_ON))
    if (part) yield { ...part, owned: { start: from, end: from + PART } }
    else yield undefined
  }
}

// Half a character is not cut off: it would look like another one.
const skipLowSurrogate = (text: string, offset: number): number =>
  (text.charCodeAt(offset) & 0xfc00) === 0xdc00 ? offset + 1 : offset

function normalizePart(text: string, start: number, end: number): Omit<NormalPart, 'owned'> | null {
  const original = text.slice(start, end)
  if (IS_PLAIN.test(original) || isNormal(original)) return null
  const shifts = new Shifts(start)
  let normal = ''
  let at = 0
  for (const { 0: run, index } of original.matchAll(RUN)) {
    normal += original.slice(at, index)
    normal += isNormal(run) ? run : normalizeRun(run, index, normal.length, shifts)
    at = index + run.length
  }
  normal += original.slice(at)
  return { text: normal, toOriginal: span => shifts.toOriginal(span) }
}

function normalizeRun(run: string, offset: number, normalOffset: number, shifts: Shifts): string {
  let normal = ''
  for (const { 0: cluster, index } of run.matchAll(CLUSTER)) {
    const replacement = cluster.replace(UNSEEN, '').normalize('NFKC')
    if (replacement.length !== cluster.length)
      shifts.add(offset + index, cluster.length, normalOffset + normal.length, replacement.length)
    normal += replacement
  }
  return normal
}

// Sorting marks takes quadratic time in their number, so many of them are left to the clusters.
const isNormal = (text: string): boolean =>
  !MANY_MARKS.test(text) && text.search(UNSEEN) === -1 && text.normalize('NFKC') === text

// biome-ignore lint/suspicious/noControlCharactersInRegex: all of ASCII but NUL.
const IS_PLAIN = /^[\x01-\x7f]*$/
/** What is not ASCII, with the letter before it, which marks may change. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: all of ASCII but NUL.
const RUN = /[\x01-\x7f]?[^\x01-\x7f]+/g
const UNSEEN = /[\p{DI}\p{Cf}\0]/gu
const MANY_MARKS = /\p{M}{32}/u
/** A syllable or another character, with the marks that change it and what is not seen. */
const CLUSTER =
  /(?:[\u1100-\u115e][\u1161-\u11a7][\u11a8-\u11ff]?|[\s\S])[\p{M}\p{DI}\p{Cf}\0]{0,32}/gu

/** Where a normal form is longer or shorter than the original. */
class Shifts {
  readonly #start: number
  /** Each takes four numbers: offset and length in the original, offset and length in the form. */
  readonly #places: number[] = []

  constructor(start: number) {
    this.#start = start
  }

  add(original: number, length: number, normal: number, normalLength: number): void {
    this.#places.push(original, length, normal, normalLength)
  }

  toOriginal({ start, end }: Span): Span {
    return { start: this.#mapStart(start), end: this.#mapEnd(end) }
  }

  #mapStart(offset: number): number {
    const { original, length, normal, normalLength } = this.#findPlace(offset)
    const isInside = offset < normal + normalLength
    return this.#start + (isInside ? original : original + length + offset - normal - normalLength)
  }

  // The end of a match that ends within a cluster includes all of it.
  #mapEnd(offset: number): number {
    const { original, length, normal, normalLength } = this.#findPlace(offset - 1)
    return this.#start + original + length + Math.max(0, offset - normal - normalLength)
  }

  /** Finds the last place at or before an offset of the normal form. */
  #findPlace(offset: number) {
    const places = this.#places
    let [low, high] = [0, places.length / 4]
    while (low < high) {
      const middle = (low + high) >>> 1
      if ((places[4 * middle + 2] ?? 0) <= offset) low = middle + 1
      else high = middle
    }
    const [original = 0, length = 0, normal = 0, normalLength = 0] =
      low === 0 ? [] : places.slice(4 * low - 4, 4 * low)
    return { original, length, normal, normalLength }
  }
}
