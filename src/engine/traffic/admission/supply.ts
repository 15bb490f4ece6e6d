/** How much of what is left a key may have taken: so there is always something for the next one. */
const GREED = 9

/**
 * Something that running calls use up and give back: places, or bytes. A key alone may take nine
 * tenths of it, two keys not quite half of it each, and so on: none may hold more than nine times
 * what is left. A key that held all of it gives back as its calls end, so the shares become equal.
 */
export class Supply {
  readonly #readLimit: () => number
  readonly #reserve: number
  readonly #taken = new Map<string, number>()
  #used = 0

  /** `reserve` is the share that calls leave to those who manage the gateway. */
  constructor(readLimit: () => number, reserve = 0) {
    this.#readLimit = readLimit
    this.#reserve = reserve
  }

  /** How much is in use. */
  get used(): number {
    return this.#used
  }

  /** How much there is. */
  get limit(): number {
    return this.#readLimit()
  }

  /** Takes so much for a key. Returns false, and takes nothing, if that is not its share. */
  take(key: string, amount: number): boolean {
    if (!this.has(key, amount)) return false
    this.add(key, amount)
    return true
  }

  /** Whether a key may take so much. What is larger than the whole supply is taken alone. */
  has(key: string, amount: number): boolean {
    if (this.#used === 0) return true
    const limit = this.#readLimit()
    const left = limit - Math.ceil(limit * this.#reserve) - this.#used - amount
    return left >= 0 && (this.#taken.get(key) ?? 0) + amount <= Math.max(GREED * left, 1)
  }

  /** Takes so much of the whole supply, its reserve included. Returns false if it is not there. */
  takeReserved(key: string, amount: number): boolean {
    if (this.#used > 0 && this.#used + amount > this.#readLimit()) return false
    this.add(key, amount)
    return true
  }

  /** Takes so much, whatever is left: it is there already. */
  add(key: string, amount: number): void {
    this.#used += amount
    this.#taken.set(key, (this.#taken.get(key) ?? 0) + amount)
  }

  /** Gives back what was taken. */
  giveBack(key: string, amount: number): void {
    this.#used -= amount
    const rest = (this.#taken.get(key) ?? 0) - amount
    if (rest > 0) this.#taken.set(key, rest)
    else this.#taken.delete(key)
  }
}
