/** What a mirror shows, and whom it tells. */
export interface Reflection<Value> {
  /** Reads everything from the store. The values are taken in the same step that shows them. */
  read(): Promise<Iterable<Value>>
  /** The name of a value, which never changes. */
  nameOf(value: NoInfer<Value>): string
  /** Is called after every change, so that what is made of the values can be made anew. */
  onChange?(): void
}

/**
 * What a store remembers of one noun, in memory by its name, so that no request reads a database.
 * Whoever writes to the store sets it here too.
 */
export class Mirror<Value> {
  readonly #reflection: Reflection<Value>
  #values = new Map<string, Value>()

  /** An empty mirror: `reload` fills it. */
  constructor(reflection: Reflection<Value>) {
    this.#reflection = reflection
  }

  /** Opens a mirror of what the store has. */
  static async open<Value>(reflection: Reflection<Value>): Promise<Mirror<Value>> {
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

  /** Lists the values that are meant. */
  where(isMeant: (value: Value) => boolean): Value[] {
    return [...this.values()].filter(isMeant)
  }

  set(value: Value): void {
    this.#values.set(this.#reflection.nameOf(value), value)
    this.#changed()
  }

  /**
   * Writes a change to the store, then applies it to the value as it is by then: another change may
   * have come while the store was writing. Returns undefined where the value has gone meanwhile.
   */
  async change(
    name: string,
    apply: (now: Value) => Value,
    write: () => Promise<void>,
  ): Promise<Value | undefined> {
    await write()
    const now = this.#values.get(name)
    if (now === undefined) return undefined
    const changed = apply(now)
    this.set(changed)
    return changed
  }

  delete(name: string): void {
    this.#values.delete(name)
    this.#changed()
  }

  /** Deletes the values that are meant, and returns them. */
  deleteWhere(isMeant: (value: Value) => boolean): Value[] {
    const meant = this.where(isMeant)
    for (const value of meant) this.#values.delete(this.#reflection.nameOf(value))
    if (meant.length > 0) this.#changed()
    return meant
  }

  /** Puts these in the place of all that is there, in one step. */
  replaceAll(values: Iterable<Value>): void {
    this.#values = this.#named(values)
    this.#changed()
  }

  /**
   * Reads everything anew, for what another process has changed. What this process changes
   * meanwhile is kept: the reading may be older.
   */
  async reload(): Promise<void> {
    const before = new Map(this.#values)
    const read = this.#named(await this.#reflection.read())
    this.#values = withChanges(read, before, this.#values)
    this.#changed()
  }

  #named(values: Iterable<Value>): Map<string, Value> {
    return new Map(Array.from(values, value => [this.#reflection.nameOf(value), value]))
  }

  #changed(): void {
    this.#reflection.onChange?.()
  }
}

/** Makes the change that lays these fields over a value. */
export const overlay =
  <Value>(fields: Partial<NoInfer<Value>>) =>
  (now: Value): Value => ({ ...now, ...fields })

/**
 * What was read, and over it what has changed since `before`; `now` is the memory after the
 * reading.
 */
function withChanges<Value>(
  read: Map<string, Value>,
  before: Map<string, Value>,
  now: Map<string, Value>,
): Map<string, Value> {
  for (const [name, value] of now) if (before.get(name) !== value) read.set(name, value)
  for (const name of before.keys()) if (!now.has(name)) read.delete(name)
  return read
}
