import type { Database } from 'bun:sqlite'
import { parseObject } from '../../../kernel/json.ts'
import type { Mac } from '../../../kernel/mac.ts'
import type { SealHead, SealOpening } from '../../../ledger/seals.ts'
import type { RowChange, SealedRow } from './tables.ts'

/** An entry of the log as it is stored. */
interface LogEntry extends SealHead {
  sum: string
  opening: string | null
}

/**
 * The seals of single rows, and the log that seals them together. The sum of all seals says which
 * rows there are: without the key it is impossible to remove a row together with its seal, or to
 * put back an earlier one.
 */
export class SealLog {
  readonly #mac: Mac
  readonly #newest
  readonly #entry
  readonly #insertEntry
  readonly #findSeal
  readonly #writeSeal
  readonly #removeSeal

  constructor(db: Database, mac: Mac) {
    this.#mac = mac
    this.#newest = db.query<LogEntry, []>('select * from seal_log order by n desc limit 1')
    this.#entry = db.query<LogEntry, [number]>('select * from seal_log where n = ?')
    this.#insertEntry = db.query('insert into seal_log (n, sum, seal, opening) values (?, ?, ?, ?)')
    this.#findSeal = db.query<{ seal: string }, [string, string]>(
      'select seal from seals where noun = ? and id = ?',
    )
    this.#writeSeal = db.query('insert into seals (noun, id, seal) values (?, ?, ?)')
    this.#removeSeal = db.query('delete from seals where noun = ? and id = ?')
  }

  /** Seals these rows as they stand, and writes the first entry. */
  open(rows: Iterable<SealedRow>, opening: SealOpening): void {
    let sum = 0n
    for (const { noun, id, text } of rows)
      sum = add(sum, this.#replace({ noun, id, before: null, after: text }) ?? 0n)
    this.#write({ n: 0, seal: '' }, sum, JSON.stringify(opening))
  }

  /**
   * Seals the rows that have changed. A row that was not as its seal says before the change keeps
   * its old seal, and a log whose end is not genuine is not continued: both stay visible.
   */
  append(changes: RowChange[]): void {
    const last = this.#newest.get()
    let sum = BigInt(`0x${last?.sum ?? '0'}`)
    for (const change of changes) sum = add(sum, this.#replace(change) ?? 0n)
    if (last && this.isGenuine(last)) this.#write(last, sum, null)
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

  readOpening(): SealOpening | null {
    const first = this.#entry.get(1)
    if (!first?.opening || !this.isGenuine(first)) return null
    return (parseObject(first.opening) as unknown as SealOpening | undefined) ?? null
  }

  readHead(): SealHead | null {
    const last = this.#newest.get()
    return last && { n: last.n, seal: last.seal }
  }

  has({ n, seal }: SealHead): boolean {
    return this.#entry.get(n)?.seal === seal
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
