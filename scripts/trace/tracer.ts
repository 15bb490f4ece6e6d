import { readFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import type { BunPlugin } from 'bun'
import { instrument } from './instrument.ts'

/** Where a plan is made. */
export interface Planning {
  /** The file, from the root. */
  file: string
  /** Its functions that plan. */
  functions: readonly string[]
}

/** A function that was entered. */
export interface Entry {
  /** Its file, from the root. */
  file: string
  name: string
  /** Whether it was while one that plans ran. */
  planning: boolean
}

/** Sees every function of the files under src/ that is entered while it records. */
export class Tracer {
  readonly #root: string
  readonly #planning: Planning
  readonly #files: string[] = []
  readonly #known: string[] = []
  #entries: Entry[] = []
  #recording = false
  #depth = 0

  constructor(root: string, planning: Planning) {
    this.#root = root
    this.#planning = planning
    const enter = (file: number, name: string) => this.#enter(file, name)
    const span = (file: number, name: string, run: () => unknown) => this.#span(file, name, run)
    Object.assign(globalThis, { __enter: enter, __span: span })
  }

  /** Has the files watched that are loaded from here on. */
  get plugin(): BunPlugin {
    const filter = new RegExp(`^${RegExp.escape(join(this.#root, 'src'))}/.*\\.ts$`)
    return {
      name: 'trace',
      setup: build => void build.onLoad({ filter }, ({ path }) => this.#load(path)),
    }
  }

  /** Throws where a function that plans was not loaded by now. */
  mustKnowPlanning(): void {
    const { file, functions } = this.#planning
    const missing = functions.filter(name => !this.#known.includes(name))
    if (missing.length > 0) throw moved(`${file} has no function ${missing.join(', ')}`)
  }

  /** Gives back what was entered until the run has ended. */
  async record(run: () => Promise<unknown>): Promise<Entry[]> {
    this.#entries = []
    this.#recording = true
    await run().finally(() => (this.#recording = false))
    return this.#entries
  }

  /** Does what is ours and not the call's: what it enters before it first waits is not recorded. */
  muted<T>(run: () => T): T {
    const was = this.#recording
    this.#recording = false
    try {
      return run()
    } finally {
      this.#recording = was
    }
  }

  /** The text of a file, in which every function tells this tracer that it was entered. */
  watch(file: string, source: string): string {
    const spans = file === this.#planning.file ? this.#planning.functions : []
    const made = instrument(source, { file: this.#files.push(file) - 1, spans })
    this.#known.push(...made.spans)
    return made.text
  }

  #load(path: string) {
    const source = transpiler.transformSync(readFileSync(path, 'utf8'))
    const contents = this.watch(relative(this.#root, path), source)
    return { contents, loader: 'js' } as const
  }

  #enter(index: number, name: string): void {
    const file = this.#files[index]
    if (!this.#recording || file === undefined) return
    this.#entries.push({ file, name, planning: this.#depth > 0 })
  }

  // A promise is planning until it is settled; everything else until it has returned.
  #span(index: number, name: string, run: () => unknown): unknown {
    this.#depth++
    this.#enter(index, name)
    const end = () => void this.#depth--
    try {
      const made = run()
      if (made instanceof Promise) return made.finally(end)
      end()
      return made
    } catch (error) {
      end()
      throw error
    }
  }
}

const transpiler = new Bun.Transpiler({ loader: 'ts', target: 'bun' })

/** That planning is not where it was said to be. */
export const moved = (what: string): Error =>
  new Error(`${what}. Was planning moved or renamed? scripts/trace.ts says where it is: PLANNING`)
