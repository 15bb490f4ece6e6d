/** Where a mirror gets its values, and what it calls when they change. */
export interface MirrorSource<Value> {
  /** Reads everything from the store. The values replace the old ones in the same step. */
  read(): Promise<Iterable<Value>>
  /** Returns the name of a value, which never changes. */
  getName(value: NoInfer<Value>): string
  /** Called after every change, so that anything derived from the values can be computed again. */
  onChange?(): void
}

/**
 * An in-memory copy of what a store has of one noun, by name, so that no request reads a database.
 * Code that writes to the store writes here too.
 */
export class Mirror<Value> {
  readonly #source: MirrorSource<Value>
  #values = new Map<string, Value>()

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

  keys(): MapIterator<string> {
    return this.#values.keys()
  }

  values(): MapIterator<Value> {
    return this.#values.values()
  }

  /** Lists the values that match. */
  filter(predicate: (value: Value) => boolean): Value[] {
    return [...this.values()].filter(predicate)
  }

  set(value: Value): void {
    this.#values.set(this.#source.getName(value), value)
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
    this.#values.delete(name)
    this.#notify()
  }

  /** Deletes the values that match, and returns them. */
  deleteWhere(predicate: (value: Value) => boolean): Value[] {
    const deleted = this.filter(predicate)
    for (const value of deleted) this.#values.delete(this.#source.getName(value))
    if (deleted.length > 0) this.#notify()
    return deleted
  }

  /** Replaces all values in one step. */
  replaceAll(values: Iterable<Value>): void {
    this.#values = this.#indexByName(values)
    this.#notify()
  }

  /**
   * Reads everything again to pick up the changes of another process. Changes that this process
   * makes meanwhile are kept, since the values read may be older.
   */
  async reload(): Promise<void> {
    const before = new Map(this.#values)
    const read = this.#indexByName(await this.#source.read())
    this.#values = mergeChanges(read, before, this.#values)
    this.#notify()
  }

  #indexByName(values: Iterable<Value>): Map<string, Value> {
    return new Map(Array.from(values, value => [this.#source.getName(value), value]))
  }

  #notify(): void {
    this.#source.onChange?.()
  }
}

/** Returns a change that overwrites these fields of a value. */
export const overlay =
  <Value>(fields: Partial<NoInfer<Value>>) =>
  (now: Value): Value => ({ ...now, ...fields })

/**
 * Returns the values that were read, updated with the changes since `before`. `now` is the memory
 * after the read.
 */
function mergeChanges<Value>(
  read: Map<string, Value>,
  before: Map<string, Value>,
  now: Map<string, Value>,
): Map<string, Value> {
  for (const [name, value] of now) if (before.get(name) !== value) read.set(name, value)
  for (const name of before.keys()) if (!now.has(name)) read.delete(name)
  return read
}
