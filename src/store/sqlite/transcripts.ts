import type { Database } from 'bun:sqlite'
import type { Kysely } from 'kysely'
import { notFound } from '../../base/errors.ts'
import type { StoredTranscript } from '../../observability/generations/store.ts'
import type { TranscriptStore } from '../../observability/transcripts.ts'
import { buildAuditInsert } from './audit.ts'
import { BYTES_AT_ONCE, selectFitting } from './erasing.ts'
import { createEvictionCounter, createRemoval } from './evictions.ts'
import type { Tables } from './tables.ts'
import { check, type Write } from './write.ts'

/** Creates the store of transcripts in SQL. `generations.ts` writes them with their calls. */
export const createTranscriptStore = (
  kysely: Kysely<Tables>,
  db: Database,
  write: Write,
): TranscriptStore => ({
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
  trim: createTrim(db),
  removeBefore: createRemoval(db, 'content', REMOVE_OLD),
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
)})`

/** Creates the function that removes the oldest until the rest is small enough. */
function createTrim(db: Database): TranscriptStore['trim'] {
  const readUse = db.query<{ bytes: number }, []>('select bytes from transcript_use')
  const listOldest = db.query<{ sequence: number; size_bytes: number }, []>(
    'select sequence, size_bytes from transcripts order by sequence limit 1000',
  )
  const remove = db.query('delete from transcripts where sequence <= ?')
  const count = createEvictionCounter(db)
  const trim = db.transaction((bytes: number, now: string) => {
    let excess = Math.min((readUse.get()?.bytes ?? 0) - bytes, BYTES_AT_ONCE)
    if (excess <= 0) return 0
    let last = 0
    for (const { sequence, size_bytes } of listOldest.all()) {
      if (excess <= 0) break
      excess -= size_bytes
      last = sequence
    }
    const { changes: rows } = remove.run(last)
    count({ kind: 'content', reason: 'size', rows }, now)
    return rows
  })
  return async (bytes, now) => trim.immediate(bytes, now)
}

/** Creates the function that adds a transcript, inside the recorder's transaction. */
export function createTranscriptWriter(db: Database): (transcript: StoredTranscript) => void {
  const insert = db.query(
    'insert into transcripts (generation_id, workspace_id, key_hash, created_at, size_bytes, ' +
      'sealed) values (?, ?, ?, ?, ?, ?)',
  )
  return ({ generation_id, workspace_id, key_hash, created_at, size_bytes, sealed }) =>
    void insert.run(generation_id, workspace_id, key_hash, created_at, size_bytes, sealed)
}
