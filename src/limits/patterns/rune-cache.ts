const MOST_KEPT = 4_096

/** Says that it is not kept what a character does in a state: no state has this number. */
export const NOT_KEPT = -0x8000

/** A small cache of what characters beyond ASCII do: a number, by state and character. */
export class RuneCache {
  #names = new Int32Array(0)
  #values = new Int16Array(0)

  find(state: number, rune: number): number {
    const place = getPlace(state, rune)
    return this.#names[place] === nameEntry(state, rune)
      ? (this.#values[place] as number)
      : NOT_KEPT
  }

  keep(state: number, rune: number, value: number): void {
    if (this.#names.length === 0) {
      this.#names = new Int32Array(MOST_KEPT)
      this.#values = new Int16Array(MOST_KEPT)
    }
    const place = getPlace(state, rune)
    this.#names[place] = nameEntry(state, rune)
    this.#values[place] = value
  }

  clear(): void {
    this.#names.fill(0)
  }
}

const nameEntry = (state: number, rune: number): number => state * 0x110000 + rune

const getPlace = (state: number, rune: number): number =>
  (Math.imul(state, 0x9e3b) ^ rune) & (MOST_KEPT - 1)
