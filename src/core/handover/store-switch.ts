import { unavailable } from '../errors.ts'
import { replaceMethods } from '../store/methods.ts'
import type { Store } from '../store/store.ts'

/** Runs a method of the store in another process. */
export type RunElsewhere = (noun: string, method: string, parameters: unknown[]) => Promise<unknown>

/** What stays with this process: its own connection. */
const OWN = new Set(['owner', 'version', 'close'])

/**
 * Where the methods of a store run: here, as long as this process has the data directory, then in
 * the process that has taken it over. In between they wait.
 */
export class StoreSwitch {
  #gate: { opened: Promise<void>; open(): void } | null = null
  #elsewhere: RunElsewhere | null = null
  #running = 0
  #onIdle: (() => void) | null = null

  /** Puts itself before every method of a store. */
  constructor(store: Store) {
    for (const [noun, part] of Object.entries(store))
      if (!OWN.has(noun)) this.#place(noun, part as object)
  }

  /** Holds back what begins from now on, and waits for what runs. */
  async hold(): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#gate ??= { opened: promise, open: resolve }
    while (this.#running > 0)
      await new Promise<void>(idle => {
        this.#onIdle = idle
      })
  }

  /** Has what is held back, and all that follows, run elsewhere; null: here, as before. */
  release(elsewhere: RunElsewhere | null): void {
    this.#elsewhere = elsewhere
    this.#gate?.open()
    this.#gate = null
  }

  /** Waits while nothing may begin. */
  async pass(): Promise<void> {
    while (this.#gate) await this.#gate.opened
  }

  #place(noun: string, part: object): void {
    replaceMethods(part, (name, method) => (...parameters) => {
      const run = () => method(...parameters)
      return this.#gate || this.#elsewhere
        ? this.#runLater(noun, name, run, parameters)
        : this.#runHere(run)
    })
  }

  async #runLater(
    noun: string,
    method: string,
    here: () => Promise<unknown>,
    parameters: unknown[],
  ): Promise<unknown> {
    await this.pass()
    if (!this.#elsewhere) return this.#runHere(here)
    if (parameters.some(one => typeof one === 'function'))
      throw unavailable('Another server has taken over: ask that one')
    return this.#elsewhere(noun, method, parameters)
  }

  async #runHere(run: () => Promise<unknown>): Promise<unknown> {
    this.#running += 1
    try {
      return await run()
    } finally {
      this.#running -= 1
      if (this.#running === 0) this.#onIdle?.()
    }
  }
}
