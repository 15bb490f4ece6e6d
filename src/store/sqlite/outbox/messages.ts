import { Database } from 'bun:sqlite'
import type { Seal } from '../../../base/seal.ts'
import type { SpoolReport } from '../../../observability/outbox.ts'
import { Spool } from '../../spool.ts'
import { BlockReader } from '../../sql/outbox/blocks.ts'
import { type BundleRow, cutBundle, type MessageRow, MOST_CALLS } from '../../sql/outbox/bundles.ts'
import { encryptMessage } from '../../sql/outbox/bundling.ts'

/** Where the payloads of the outbox are: in its rows, or in a spool. */
interface MessagesOptions {
  db: Database
  /** Null for a store in memory. */
  spool: Spool | null
  seal: () => Seal
  /** Finds the oldest segment that rows refer to which are not in the database yet. */
  findOldestWaiting: () => number
}

/** In bytes: the segment that is written now is left for so much. */
const WORTH_REMOVING = 1024 * 1024
/** With more segments than these, those of which little waits are given up. */
const MOST_SEGMENTS = 8
/** In bytes: less of a segment is little. */
const LITTLE = 2 * 1024 * 1024
/** How many rows of such a segment one transaction moves. */
const ROWS_AT_ONCE = 20

/** The payloads of the outbox, and what becomes of the spool when none refers to it any more. */
export class Messages {
  readonly #options: MessagesOptions
  readonly #listUnneeded
  readonly #listSparse
  readonly #listRows
  readonly #moveRows
  /** The segment that was written when segments were looked at last. */
  #lookedAt = 0
  #sparse: number[] = []

  constructor(options: MessagesOptions) {
    this.#options = options
    const { db } = options
    this.#listUnneeded = db.query<{ segment: number }, [string]>(
      'select value as segment from json_each(?) ' +
        'where not exists (select 1 from outbox where segment = value)',
    )
    this.#listSparse = db.query<{ segment: number }, [number, number]>(
      'select segment from outbox where segment is not null and segment < ? ' +
        'group by segment having sum(length) < ?',
    )
    this.#listRows = db.query<BundleRow, [number, number]>(
      'select * from outbox where segment = ? order by sequence limit ?',
    )
    this.#moveRows = db.transaction((segment: number) => {
      const rows = this.#listRows.all(segment, ROWS_AT_ONCE)
      const reader = this.openReader()
      // Those that the spool does not have any more are empty.
      for (const row of rows)
        moveIntoRow(db, row.sequence, renderPayload(row, reader, options.seal()) ?? '')
      return rows.length
    })
  }

  get spool(): Spool | null {
    return this.#options.spool
  }

  /** Begins after the segments that rows refer to, and removes those that nothing refers to. */
  open(): void {
    const { db, spool } = this.#options
    if (!spool) return
    const newest = db
      .query<{ segment: number | null }, []>('select max(segment) as segment from outbox')
      .get()
    spool.beginAfter(Math.max(newest?.segment ?? 0, ...spool.list()))
    if (spool.isCopy) this.#moveAll()
    else this.sweep()
  }

  /** Opens a reader of payloads, for rows in their order. */
  openReader(): BlockReader {
    return new BlockReader(this.#options.spool, this.#options.seal)
  }

  /** Returns the payload that a row has without the spool. */
  renderPayload(row: BundleRow): string {
    return renderPayload(row, this.openReader(), this.#options.seal()) ?? ''
  }

  /**
   * Removes the segments that nothing refers to. Of many, those that little refers to are emptied
   * part by part: else one message that waits for long would keep a whole segment. Never throws:
   * what could not be done is done with the next messages that leave.
   */
  sweep(): void {
    const { spool } = this.#options
    if (!spool?.isOwn) return
    try {
      const left = this.#removeUnneeded(spool)
      this.#findSparse(spool.current?.segment ?? 0, left)
      this.#emptySparse()
    } catch {
      // The database is locked, or the disk full.
      this.#sparse = []
    }
  }

  /** Removes the segment that this process has written, if nothing refers to it. */
  close(): void {
    const { spool, findOldestWaiting } = this.#options
    const current = spool?.current
    if (spool && current && current.segment < findOldestWaiting())
      spool.remove(this.#filterUnneeded([current.segment]))
    spool?.close()
  }

  /** Checks that the spool has what rows refer to, as it was written. */
  inspect(): SpoolReport {
    const { db, spool } = this.#options
    const reader = this.openReader()
    const report: SpoolReport = { messages: 0, problems: [], unneeded: 0 }
    const lost: MessageRow[] = []
    const rows = db.query<BundleRow, []>('select * from outbox where segment is not null').iterate()
    for (const message of iterateMessages(rows)) {
      report.messages += 1
      if (reader.readPayload(message) === '') lost.push(message)
    }
    const bySegment = Map.groupBy(this.#filterWaiting(lost), ({ segment }) => segment ?? 0)
    report.problems = [...bySegment].map(([segment, messages]) =>
      describeLoss(segment, messages.length, spool),
    )
    for (const segment of this.#filterUnneeded(spool?.list() ?? []))
      report.unneeded += spool?.measure(segment) ?? 0
    return report
  }

  /** Leaves out what has left meanwhile, and its segment with it. */
  #filterWaiting(messages: MessageRow[]): MessageRow[] {
    const find = this.#options.db.query<object, [number, number, number | null]>(
      'select 1 from outbox where sequence between ? and ? and segment = ?',
    )
    return messages.filter(
      ({ sequence, segment }) => find.get(sequence, sequence + MOST_CALLS - 1, segment) !== null,
    )
  }

  /** Returns how many segments are left. */
  #removeUnneeded(spool: Spool): number {
    const { segments } = spool
    const { segment: current = 0, size = 0 } = spool.current ?? {}
    const closed = segments.filter(
      one => one <= spool.last && (one !== current || size >= WORTH_REMOVING),
    )
    const unneeded = this.#filterUnneeded(closed)
    spool.remove(unneeded)
    return segments.length - unneeded.length
  }

  #filterUnneeded(segments: number[]): number[] {
    const oldest = segments.length === 0 ? 0 : this.#options.findOldestWaiting()
    const settled = segments.filter(segment => segment < oldest)
    if (settled.length === 0) return settled
    return this.#listUnneeded.all(JSON.stringify(settled)).map(({ segment }) => segment)
  }

  /** Moves all that waits into the database, which is then whole without the spool. */
  #moveAll(): void {
    const list = this.#options.db.query<{ segment: number }, []>(
      'select distinct segment from outbox where segment is not null',
    )
    for (const { segment } of list.all()) while (this.#moveRows.immediate(segment) > 0);
  }

  /** Looks once for each segment that is written. */
  #findSparse(current: number, segments: number): void {
    if (segments <= MOST_SEGMENTS || this.#lookedAt === current) return
    this.#lookedAt = current
    this.#sparse = this.#listSparse.all(current, LITTLE).map(({ segment }) => segment)
  }

  #emptySparse(): void {
    const [segment] = this.#sparse
    if (segment !== undefined && this.#moveRows.immediate(segment) === 0) this.#sparse.shift()
  }
}

