import { conflict, GatewayError } from '../../../src/core/errors.ts'
import { matchesQuery } from '../../../src/core/telemetry/generations/filter.ts'
import type { Generation, GenerationStore } from '../../../src/core/telemetry/generations.ts'
import type { RecorderEntry } from '../../../src/core/telemetry/recorder.ts'
import type { UsageGroup, UsageQuery } from '../../../src/core/telemetry/usage.ts'
import { countEviction } from './evictions.ts'
import { nameFeedback } from './feedback.ts'
import { addRow, addSpend } from './ledger.ts'
import type { Connection, Memory } from './memory.ts'
import { addMessages } from './outbox.ts'

/** Generations in memory. */
export const createMemoryGenerationStore = (connection: Connection): GenerationStore => ({
  record: batch =>
    connection.write(memory => {
      for (const entry of batch) record(memory, entry)
    }),
  evictBefore: (midnight, now) =>
    connection.write(memory => {
      const oldest = memory.generations.all().slice(0, 1_000)
      const old = oldest.filter(({ settled_at }) => settled_at < midnight)
      for (const call of old) evict(memory, call)
      countEviction(memory, { kind: 'generations', reason: 'age', rows: old.length }, now)
      return old.length
    }),
  byId: id => connection.read(({ generations }) => generations.get(id)),
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
  sum: (by, query) =>
    connection.read(({ generations, evicted }) => {
      const removed = evicted
        .all()
        .map(call => ({ ...call, settled_at: `${call.settled_at.slice(0, 10)}T00:00:00.000Z` }))
      const all = [...generations.all(), ...removed]
      const matching = all.filter(call => isCounted(call, query))
      const groups = Map.groupBy(matching, call => readGroup(call, by))
      return [...groups]
        .sort(([a], [b]) => ((a ?? '') < (b ?? '') ? -1 : 1))
        .map(([group, calls]) => ({ group, calls: calls.length, ...sumCalls(calls) }))
    }),
  countFreeCalls: moment =>
    connection.read(({ generations }) => {
      const since = moment.toISOString()
      const isFree = (model: string, router: string | null) =>
        /:free$/i.test(model) || /\/free/i.test(router ?? '')
      return generations.all(one => one.created_at >= since && isFree(one.model, one.router)).length
    }),
})

const readGroup = (call: Generation, by: UsageGroup): string | null =>
  ({
    day: call.settled_at.slice(0, 10),
    key: call.key_hash,
    model: call.model,
    provider: call.provider_name,
  })[by]

const isCounted = (
  call: Generation,
  { since = '', until = '~', key_hash, model, provider }: UsageQuery,
): boolean =>
  call.settled_at >= since &&
  call.settled_at < until &&
  (key_hash === undefined || call.key_hash === key_hash) &&
  (model === undefined || call.model === model) &&
  (provider === undefined || call.provider_name?.toLowerCase() === provider.toLowerCase())

const sumCalls = (calls: Generation[]) => ({
  input_tokens: calls.reduce((sum, call) => sum + call.native_tokens_prompt, 0),
  output_tokens: calls.reduce((sum, call) => sum + call.native_tokens_completion, 0),
  cost: calls.reduce((sum, call) => sum + (call.total_cost ?? 0n), 0n),
  byok_cost: calls.reduce(
    (sum, call) => sum + (call.is_byok ? (call.upstream_inference_cost ?? 0n) : 0n),
    0n,
  ),
})

function evict(memory: Memory, call: Generation): void {
  memory.evicted.insert(call.id, call)
  memory.generations.remove(call.id)
  memory.transcripts.remove(call.id)
  for (const one of memory.feedback.all(({ generation_id }) => generation_id === call.id))
    memory.feedback.remove(nameFeedback(one))
}

function record(memory: Memory, entry: RecorderEntry): void {
  const { generation, charge } = entry
  if (generation)
    refuseWhatNoColumnTakes(() => memory.generations.insert(generation.id, generation))
  // For a call that continues, nothing else shows that this step was settled.
  if (charge && (charge.nanos !== 0n || generation === null)) addRow(memory, charge)
  if (charge && charge.nanos !== 0n) addSpend(memory, charge)
  addMessages(memory, entry)
  if (entry.transcript) memory.transcripts.insert(entry.transcript.generation_id, entry.transcript)
}

function refuseWhatNoColumnTakes(insert: () => void): void {
  try {
    insert()
  } catch (thrown) {
    throw thrown instanceof GatewayError ? thrown : conflict('The call cannot be recorded')
  }
}
