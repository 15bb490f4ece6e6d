import type { Kysely, Selectable } from 'kysely'
import { notFound } from '../../base/errors.ts'
import type { StoredTranscript } from '../../observability/generations/store.ts'
import type { TranscriptStore } from '../../observability/transcripts.ts'
import { buildAuditInsert } from './audit.ts'
import { BYTES_AT_ONCE, selectFitting } from './erasing.ts'
import { countEvicted, createRemoval } from './evictions.ts'
import type { Tables } from './tables.ts'
import { check, follow, prepare, type Statement, type Write } from './write.ts'

/** Creates the store of transcripts in SQL. `generations.ts` writes them with their calls. */
export const createTranscriptStore = (kysely: Kysely<Tables>, write: Write): TranscriptStore => ({
  async find(generation_id) {
    const query = kysely
      .selectFrom('transcripts')
      .selectAll()
      .where('generation_id', '=', generation_id)
    const row = await query.executeTakeFirst()
    if (!row) return undefined
    const { sequence: _, ...transcript } = row
    return transcript
  },
  async computeUse() {
    const row = await kysely.selectFrom('transcript_use').select('bytes').executeTakeFirst()
    return row?.bytes ?? 0
  },
  trim: createTrim(kysely, write),
  removeBefore: createRemoval(write, 'content', REMOVE_OLD),
  remove: (id, entry) =>
    write(
      check(
        kysely.selectFrom('transcripts').where('generation_id', '=', id).select('sequence'),
        ([row]) => {
          if (!row) throw notFound('Content not found')
        },
      ),
      kysely.deleteFrom('transcripts').where('generation_id', '=', id),
      buildAuditInsert(kysely, entry),
    ),
})

const REMOVE_OLD = `delete from transcripts where sequence in (${selectFitting(
  'select sequence, size_bytes from transcripts where created_at < ? order by created_at ' +
    'limit 1000',
)}) returning 1`

const LIST_OLDEST = 'select sequence, size_bytes from transcripts order by sequence limit 1000'

/** Creates the function that removes the oldest until the rest is small enough. */
const createTrim =
  (kysely: Kysely<Tables>, write: Write): TranscriptStore['trim'] =>
  async (bytes, now) => {
    let rows = 0
    const removeOldest = (last: number) =>
      kysely.deleteFrom('transcripts').where('sequence', '<=', last).returning('sequence')
    await write(
      follow(kysely.selectFrom('transcript_use').select('bytes'), ([use]) => {
        const excess = Math.min((use?.bytes ?? 0) - bytes, BYTES_AT_ONCE)
        if (excess <= 0) return []
        return [
          follow<Sized>(prepare(LIST_OLDEST), oldest => [
            follow(removeOldest(findLast(oldest, excess)), removed => {
              rows = removed.length
              return countEvicted({ kind: 'content', reason: 'size', rows }, now)
            }),
          ]),
        ]
      }),
    )
    return rows
  }

type Sized = Pick<Selectable<Tables['transcripts']>, 'sequence' | 'size_bytes'>

/** Finds the last of the oldest that have so many bytes. */
function findLast(oldest: Sized[], bytes: number): number {
  let [left, last] = [bytes, 0]
  for (const { sequence, size_bytes } of oldest) {
    if (left <= 0) break
    left -= size_bytes
    last = sequence
  }
  return last
}

const INSERT =
  'insert into transcripts (generation_id, workspace_id, key_hash, created_at, size_bytes, ' +
  'sealed) values (?, ?, ?, ?, ?, ?)'

/** Adds a transcript, in the recorder's transaction. */
export const addTranscript = ({
  generation_id,
  workspace_id,
  key_hash,
  created_at,
  size_bytes,
  sealed,
}: StoredTranscript): Statement =>
  prepare(INSERT, generation_id, workspace_id, key_hash, created_at, size_bytes, sealed)
