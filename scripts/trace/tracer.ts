import { readFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import type { BunPlugin } from 'bun'
import { instrument } from './instrument.ts'

/** The code that makes a plan. */
export interface Planning {
  /** The file, from the root. */
  file: string
  /** Its planning functions. */
  functions: readonly string[]
}

/**
 * The file and the functions that make a plan. They must be changed here when they are moved or
 * renamed.
 */
export const PLANNING: Planning = {
  file: 'src/engine/plan.ts',
  functions: ['planStep'],
}

/** A function that was entered. */
export interface Entry {
  /** Its file, from the root. */
  file: string
  name: string
  /** Whether a planning function was running. */
  planning: boolean
}

/** Records every function of the files under src/ that is entered while it is recording. */
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

  /** Instruments the files that are loaded from here on. */
  get plugin(): BunPlugin {
    const filter = new RegExp(`^${RegExp.escape(join(this.#root, 'src'))}/.*\\.ts$`)
    return {
      name: 'trace',
      setup: build => void build.onLoad({ filter }, ({ path }) => this.#load(path)),
    }
  }

  /** Throws if a planning function has not been loaded by now. */
  requirePlanning(): void {
    const { file, functions } = this.#planning
    const missing = functions.filter(name => !this.#known.includes(name))
    if (missing.length > 0) throw planningMoved(`${file} has no function ${missing.join(', ')}`)
  }

  /** Returns what was entered until the run ended. */
  async record(run: () => Promise<unknown>): Promise<Entry[]> {
    this.#entries = []
    this.#recording = true
    await run().finally(() => (this.#recording = false))
    return this.#entries
  }

  /** Runs work of the script itself. What it enters before it first waits is not recorded. */
  mute<T>(run: () => T): T {
    const was = this.#recording
    this.#recording = false
    try {
      return run()
    } finally {
      this.#recording = was
    }
  }

  /** Returns the text of a file in which every function reports to this tracer. */
  instrumentFile(file: string, source: string): string {
    const spans = file === this.#planning.file ? this.#planning.functions : []
    const made = instrument(source, { file: this.#files.push(file) - 1, spans })
    this.#known.push(...made.spans)
    return made.text
  }

  #load(path: string) {
    const source = transpiler.transformSync(readFileSync(path, 'utf8'))
    const contents = this.instrumentFile(relative(this.#root, path), source)
    return { contents, loader: 'js' } as const
  }

  #enter(index: number, name: string): void {
    const file = this.#files[index]
    if (!this.#recording || file === undefined) return
    this.#entries.push({ file, name, planning: this.#depth > 0 })
  }

  // A promise counts as planning until it settles, anything else until it returns.
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

/** The error for planning functions that are not where `PLANNING` says. */
export const planningMoved = (what: string): Error =>
  new Error(
    `${what}. Was planning moved or renamed? scripts/trace/tracer.ts says where it is: PLANNING`,
  )
