import { type Batch, createBatch } from './batch.ts'
import type { DeliveryStore, WaitingDelivery } from './store.ts'

/** The most bytes of messages in one batch. */
const BATCH_BYTES = 4 * 1024 * 1024

/** Reads what waits for one destination: in order, and each message once until it is released. */
export class BatchReader {
  readonly #id: string
  readonly #store: Pick<DeliveryStore, 'listWaiting'>
  /** The sequences of everything that was read and is not settled. */
  readonly #taken = new Set<number>()
  /** Everything up to here was read. */
  #cursor = 0
  #isRewound = false
  #isCaughtUp = false

  constructor(id: string, store: Pick<DeliveryStore, 'listWaiting'>) {
    this.#id = id
    this.#store = store
  }

  /** Whether the last batch was a small one: what comes after it waits for company. */
  get isCaughtUp(): boolean {
    return this.#isCaughtUp
  }

  /** Lets the next batch be read however small it is. */
  continue(): void {
    this.#isCaughtUp = false
  }

  /** Begins with the oldest message again. Those that are taken are left out. */
  rewind(): void {
    this.#cursor = 0
    this.#isRewound = true
    this.#isCaughtUp = false
  }

  /** Lets messages be read again. */
  release(sequences: Iterable<number>): void {
    for (const sequence of sequences) this.#taken.delete(sequence)
  }

  /** Forgets everything that was read. */
  clear(): void {
    this.#taken.clear()
    this.rewind()
  }

  /**
   * Reads the messages of a batch that is tried again, as far as they still wait, or puts the next
   * ones into an empty batch, at most `limit`. None if nothing waits.
   */
  async read(batch: Batch, limit: number): Promise<WaitingDelivery[]> {
    const rows = batch.items.length > 0 ? await this.#readAgain(batch) : await this.#readNext(limit)
    this.release(batch.items.map(({ sequence }) => sequence))
    batch.items = createBatch(rows).items
    for (const { sequence } of rows) this.#taken.add(sequence)
    return rows
  }

  async #readNext(limit: number): Promise<WaitingDelivery[]> {
    for (;;) {
      this.#isCaughtUp = true
      this.#isRewound = false
      const rows = await this.#store.listWaiting(this.#id, this.#cursor, limit, BATCH_BYTES)
      const last = rows.at(-1)
      if (!last) return []
      if (!isSmall(rows, limit)) this.#isCaughtUp = false
      if (!this.#isRewound) this.#cursor = last.sequence
      const fresh = rows.filter(({ sequence }) => !this.#taken.has(sequence))
      if (fresh.length > 0) return fresh
    }
  }

  // Others may wait among those of the batch.
  async #readAgain({ items }: Batch): Promise<WaitingDelivery[]> {
    const numbers = new Set(items.map(({ sequence }) => sequence))
    const last = items.at(-1)?.sequence ?? 0
    const found: WaitingDelivery[] = []
    for (let after = (items[0]?.sequence ?? 0) - 1; after < last; ) {
      const rows = await this.#store.listWaiting(this.#id, after, items.length, BATCH_BYTES)
      found.push(...rows.filter(({ sequence }) => numbers.has(sequence)))
      after = rows.at(-1)?.sequence ?? last
    }
    return found
  }
}

/** Whether the next batch would be a small one, too, if it were read at once. */
const isSmall = (rows: WaitingDelivery[], limit: number): boolean =>
  rows.length < limit / 2 && rows.reduce((sum, { bytes }) => sum + bytes, 0) < BATCH_BYTES / 2
