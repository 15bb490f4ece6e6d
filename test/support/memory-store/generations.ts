import { conflict, GatewayError } from '../../../src/base/errors.ts'
import {
  type GenerationListQuery,
  type Outcome,
  readOutcome,
} from '../../../src/observability/generations/filter.ts'
import type {
  Generation,
  GenerationStore,
  RecorderEntry,
} from '../../../src/observability/generations/store.ts'
import type { WrittenMessages } from '../../../src/observability/outbox.ts'
import { addResult } from './batches.ts'
import { countEviction } from './evictions.ts'
import { nameFeedback } from './feedback.ts'
import { addCallSpend, addRow, addSpend } from './ledger.ts'
import type { Connection, Memory } from './memory.ts'
import { addMessages } from './outbox.ts'
import { readCursor } from './rollups.ts'

/** Generations in memory. */
export const createMemoryGenerationStore = (connection: Connection): GenerationStore => ({
  record: batch => connection.write(memory => batch.flatMap(entry => record(memory, entry))),
  keep: async () => [],
  flush: async () => undefined,
  evictBefore: (midnight, now) =>
    connection.write(memory => {
      const all = memory.generations.all()
      const counted = readCursor(memory) - memory.evicted.all().length
      const oldest = all.slice(0, Math.min(counted, all.length - 1, 1_000))
      const old = oldest.filter(({ settled_at }) => settled_at < midnight)
      for (const call of old) evict(memory, call)
      countEviction(memory, { kind: 'generations', reason: 'age', rows: old.length }, now)
      return old.length
    }),
  byId: id => connection.read(({ generations }) => generations.get(id)),
  filterRecorded: ids =>
    connection.read(
      ({ generations }) => new Set(ids.filter(id => generations.get(id) !== undefined)),
    ),
  listIds: (beginning, limit) =>
    connection.read(({ generations }) =>
      generations
        .all(({ id }) => id.startsWith(beginning))
        .map(({ id }) => id)
        .sort()
        .slice(0, limit),
    ),
  list: (query, limit) =>
    connection.read(({ generations }) => {
      const all = generations.all().reverse()
      const start = query.cursor ? all.findIndex(({ id }) => id === query.cursor) + 1 : 0
      if (query.cursor && start === 0) return []
      return all
        .slice(start)
        .filter(one => matchesQuery(one, query))
        .slice(0, limit)
    }),
  countFreeCalls: moment =>
    connection.read(({ generations }) => {
      const since = moment.toISOString()
      const isFree = (model: string, router: string | null) =>
        /:free$/i.test(model) || /\/free/i.test(router ?? '')
      return generations.all(one => one.created_at >= since && isFree(one.model, one.router)).length
    }),
})

function evict(memory: Memory, call: Generation): void {
  memory.evicted.insert(call.id, call)
  memory.generations.remove(call.id)
  memory.transcripts.remove(call.id)
  for (const { id } of memory.videos.all(job => job.generation_id === call.id))
    memory.videos.remove(id)
  for (const one of memory.feedback.all(({ generation_id }) => generation_id === call.id))
    memory.feedback.remove(nameFeedback(one))
}

function record(memory: Memory, entry: RecorderEntry): WrittenMessages[] {
  const { generation, charge } = entry
  if (generation)
    refuseWhatNoColumnTakes(() => memory.generations.insert(generation.id, generation))
  // For a call that continues, nothing else shows that this step was settled.
  if (charge && (charge.nanos !== 0n || generation === null)) addRow(memory, charge)
  if (charge && charge.nanos !== 0n) addSpend(memory, charge)
  if (charge?.subaccounts && charge.nanos !== 0n) addCallSpend(memory, charge)
  const written = addMessages(memory, entry)
  if (entry.job) memory.videos.update(entry.job.id, { ...entry.job, details: '' })
  if (entry.result) addResult(memory, entry.result)
  if (entry.transcript) memory.transcripts.insert(entry.transcript.generation_id, entry.transcript)
  return written
}

function refuseWhatNoColumnTakes(insert: () => void): void {
  try {
    insert()
  } catch (thrown) {
    throw thrown instanceof GatewayError ? thrown : conflict('The call cannot be recorded')
  }
}

/** Whether a call is one that a list asks for, but for the page. */
function matchesQuery(call: Generation, query: GenerationListQuery): boolean {
  const { id, key_hash, model, provider, status, since, until, app, session_id } = query
  return (
    (id === undefined || call.id === id || call.request_id === id) &&
    (key_hash === undefined || call.key_hash === key_hash) &&
    (model === undefined || call.model === model) &&
    (provider === undefined || call.provider_name?.toLowerCase() === provider.toLowerCase()) &&
    (status === undefined || hasOutcome(call, readOutcome(status))) &&
    (since === undefined || call.created_at >= since) &&
    (until === undefined || call.created_at < until) &&
    (app === undefined || call.http_referer === app || call.title === app) &&
    (session_id === undefined || call.session_id === session_id)
  )
}

const hasOutcome = (call: Generation, { cancelled, types }: Outcome): boolean =>
  call.cancelled === cancelled &&
  (types === null ||
    (types.length === 0 ? call.error_type === null : types.includes(call.error_type ?? '')))
