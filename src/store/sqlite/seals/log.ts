import type { Database } from 'bun:sqlite'
import { parseObject } from '../../../base/json.ts'
import type { Mac } from '../../../base/mac.ts'
import type { SealHead, SealOpening } from '../../../limits/seals.ts'
import { type RowChange, readRows, readSeals, SEALED_TABLES, type SealedRow } from './tables.ts'

/** An entry of the log as it is stored. */
interface LogEntry extends SealHead {
  sum: string
  opening: string | null
}

/** Whether a row is not what the owner of the secret has sealed. */
type IsForeign = (noun: string, id: string) => boolean

/**
 * The seals of single rows, and the log that seals them together. The sum of all seals says which
 * rows there are: without the key it is impossible to remove a row together with its seal, or to
 * put back an earlier one.
 */
export class SealLog {
  readonly #mac: Mac
  readonly #newest
  readonly #newestOpening
  readonly #entry
  readonly #listEntries
  readonly #insertEntry
  readonly #findSeal
  readonly #writeSeal
  readonly #removeSeal

  constructor(db: Database, mac: Mac) {
    this.#mac = mac
    this.#newest = db.query<LogEntry, []>('select * from seal_log order by n desc limit 1')
    this.#newestOpening = db.query<LogEntry, []>(
      'select * from seal_log where opening is not null order by n desc limit 1',
    )
    this.#entry = db.query<LogEntry, [number]>('select * from seal_log where n = ?')
    this.#listEntries = db.query<LogEntry, [number]>(
      'select * from seal_log where n >= ? order by n',
    )
    this.#insertEntry = db.query('insert into seal_log (n, sum, seal, opening) values (?, ?, ?, ?)')
    this.#findSeal = db.query<{ seal: string }, [string, string]>(
      'select seal from seals where noun = ? and id = ?',
    )
    this.#writeSeal = db.query('insert or replace into seals (noun, id, seal) values (?, ?, ?)')
    this.#removeSeal = db.query('delete from seals where noun = ? and id = ?')
  }

  /** Seals these rows as they stand, and writes an entry with an opening. There are no seals yet. */
  open(rows: Iterable<SealedRow>, opening: SealOpening): void {
    let sum = 0n
    for (const { noun, id, text } of rows)
      sum = add(sum, this.#replace({ noun, id, before: null, after: text }) ?? 0n)
    this.#write(this.#newest.get() ?? { n: 0, seal: '' }, sum, JSON.stringify(opening))
  }

  /**
   * Seals the rows that have changed. A row that was not as its seal says before the change keeps
   * its old seal, and a log whose end is not genuine is not continued: both stay visible.
   */
  append(changes: RowChange[]): void {
    let sum = 0n
    for (const change of changes) sum = add(sum, this.#replace(change) ?? 0n)
    this.#continue(sum)
  }

  /** Makes the seals those of the rows as they stand, except where a row is foreign. */
  move(db: Database, isForeign: IsForeign): void {
    let sum = 0n
    let moved = 0
    for (const noun of SEALED_TABLES) {
      for (const change of this.#listMoves(db, noun, isForeign)) {
        sum = add(sum, change)
        moved += 1
      }
    }
    if (moved > 0) this.#continue(sum)
  }

  /** Computes the seal of a row. */
  sealRow({ noun, id, text }: SealedRow): string {
    return this.#mac(`${noun}\0${id}\0${text}`)
  }

  /** Whether the newest entry is genuine and has this sum. */
  isClosedWith(sum: bigint): boolean {
    const last = this.#newest.get()
    return last !== null && this.isGenuine(last) && last.sum === renderSum(sum)
  }

  /** Whether an entry was sealed by the owner of the secret, after the entry before it. */
  isGenuine(entry: LogEntry): boolean {
    const previous = this.#entry.get(entry.n - 1)?.seal ?? ''
    return entry.seal === this.#sealEntry(previous, entry)
  }

  /** Reads the newest opening; null if it is missing or was made with another secret. */
  readOpening(): SealOpening | null {
    const entry = this.#newestOpening.get()
    if (!entry?.opening || !this.isGenuine(entry)) return null
    return (parseObject(entry.opening) as unknown as SealOpening | undefined) ?? null
  }

  /** Lists the numbers of entries that are not genuine, from the newest opening on. */
  listForged(): number[] {
    let previous: string | null = null
    const forged: number[] = []
    for (const entry of this.#listEntries.iterate(this.#newestOpening.get()?.n ?? 0)) {
      previous ??= this.#entry.get(entry.n - 1)?.seal ?? ''
      if (entry.seal !== this.#sealEntry(previous, entry)) forged.push(entry.n)
      previous = entry.seal
    }
    return forged
  }

  readHead(): SealHead | null {
    const last = this.#newest.get()
    return last && { n: last.n, seal: last.seal }
  }

  has({ n, seal }: SealHead): boolean {
    return this.#entry.get(n)?.seal === seal
  }

  /** Seals the rows of a table that differ from their seals. Yields what each adds to the sum. */
  *#listMoves(db: Database, noun: string, isForeign: IsForeign): Generator<bigint> {
    const seals = readSeals(db, noun)
    for (const row of readRows(db, noun)) {
      const current = seals.get(row.id) ?? null
      seals.delete(row.id)
      const seal = isForeign(noun, row.id) ? current : this.sealRow(row)
      if (seal === null || seal === current) continue
      this.#writeSeal.run(noun, row.id, seal)
      yield toNumber(seal) - toNumber(current)
    }
    for (const [id, seal] of seals) {
      if (isForeign(noun, id)) continue
      this.#removeSeal.run(noun, id)
      yield -toNumber(seal)
    }
  }

  /** Moves the seal of a row. Returns what that adds to the sum; null if it was left as it is. */
  #replace({ noun, id, before, after }: RowChange): bigint | null {
    const current = this.#findSeal.get(noun, id)?.seal ?? null
    const expected = before === null ? null : this.sealRow({ noun, id, text: before })
    if (current !== expected) return null
    if (expected !== null) this.#removeSeal.run(noun, id)
    const seal = after === null ? null : this.sealRow({ noun, id, text: after })
    if (seal !== null) this.#writeSeal.run(noun, id, seal)
    return toNumber(seal) - toNumber(expected)
  }

  #continue(change: bigint): void {
    const last = this.#newest.get()
    if (last && this.isGenuine(last)) this.#write(last, add(BigInt(`0x${last.sum}`), change), null)
  }

  #write(previous: SealHead, sum: bigint, opening: string | null): void {
    const entry = { n: previous.n + 1, sum: renderSum(sum), opening }
    this.#insertEntry.run(entry.n, entry.sum, this.#sealEntry(previous.seal, entry), opening)
  }

  #sealEntry(previous: string, { n, sum, opening }: Omit<LogEntry, 'seal'>): string {
    return this.#mac(JSON.stringify([previous, n, sum, opening]))
  }
}

const toNumber = (seal: string | null): bigint => (seal === null ? 0n : BigInt(`0x${seal}`))

/** Adds a seal to the sum of all. */
export const add = (sum: bigint, number: bigint): bigint => BigInt.asUintN(256, sum + number)

const renderSum = (sum: bigint): string => BigInt.asUintN(256, sum).toString(16).padStart(64, '0')
