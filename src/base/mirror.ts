import { yieldToEventLoop } from './clock.ts'
import { comparePacked, type PackedQuery, PackedRows, type Packing } from './packed-rows.ts'
import { pickFirst } from './sorting.ts'

/** So many values are indexed before others get their turn. */
const AT_ONCE = 4_000

/** Where a mirror gets its values, and what it calls when they change. */
interface MirrorSource<Value> {
  /** Reads everything from the store, or what has these names. */
  read(names?: string[]): Promise<Iterable<Value>>
  /** Returns the name of a value, which never changes. */
  getName(value: NoInfer<Value>): string
  /**
   * Called after every change, so that what is derived from the values can be computed again: from
   * those of these names, or from all.
   */
  onChange?(names?: Iterable<string>): void
}

/** What a mirror holds its values in: a `Map`, or what can do the same. */
interface Table<Value> {
  readonly size: number
  get(name: string): Value | undefined
  has(name: string): boolean
  keys(): IteratorObject<string>
  values(): IteratorObject<Value>
  set(name: string, value: Value): unknown
  delete(name: string): unknown
}

/** A mirror of whichever values. */
// biome-ignore lint/suspicious/noExplicitAny: each reads its own values.
type AnyMirror = Mirror<any>

/** What is to be read again of a mirror: what has these names, or everything. */
export type MirrorPart = readonly [AnyMirror, ReadonlySet<string> | null]

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
    const name = this.#source.getName(value)
    this.#put(name, value)
    this.#source.onChange?.([name])
  }

  /** Adds a value whose name is drawn at random: nothing can be derived from it yet. */
  add(value: Value): void {
    this.#put(this.#source.getName(value), value)
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
    this.#source.onChange?.([name])
  }

  /** Deletes the values that match, and returns them. */
  deleteWhere(predicate: (value: Value) => boolean): Value[] {
    const deleted = this.filter(predicate)
    const names = deleted.map(value => this.#source.getName(value))
    for (const name of names) this.#remove(name)
    if (names.length > 0) this.#source.onChange?.(names)
    return deleted
  }

  /** Replaces all values in one step. */
  replaceAll(values: Iterable<Value>): void {
    if (this.#changes.size > 0) for (const name of [...this.#values.keys()]) this.#remove(name)
    this.#values = new Map()
    for (const value of values) this.#put(this.#source.getName(value), value)
    this.#source.onChange?.()
  }

  /**
   * Reads everything again to pick up the changes of another process, and replaces the values in one
   * step. Changes that this process makes meanwhile are kept, since the values read may be older.
   * Many values are indexed in turns.
   */
  async reload(): Promise<void> {
    await Mirror.readAgain([[this, null]])
  }

  /**
   * Reads what has these names again, or everything, and has all mirrors change in one step. Throws
   * what a read throws, and then none has changed. Returns what this process has changed meanwhile:
   * what was read of it was left out, and it may lack what another process has changed before.
   */
  static async readAgain(parts: Iterable<MirrorPart>): Promise<MirrorPart[]> {
    const begun = Array.from(parts, ([mirror, names]) => mirror.#begin(names))
    try {
      for (const { read } of begun) await read()
      for (const { replace } of begun) replace()
    } finally {
      for (const { end } of begun) end()
    }
    for (const { notify } of begun) notify()
    return begun.flatMap(({ listLeftOut }) => listLeftOut())
  }

  #begin(wanted: ReadonlySet<string> | null) {
    const names = wanted && this.holdsFew(wanted) ? [...wanted] : undefined
    const changes = new Map<string, Value | undefined>()
    this.#changes.add(changes)
    let found: Table<Value> = new Map<string, Value>()
    let left = new Set<string>()
    return {
      read: async () => {
        found = await this.index(await this.#source.read(names))
      },
      replace: () => {
        // Before what was read counts as a change, too.
        left = new Set(names?.filter(name => changes.has(name)) ?? changes.keys())
        if (names) this.#replaceSome(names, found, changes)
        else this.#replaceAll(found, changes)
      },
      end: () => this.#changes.delete(changes),
      notify: () => this.#source.onChange?.(names),
      listLeftOut: (): MirrorPart[] => (left.size > 0 ? [[this, left]] : []),
    }
  }

  #replaceAll(found: Table<Value>, changes: Map<string, Value | undefined>): void {
    for (const [name, value] of changes)
      if (value === undefined) found.delete(name)
      else found.set(name, value)
    this.#values = found
  }

  #replaceSome(
    names: string[],
    found: Table<Value>,
    changes: Map<string, Value | undefined>,
  ): void {
    for (const name of names) {
      if (changes.has(name)) continue
      const value = found.get(name)
      if (value !== undefined) this.#put(name, value)
      else if (this.#values.has(name)) this.#remove(name)
    }
  }

  /** Whether these are so few that it is better to read them than all. */
  protected holdsFew(_names: ReadonlySet<string>): boolean {
    return true
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
}

/** Returns a change that overwrites these fields of a value. */
export const overlay =
  <Value>(fields: Partial<NoInfer<Value>>) =>
  (now: Value): Value => ({ ...now, ...fields })

/** Text that is in a row as it is: without quotes, backslashes and letters that may be escaped. */
const PLAIN = /^[\w .:@/-]+$/

/** So many values may be over the rows, and half of all. */
const MOST_CHANGED = 4_096

/** So many values that were asked for last are kept. */
const RECENT = 4_096

/** A mirror of very many records: they are held as the rows that were read, until they change. */
export class PackedMirror<Value extends { created_at: string }> extends Mirror<Value> {
  readonly #packing: Packing<Value>

  constructor(packing: Packing<Value>, source: Omit<MirrorSource<Value>, 'getName'>) {
    super({ ...source, getName: packing.getName })
    this.#packing = packing
  }

  /** Opens a mirror and reads what the store has. */
  static async openPacked<Value extends { created_at: string }>(
    packing: Packing<Value>,
    source: Omit<MirrorSource<Value>, 'getName'>,
  ): Promise<PackedMirror<Value>> {
    const mirror = new PackedMirror(packing, source)
    await mirror.reload()
    return mirror
  }

  /** Lists the values that match, all of which have this text in one of their fields. */
  filterMentioning(text: string, predicate: (value: Value) => boolean): Value[] {
    return [...this.listMentioning(text)].filter(predicate)
  }

  /** Yields the values that may have this text in a field, each read when it is asked for. */
  listMentioning(text: string): Iterable<Value> {
    const { table } = this
    return table instanceof OverlaidRows && PLAIN.test(text) ? table.search(text) : this.values()
  }

  /** Deletes the values that match, all of which have this text in one of their fields. */
  deleteMentioning(text: string, predicate: (value: Value) => boolean): void {
    for (const value of this.filterMentioning(text, predicate))
      this.delete(this.#packing.getName(value))
  }

  /** Yields the values whose mark has one of these bits. */
  listMarked(bits: number): Iterable<Value> {
    return this.table instanceof OverlaidRows
      ? this.table.listMarked(bits)
      : this.values().filter(value => (this.#packing.getMark(value) & bits) !== 0)
  }

  /** Returns the first values of a list in their order, and how many the whole list has. */
  pick(query: PackedQuery): { first: Value[]; total: number } {
    if (this.table instanceof OverlaidRows) return this.table.pick(query)
    const listed = this.filter(value => isListed(value, this.#packing, query))
    const compare = comparePacked(this.#packing, query.order)
    return { first: pickFirst(listed, query.count, compare), total: listed.length }
  }

  /** Not where so much has changed that reading all packs it again. */
  protected override holdsFew({ size }: ReadonlySet<string>): boolean {
    const { table } = this
    return !(table instanceof OverlaidRows) || table.changed + size < MOST_CHANGED + table.size / 2
  }

  protected override async index(values: Iterable<Value>): Promise<Table<Value>> {
    return values instanceof PackedRows ? new OverlaidRows(values) : super.index(values)
  }
}

const isListed = <Value extends { created_at: string }>(
  value: Value,
  { getGroup, getMark }: Packing<Value>,
  { isInGroup, without }: PackedQuery,
): boolean => (getMark(value) & without) === 0 && isInGroup(getGroup(value))

/** Rows as they were read, with the values that have changed since over them. */
class OverlaidRows<Value extends { created_at: string }> implements Table<Value> {
  readonly #rows: PackedRows<Value>
  /** What has changed, and what could not be packed. */
  readonly #others: Map<string, Value>
  /** The values that were asked for last: they are parsed once. */
  readonly #recent = new Map<string, Value>()
  /** Whether a row is no longer its name's value. Made at the first change. */
  #gone: Uint8Array | undefined
  #size: number

  constructor(rows: PackedRows<Value>) {
    const { others, packing } = rows
    this.#rows = rows
    this.#others = new Map(others.map(value => [packing.getName(value), value]))
    this.#size = rows.packed + this.#others.size
  }

  get size(): number {
    return this.#size
  }

  /** How many values were packed, or not there, when the rows were read. */
  get changed(): number {
    return this.#others.size - this.#rows.others.length
  }

  get(name: string): Value | undefined {
    const known = this.#recent.get(name) ?? this.#others.get(name)
    if (known !== undefined) return known
    const row = this.#find(name)
    if (row === undefined) return undefined
    const value = this.#rows.parse(row)
    if (this.#recent.size >= RECENT) this.#recent.clear()
    this.#recent.set(name, value)
    return value
  }

  has(name: string): boolean {
    return this.#find(name) !== undefined || this.#others.has(name)
  }

  *keys(): Generator<string> {
    for (const row of this.#list()) yield this.#rows.readName(row)
    yield* this.#others.keys()
  }

  *values(): Generator<Value> {
    for (const row of this.#list()) yield this.#rows.parse(row)
    yield* this.#others.values()
  }

  set(name: string, value: Value): void {
    if (!this.has(name)) this.#size++
    this.#forget(name)
    this.#others.set(name, value)
  }

  delete(name: string): void {
    if (this.has(name)) this.#size--
    this.#forget(name)
    this.#others.delete(name)
  }

  *listMarked(bits: number): Generator<Value> {
    for (const row of this.#rows.list(bits)) if (this.#isThere(row)) yield this.#rows.parse(row)
    for (const value of this.#others.values())
      if ((this.#rows.packing.getMark(value) & bits) !== 0) yield value
  }

  /** Yields the values that may have this text in one of their fields. */
  *search(text: string): Iterable<Value> {
    for (const row of this.#rows.search(text)) if (this.#isThere(row)) yield this.#rows.parse(row)
    yield* this.#others.values()
  }

  pick(query: PackedQuery): { first: Value[]; total: number } {
    const { packing } = this.#rows
    const packed = this.#rows.pick(query, this.#gone)
    const values = packed.first.map(row => this.#rows.parse(row))
    const others = [...this.#others.values()].filter(value => isListed(value, packing, query))
    const compare = comparePacked(packing, query.order)
    return {
      first: pickFirst([...values, ...others], query.count, compare),
      total: packed.total + others.length,
    }
  }

  #find(name: string): number | undefined {
    const row = this.#rows.find(name)
    return row !== undefined && this.#isThere(row) ? row : undefined
  }

  #isThere(row: number): boolean {
    return this.#gone === undefined || this.#gone[row] === 0
  }

  *#list(): Iterable<number> {
    for (const row of this.#rows.list()) if (this.#isThere(row)) yield row
  }

  #forget(name: string): void {
    this.#recent.delete(name)
    const row = this.#rows.find(name)
    if (row === undefined) return
    this.#gone ??= new Uint8Array(this.#rows.length)
    this.#gone[row] = 1
  }
}
