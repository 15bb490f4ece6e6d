/** Reads everything that a mirror shows, by its name there. */
export type Read<Value> = () => Promise<Map<string, Value>>

/**
 * What a store remembers of one noun, in memory by its name, so that no request reads a database. Whoever writes to the store sets it
 * here too; what is made of it elsewhere is told by `changed`, whatever the change was.
 */
export class Mirror<Value> {
  readonly #read: Read<Value>
  readonly #changed: () => void
  #values: Map<string, Value>

  private constructor(values: Map<string, Value>, read: Read<Value>, changed: () => void) {
    this.#values = values
    this.#read = read
    this.#changed = changed
  }

  /** A mirror of what the store has. */
  static async open<Value>(read: Read<Value>, changed: () => void = () => undefined): Promise<Mirror<Value>> {
    return new Mirror(await read(), read, changed)
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

  set(name: string, value: Value): void {
    this.#values.set(name, value)
    this.#changed()
  }

  delete(name: string): void {
    this.#values.delete(name)
    this.#changed()
  }

  /** Deletes those that are meant, and gives them back. */
  deleteWhere(isMeant: (value: Value) => boolean): Value[] {
    const meant = [...this.#values].filter(([, value]) => isMeant(value))
    for (const [name] of meant) this.#values.delete(name)
    if (meant.length > 0) this.#changed()
    return meant.map(([, value]) => value)
  }

  /** Reads everything anew, for what another process has changed. What this process changes meanwhile is kept: the reading may be older. */
  async reload(): Promise<void> {
    const before = new Map(this.#values)
    const read = await this.#read()
    this.#values = withChanges(read, before, this.#values)
    this.#changed()
  }
}

/** What was read, and over it what has changed since `before`; `now` is the memory as it is after the reading. */
function withChanges<Value>(read: Map<string, Value>, before: Map<string, Value>, now: Map<string, Value>): Map<string, Value> {
  for (const [name, value] of now) if (before.get(name) !== value) read.set(name, value)
  for (const name of before.keys()) if (!now.has(name)) read.delete(name)
  return read
}
