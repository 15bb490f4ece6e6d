import type { Database } from 'bun:sqlite'
import { type Kysely, sql } from 'kysely'
import { GatewayError } from '../errors.ts'
import type { DaySpend } from '../ledger/ledger.ts'
import type { Generation, GenerationStore } from '../telemetry/generations.ts'
import type { Entry } from '../telemetry/recorder.ts'
import type { Tables } from './tables.ts'

/** The columns, in the order in which they are written. */
const COLUMNS = [
  'id',
  'request_id',
  'created_at',
  'workspace_id',
  'key_hash',
  'user_id',
  'api_type',
  'model',
  'provider_name',
  'provider_responses',
  'upstream_id',
  'streamed',
  'cancelled',
  'finish_reason',
  'native_finish_reason',
  'latency',
  'generation_time',
  'native_tokens_prompt',
  'native_tokens_completion',
  'native_tokens_reasoning',
  'native_tokens_cached',
  'native_tokens_completion_images',
  'settled_at',
  'total_cost',
  'upstream_inference_cost',
  'usageSource',
  'is_byok',
  'service_tier',
  'session_id',
  'external_user',
  'http_referer',
  'title',
  'user_agent',
  'error_type',
] as const satisfies readonly (keyof Generation)[]

/**
 * Generations in SQL. The writing is the hottest statement of the house and prepared by hand: one transaction for a batch,
 * synchronous inside, so that nothing of another request can come between.
 */
export function generationStore(kysely: Kysely<Tables>, db: Database): GenerationStore {
  const record = recorder(db)
  return {
    record(batch) {
      try {
        record.immediate(batch)
      } catch (error) {
        throw isConstraint(error) ? new GatewayError('conflict', 'The call cannot be recorded', { cause: error }) : error
      }
    },
    async byId(id) {
      const row = await rows(kysely).where('id', '=', id).executeTakeFirst()
      return row && generationOf(row)
    },
    // Rows are only ever added, so the newest stand last in the file: no index is needed to find them.
    async recent(limit) {
      return (await rows(kysely).orderBy(sql`rowid`, 'desc').limit(limit).execute()).map(generationOf)
    },
  }
}

function recorder(db: Database) {
  const generation = db.query(`insert into generations (${COLUMNS.join(', ')}) values (${COLUMNS.map(() => '?').join(', ')})`)
  const spend = db.query('insert into spend values (?, ?, ?, ?) on conflict do update set nanos = nanos + excluded.nanos')
  return db.transaction((batch: Entry[]) => {
    for (const one of batch) generation.run(...valuesOf(one.generation))
    for (const { key_hash, day, byok, nanos } of perDay(batch)) spend.run(key_hash, day, Number(byok), nanos)
  })
}

// A TypeError is a value that no column takes.
const isConstraint = (error: unknown) =>
  error instanceof TypeError || (error instanceof Error && 'code' in error && String(error.code).startsWith('SQLITE_CONSTRAINT'))

type Value = string | number | bigint | null

function valuesOf(generation: Generation): Value[] {
  const values: Value[] = []
  for (const name of COLUMNS) values.push(toSql(generation[name]))
  return values
}

function toSql(value: Generation[keyof Generation]): Value {
  if (typeof value === 'boolean') return value ? 1 : 0
  return typeof value === 'object' && value !== null ? JSON.stringify(value) : value
}

// The calls of a batch are mostly of few keys on one day: one statement for each of those, not for each call.
function perDay(batch: Entry[]): Iterable<DaySpend> {
  const sums = new Map<string, DaySpend>()
  for (const { charge } of batch) {
    if (!charge || charge.nanos === 0n) continue
    const name = `${charge.key_hash} ${charge.day} ${charge.byok}`
    const sum = sums.get(name)
    if (sum) sum.nanos += charge.nanos
    else sums.set(name, { key_hash: charge.key_hash, day: charge.day, byok: charge.byok, nanos: charge.nanos })
  }
  return sums.values()
}

const rows = (kysely: Kysely<Tables>) =>
  kysely
    .selectFrom('generations')
    .selectAll()
    .select([
      sql<string | null>`cast(total_cost as text)`.as('total_cost'),
      sql<string | null>`cast(upstream_inference_cost as text)`.as('upstream_inference_cost'),
    ])

type Row = Awaited<ReturnType<ReturnType<typeof rows>['execute']>>[number]

const generationOf = (row: Row): Generation => ({
  ...row,
  provider_responses: JSON.parse(row.provider_responses),
  streamed: row.streamed === 1,
  cancelled: row.cancelled === 1,
  is_byok: row.is_byok === 1,
  total_cost: row.total_cost === null ? null : BigInt(row.total_cost),
  upstream_inference_cost: row.upstream_inference_cost === null ? null : BigInt(row.upstream_inference_cost),
})
