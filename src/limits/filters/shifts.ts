import type { Span } from '../patterns/machine.ts'

/** Where a normal form is longer or shorter than the original. */
export class Shifts {
  /** Each takes four numbers: offset and length in the original, offset and length in the form. */
  #places: number[] = []

  add(original: number, length: number, normal: number, normalLength: number): void {
    this.#places.push(original, length, normal, normalLength)
  }

  toOriginal({ start, end }: Span): Span {
    return { start: this.findOrigin(start), end: this.#mapEnd(end) }
  }

  findOrigin(offset: number): number {
    const { original, length, normal, normalLength } = this.#findPlace(offset)
    const isInside = offset < normal + normalLength
    return isInside ? original : original + length + offset - normal - normalLength
  }

  /** Forgets the places before this offset, but for the last, from which others are counted. */
  forget(offset: number): void {
    const at = this.#findIndex(offset)
    if (at > MOST_FORGOTTEN) this.#places = this.#places.slice(4 * (at - 1))
  }

  // The end of a match that ends within a cluster includes all of it, and what is not seen behind.
  #mapEnd(offset: number): number {
    const last = this.#findIndex(offset)
    const isBehind = this.#places[4 * last - 2] === offset && this.#places[4 * last - 1] !== 0
    const { original, length, normal, normalLength } = this.#readPlace(isBehind ? last - 1 : last)
    return original + length + Math.max(0, offset - normal - normalLength)
  }

  /** Finds the last place at or before an offset of the normal form. */
  #findPlace(offset: number) {
    return this.#readPlace(this.#findIndex(offset))
  }

  /** Returns one place of so many; none is the beginning of the text. */
  #readPlace(count: number) {
    const at = 4 * count - 4
    const places = this.#places
    return {
      original: places[at] ?? 0,
      length: places[at + 1] ?? 0,
      normal: places[at + 2] ?? 0,
      normalLength: places[at + 3] ?? 0,
    }
  }

  /** Counts the places at or before an offset of the normal form. */
  #findIndex(offset: number): number {
    let low = 0
    let high = this.#places.length / 4
    while (low < high) {
      const middle = (low + high) >>> 1
      if ((this.#places[4 * middle + 2] ?? 0) <= offset) low = middle + 1
      else high = middle
    }
    return low
  }
}

/** Places are forgotten when there are this many: to forget each by itself would take long. */
const MOST_FORGOTTEN = 1_024