function* iterateMessages(rows: Iterable<BundleRow>) {
  for (const row of rows) yield* cutBundle(row)
}

function describeLoss(segment: number, count: number, spool: Spool | null): string {
  const messages = count === 1 ? '1 message' : `${count} messages`
  const isThere = (spool?.measure(segment) ?? 0) > 0
  return `${messages} of segment ${segment} cannot be read: it is ${isThere ? 'damaged' : 'missing'}`
}

/** Moves all that waits in the spool of a data directory into a copy of its database. */
export function moveSpool(data: string, copy: string, seal: () => Seal): void {
  const db = new Database(copy, { readwrite: true, strict: true })
  try {
    const spool = new Spool(data, 'copy')
    new Messages({ db, spool, seal, findOldestWaiting: () => Number.POSITIVE_INFINITY }).open()
    spool.close()
  } finally {
    db.close()
  }
}

/** Moves a row's messages out of the spool. */
export function moveIntoRow(db: Database, sequence: number, payload: string): void {
  db.query(
    `update outbox set payload = ?, segment = null, start = null, length = null, first = null
     where sequence = ?`,
  ).run(payload, sequence)
}

/**
 * Renders the payload of a row that is in the spool: each message encrypted by itself. Null where
 * none can be read.
 */
export function renderPayload(row: BundleRow, reader: BlockReader, seal: Seal): string | null {
  const payloads = cutBundle(row).map(message => {
    const payload = reader.readPayload(message)
    return payload.startsWith('{') ? encryptMessage(seal, payload, message.generation_id) : payload
  })
  return payloads.every(payload => payload === '') ? null : payloads.join('\n')
}
