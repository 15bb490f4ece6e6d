import { notFound } from '../../../src/base/errors.ts'
import type { StoredTranscript } from '../../../src/observability/generations/store.ts'
import type { TranscriptStore } from '../../../src/observability/transcripts.ts'
import { addAudit } from './audit.ts'
import { countEviction } from './evictions.ts'
import type { Connection } from './memory.ts'

/** Transcripts in memory. */
export const createMemoryTranscriptStore = (connection: Connection): TranscriptStore => ({
  find: id => connection.read(({ transcripts }) => transcripts.get(id)),
  computeUse: () => connection.read(({ transcripts }) => sumSizes(transcripts.all())),
  trim: (bytes, now) =>
    connection.write(memory => {
      const oldest = memory.transcripts.all().slice(0, 1_000)
      let rows = 0
      for (const { generation_id } of oldest) {
        if (sumSizes(memory.transcripts.all()) <= bytes) break
        memory.transcripts.remove(generation_id)
        rows += 1
      }
      countEviction(memory, { kind: 'content', reason: 'size', rows }, now)
      return rows
    }),
  removeBefore: (time, now) =>
    connection.write(memory => {
      const old = memory.transcripts.all(({ created_at }) => created_at < time).slice(0, 1_000)
      for (const { generation_id } of old) memory.transcripts.remove(generation_id)
      countEviction(memory, { kind: 'content', reason: 'age', rows: old.length }, now)
      return old.length
    }),
  remove: (id, entry) =>
    connection.write(memory => {
      if (!memory.transcripts.get(id)) throw notFound('Content not found')
      memory.transcripts.remove(id)
      addAudit(memory, entry)
    }),
})

const sumSizes = (transcripts: StoredTranscript[]): number =>
  transcripts.reduce((sum, { size_bytes }) => sum + size_bytes, 0)
