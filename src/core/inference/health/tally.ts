/** How many went well and how many did not. */
export interface Count {
  ok: number
  failed: number
}

/** Counts what went well and what did not over the last while, in slices: what is older is forgotten slice by slice. */
export class Tally {
  readonly #width: number
  readonly #slices: Count[]
  /** Which slice, counted from the beginning of time, was the last to be looked at. */
  #last = 0

  /** `span` is in milliseconds. */
  constructor(span: number, slices: number) {
    this.#width = span / slices
    this.#slices = Array.from({ length: slices }, () => ({ ok: 0, failed: 0 }))
  }

  /** Counts one. Times are steady milliseconds. */
  add(now: number, ok: boolean): void {
    const slice = this.#sliceAt(now)
    if (ok) slice.ok += 1
    else slice.failed += 1
  }

  sum(now: number): Count {
    this.#sliceAt(now)
    return this.#slices.reduce((sum, { ok, failed }) => ({ ok: sum.ok + ok, failed: sum.failed + failed }))
  }

  /** Forgets everything. */
  clear(): void {
    for (const slice of this.#slices) this.#empty(slice)
  }

  #sliceAt(now: number): Count {
    const at = Math.floor(now / this.#width)
    const passed = Math.min(at - this.#last, this.#slices.length)
    for (let i = 0; i < passed; i++) this.#empty(this.#at(at - i))
    this.#last = Math.max(this.#last, at)
    return this.#at(at)
  }

  #at(slice: number): Count {
    return this.#slices[slice % this.#slices.length] ?? { ok: 0, failed: 0 }
  }

  #empty(slice: Count): void {
    slice.ok = 0
    slice.failed = 0
  }
}
