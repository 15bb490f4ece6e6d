import { yieldToEventLoop } from '../../base/clock.ts'
import { GatewayError } from '../../base/errors.ts'
import { deleteUnreferred } from './deliveries/unreferred.ts'
import { follow, prepare, type Statement, type Write } from './write.ts'

/** How many rows one transaction erases, and about how many bytes of large ones. */
const AT_ONCE = 1_000
export const BYTES_AT_ONCE = 4 * 1024 * 1024

/**
 * Rows of tables that a deleted workspace has left. A cross join keeps the order, so that each table
 * is read by its index.
 */
const ofWorkspaces = (rows: string, table: string, part?: { table: string; on: string }) =>
  `select ${rows} from workspaces cross join ${table} ${part ? `cross join ${part.table}` : ''}
  where ${table}.workspace_id = workspaces.id ${part ? `and ${part.on}` : ''}
  and workspaces.deleted_at is not null limit ${AT_ONCE}`

/** Calls that wait for deleted destinations, in order. */
const ERASE_WAITING = `delete from deliveries where (destination_id, sequence) in (select d.destination_id, d.sequence from destinations
  cross join deliveries as d where d.destination_id = destinations.id and destinations.deleted_at is not null limit ${AT_ONCE}) returning sequence`

/** Content can be large: as many of the first as fit. */
const TRANSCRIPTS = selectFitting(ofWorkspaces('sequence, size_bytes', 'transcripts'))

/**
 * Selects the first of some rows with a `sequence` and `size_bytes` that one transaction may erase,
 * and one in any case: to erase pages takes as long as to write them.
 */
export function selectFitting(rows: string): string {
  return `select sequence from (
    select sequence, size_bytes, sum(size_bytes) over (rows unbounded preceding) as sum
    from (${rows}) as listed) as summed
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
    { table: 'batch_results', on: 'batch_id = batches.id' },
  )})`,
  `delete from batches where id in (${ofWorkspaces('batches.id', 'batches')})`,
  `delete from container_files where (container_id, path) in (${ofWorkspaces(
    'container_id, path',
    'containers',
    { table: 'container_files', on: 'container_id = containers.id' },
  )})`,
  `delete from containers where id in (${ofWorkspaces('containers.id', 'containers')})`,
  `delete from files where id in (${ofWorkspaces('files.id', 'files')})`,
]

/** Erases some of what deleted workspaces and destinations have left. Returns how many rows. */
export type Erase = () => Promise<number>

/**
 * Creates the function that erases what deleted workspaces and destinations have left: some of it, in
 * one short transaction. It returns 0 when nothing is left. `onErased` is called after messages were
 * erased.
 */
export const createEraser =
  (write: Write, onErased?: () => void): Erase =>
  async () => {
    let count = 0
    await write(
      follow<{ sequence: number }>(prepare(ERASE_WAITING), waiting => {
        count = waiting.length
        return count > 0
          ? [deleteUnreferred(waiting.map(({ sequence }) => sequence))]
          : eraseFirst(ERASURES, rows => {
              count = rows
            })
      }),
    )
    if (count > 0) onErased?.()
    return count
  }

// Rows are returned, as a statement's own count has those that triggers and foreign keys change.
const eraseFirst = (
  [erasure, ...others]: string[],
  onErased: (rows: number) => void,
): Statement[] =>
  erasure === undefined
    ? []
    : [
        follow(prepare(`${erasure} returning 1`), ({ length }) => {
          onErased(length)
          return length > 0 ? [] : eraseFirst(others, onErased)
        }),
      ]

/**
 * Erases all that is left, in turns of their own. What a store cannot erase now, for it is locked,
 * is left to the next sweep: the workspace or destination is deleted already.
 */
export async function eraseLeft(erase: Erase): Promise<void> {
  try {
    while ((await erase()) > 0) await yieldToEventLoop()
  } catch (thrown) {
    if (!(thrown instanceof GatewayError)) throw thrown
  }
}
