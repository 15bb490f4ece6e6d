import type { Database } from 'bun:sqlite'
import { yieldToEventLoop } from '../../base/clock.ts'
import { GatewayError } from '../../base/errors.ts'
import { DELETE_UNREFERRED } from './outbox/unreferred.ts'
import { retryWhileLocked } from './write.ts'

/** How many rows one transaction erases, and about how many bytes of large ones. */
const AT_ONCE = 1_000
export const BYTES_AT_ONCE = 4 * 1024 * 1024

/** Rows of tables that a deleted workspace has left, found by their index. */
const ofWorkspaces = (rows: string, table: string, more = '') =>
  `select ${rows} from workspaces cross join ${table} on ${table}.workspace_id = workspaces.id
  ${more} where workspaces.deleted_at is not null limit ${AT_ONCE}`

/** Calls that wait for deleted destinations, in order. */
const WAITING = `select d.destination_id, d.sequence from destinations
  cross join deliveries as d on d.destination_id = destinations.id
  where destinations.deleted_at is not null limit ${AT_ONCE}`

/** Content can be large: as many of the first as fit. */
const TRANSCRIPTS = selectFitting(ofWorkspaces('sequence, size_bytes', 'transcripts'))

/**
 * Selects the first of some rows with a `sequence` and `size_bytes` that one transaction may erase,
 * and one in any case: to erase pages takes as long as to write them.
 */
export function selectFitting(rows: string): string {
  return `select sequence from (
    select sequence, size_bytes, sum(size_bytes) over (rows unbounded preceding) as sum
    from (${rows}))
    where sum <= ${BYTES_AT_ONCE} or sum = size_bytes`
}

const RESPONSES = selectFitting(ofWorkspaces('sequence, size_bytes', 'responses'))

/** What is erased, each before what it belongs to. */
const ERASURES = [
  `delete from transcripts where sequence in (${TRANSCRIPTS})`,
  `delete from responses where sequence in (${RESPONSES})`,
  `delete from batch_results where (batch_id, line) in (${ofWorkspaces(
    'batch_id, line',
    'batches',
    'cross join batch_results on batch_id = batches.id',
  )})`,
  `delete from batches where id in (${ofWorkspaces('batches.id', 'batches')})`,
  `delete from container_files where (container_id, path) in (${ofWorkspaces(
    'container_id, path',
    'containers',
    'cross join container_files on container_id = containers.id',
  )})`,
  `delete from containers where id in (${ofWorkspaces('containers.id', 'containers')})`,
  `delete from files where id in (${ofWorkspaces('files.id', 'files')})`,
]

/**
 * Creates the function that erases what deleted workspaces and destinations have left: some of it, in
 * one short transaction. Returns how many rows that were; 0 when nothing is left. `onErased` is called
 * after messages were erased.
 */
export function createEraser(db: Database, onErased?: () => void): () => number {
  const erase = db.transaction(() => {
    const waiting = eraseWaiting(db)
    if (waiting > 0) return waiting
    for (const erasure of ERASURES) {
      // Not the statement's own count: triggers and foreign keys add to it.
      const rows = db.query(`${erasure} returning 1`).values().length
      if (rows > 0) return rows
    }
    return 0
  })
  return () => {
    const rows = erase.immediate()
    if (rows > 0) onErased?.()
    return rows
  }
}

function eraseWaiting(db: Database): number {
  const rows = db
    .query<{ sequence: number }, []>(
      `delete from deliveries where (destination_id, sequence) in (${WAITING}) returning sequence`,
    )
    .all()
  if (rows.length > 0)
    db.query(DELETE_UNREFERRED).run(JSON.stringify(rows.map(({ sequence }) => sequence)))
  return rows.length
}

/**
 * Erases all that is left, in turns of their own. What a store cannot erase now, for it is locked,
 * is left to the next sweep: the workspace or destination is deleted already.
 */
export async function eraseLeft(erase: () => number): Promise<void> {
  try {
    while ((await retryWhileLocked(erase)) > 0) await yieldToEventLoop()
  } catch (thrown) {
    if (!(thrown instanceof GatewayError)) throw thrown
  }
}
