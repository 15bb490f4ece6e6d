import { yieldToEventLoop } from './clock.ts'

/** So many values are indexed before others get their turn. */
const AT_ONCE = 4_000

/** Where a mirror gets its values, and what it calls when they change. */
export interface MirrorSource<Value> {
  /** Reads everything from the store. The values replace the old ones in the same step. */
  read(): Promise<Iterable<Value>>
  /** Returns the name of a value, which never changes. */
  getName(value: NoInfer<Value>): string
  /** Called after every change, so that anything derived from the values can be computed again. */
  onChange?(): void
}

/** What a mirror holds its values in: a `Map`, or what can do the same. */
export interface Table<Value> {
  readonly size: number
  get(name: string): Value | undefined
  has(name: string): boolean
  keys(): IteratorObject<string>
  values(): IteratorObject<Value>
  set(name: string, value: Value): unknown
  delete(name: string): unknown
}

/**
 * An in-memory copy of what a store has of one noun, by name, so that no request reads a database.
 * Code that writes to the store writes here too.
 */
export class Mirror<Value> {
  readonly #source: MirrorSource<Value>
  #values: Table<Value> = new Map<string, Value>()
  /** For each reload that is under way, what this process has changed since; undefined if deleted. */
  readonly #changes = new Set<Map<string, Value | undefined>>()

  /** Creates an empty mirror. `reload` fills it. */
  constructor(reflection: MirrorSource<Value>) {
    this.#source = reflection
  }

  /** Opens a mirror and reads what the store has. */
  static async open<Value>(reflection: MirrorSource<Value>): Promise<Mirror<Value>> {
    const mirror = new Mirror(reflection)
    await mirror.reload()
    return mirror
  }

  get size(): number {
    return this.#values.size
  }

  get(name: string): Value | undefined {
    return this.#values.get(name)
  }

  has(name: string): boolean {
    return this.#values.has(name)
  }

  keys(): IteratorObject<string> {
    return this.#values.keys()
  }

  values(): IteratorObject<Value> {
    return this.#values.values()
  }

  /** Lists the values that match. */
  filter(predicate: (value: Value) => boolean): Value[] {
    const matching: Value[] = []
    for (const value of this.#values.values()) if (predicate(value)) matching.push(value)
    return matching
  }

  set(value: Value): void {
    this.#put(this.#source.getName(value), value)
    this.#notify()
  }

  /**
   * Writes a change to the store, then applies it to the current value: another change may have
   * come while the store was writing. Returns undefined when the value was deleted meanwhile.
   */
  async change(
    name: string,
    apply: (current: Value) => Value,
    write: () => Promise<void>,
  ): Promise<Value | undefined> {
    await write()
    const current = this.#values.get(name)
    if (current === undefined) return undefined
    const changed = apply(current)
    this.set(changed)
    return changed
  }

  delete(name: string): void {
    this.#remove(name)
    this.#notify()
  }

  /** Deletes the values that match, and returns them. */
  deleteWhere(predicate: (value: Value) => boolean): Value[] {
    const deleted = this.filter(predicate)
    for (const value of deleted) this.#remove(this.#source.getName(value))
    if (deleted.length > 0) this.#notify()
    return deleted
  }

  /** Replaces all values in one step. */
  replaceAll(values: Iterable<Value>): void {
    if (this.#changes.size > 0) for (const name of [...this.#values.keys()]) this.#remove(name)
    this.#values = new Map()
    for (const value of values) this.#put(this.#source.getName(value), value)
    this.#notify()
  }

  /**
   * Reads everything again to pick up the changes of another process, and replaces the values in one
   * step. Changes that this process makes meanwhile are kept, since the values read may be older.
   * Many values are indexed in turns.
   */
  async reload(): Promise<void> {
    const changes = new Map<string, Value | undefined>()
    this.#changes.add(changes)
    try {
      const read = await this.index(await this.#source.read())
      for (const [name, value] of changes)
        if (value === undefined) read.delete(name)
        else read.set(name, value)
      this.#values = read
    } finally {
      this.#changes.delete(changes)
    }
    this.#notify()
  }

  /** What holds the values. */
  protected get table(): Table<Value> {
    return this.#values
  }

  /** Makes a table of values that were read. */
  protected async index(values: Iterable<Value>): Promise<Table<Value>> {
    const index = new Map<string, Value>()
    let left = AT_ONCE
    for (const value of values) {
      index.set(this.#source.getName(value), value)
      if (--left > 0) continue
      left = AT_ONCE
      await yieldToEventLoop()
    }
    return index
  }

  #put(name: string, value: Value): void {
    this.#values.set(name, value)
    for (const changes of this.#changes) changes.set(name, value)
  }

  #remove(name: string): void {
    this.#values.delete(name)
    for (const changes of this.#changes) changes.set(name, undefined)
  }

  #notify(): void {
    this.#source.onChange?.()
  }
}

/** Returns a change that overwrites these fields of a value. */
export const overlay =
  <Value>(fields: Partial<NoInfer<Value>>) =>
  (now: Value): Value => ({ ...now, ...fields })
