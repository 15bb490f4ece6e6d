import type { Database } from 'bun:sqlite'
import { type Kysely, sql } from 'kysely'
import { GatewayError } from '../../errors.ts'
import type { DaySpend, StepCharge } from '../../ledger/ledger.ts'
import type { Generation, GenerationStore } from '../../telemetry/generations.ts'
import type { Entry } from '../../telemetry/recorder.ts'
import { ledgerWriter } from './ledger.ts'
import { outboxWriter } from './outbox.ts'
import type { Tables } from './tables.ts'

/** The value of every column. Booleans, lists and objects are converted, as SQL lacks them. */
const COLUMNS: { [Name in keyof Generation]: (one: Generation) => Value } = {
  id: one => one.id,
  request_id: one => one.request_id,
  created_at: one => one.created_at,
  workspace_id: one => one.workspace_id,
  key_hash: one => one.key_hash,
  user_id: one => one.user_id,
  api_type: one => one.api_type,
  model: one => one.model,
  provider_name: one => one.provider_name,
  provider_responses: one => JSON.stringify(one.provider_responses),
  upstream_id: one => one.upstream_id,
  streamed: one => Number(one.streamed),
  cancelled: one => Number(one.cancelled),
  finish_reason: one => one.finish_reason,
  native_finish_reason: one => one.native_finish_reason,
  latency: one => one.latency,
  generation_time: one => one.generation_time,
  native_tokens_prompt: one => one.native_tokens_prompt,
  native_tokens_completion: one => one.native_tokens_completion,
  native_tokens_reasoning: one => one.native_tokens_reasoning,
  native_tokens_cached: one => one.native_tokens_cached,
  native_tokens_completion_images: one => one.native_tokens_completion_images,
  settled_at: one => one.settled_at,
  total_cost: one => one.total_cost,
  upstream_inference_cost: one => one.upstream_inference_cost,
  usageSource: one => one.usageSource,
  is_byok: one => Number(one.is_byok),
  service_tier: one => one.service_tier,
  session_id: one => one.session_id,
  external_user: one => one.external_user,
  http_referer: one => one.http_referer,
  title: one => one.title,
  user_agent: one => one.user_agent,
  error_type: one => one.error_type,
  preset_id: one => one.preset_id,
  data_region: one => one.data_region,
  router: one => one.router,
  contentFilters: one =>
    one.contentFilters.length === 0 ? '[]' : JSON.stringify(one.contentFilters),
}

const NAMES = Object.keys(COLUMNS)
const VALUES = Object.values(COLUMNS)

/**
 * Creates the store of generations in SQL. Recording runs the hottest statements of the gateway, so
 * they are prepared by hand. A batch is one transaction, synchronous inside, so that no other
 * request's statements can run in between.
 */
export function generationStore(kysely: Kysely<Tables>, db: Database): GenerationStore {
  const record = recorder(db)
  return {
    async record(batch) {
      try {
        record.immediate(batch)
      } catch (error) {
        throw isConstraint(error)
          ? new GatewayError('conflict', 'The call cannot be recorded', { cause: error })
          : error
      }
    },
    async byId(id) {
      const row = await rows(kysely).where('id', '=', id).executeTakeFirst()
      return row && generationOf(row)
    },
    // Rows are only ever added, so the newest have the highest rowids: no index is needed.
    async recent(limit) {
      return (await rows(kysely).orderBy(sql`rowid`, 'desc').limit(limit).execute()).map(
        generationOf,
      )
    },
    // Reads from the newest row back to the first that was settled before the moment. A call that
    // began since was also settled since.
    async freeSince(moment) {
      const since = moment.toISOString()
      const before = kysely
        .selectFrom('generations')
        .select(sql<number>`rowid`.as('row'))
        .where('settled_at', '<', since)
      const last = await before.orderBy(sql`rowid`, 'desc').limit(1).executeTakeFirst()
      const { count } = await kysely
        .selectFrom('generations')
        .select(({ fn }) => fn.countAll<number>().as('count'))
        .where(sql`rowid`, '>', last?.row ?? 0)
        .where('created_at', '>=', since)
        .where(({ or, eb }) => or([eb('model', 'like', '%:free'), eb('router', 'like', '%/free%')]))
        .executeTakeFirstOrThrow()
      return count
    },
  }
}

function recorder(db: Database) {
  const generation = db.query(
    `insert into generations (${NAMES.join(', ')}) values (${NAMES.map(() => '?').join(', ')})`,
  )
  const ledger = ledgerWriter(db)
  const tell = outboxWriter(db)
  const recorded = db.query('select 1 from generations where id = ?')
  return db.transaction((batch: Entry[]) => {
    for (const { generation: ended, charge } of batch)
      if (!ended && charge && recorded.get(charge.id)) throw new TypeError('The call has ended')
    const charges: (StepCharge & { continued: boolean })[] = []
    for (const entry of batch) {
      if (entry.generation) generation.run(...valuesOf(entry.generation))
      if (entry.charge && leavesRow(entry.charge, entry.generation))
        charges.push(rowOf(entry.charge, entry.generation === null))
      if (entry.outbox) tell(entry)
    }
    if (charges.length > 0) ledger.append(charges)
    for (const sum of perDay(charges)) ledger.count(sum)
  })
}

// Field by field: copying an object with a rest pattern costs more than writing it.
const rowOf = (charge: StepCharge, continued: boolean) => {
  const { id, step, day, settled_at, key_hash, user_id, workspace_id, byok, nanos, source } = charge
  return {
    id,
    step,
    day,
    settled_at,
    key_hash,
    user_id,
    workspace_id,
    byok,
    nanos,
    source,
    continued,
  }
}

// A call that continues has no generation yet, so only the row shows that its step was settled.
const leavesRow = ({ nanos }: StepCharge, generation: Generation | null): boolean =>
  nanos !== 0n || generation === null

// A TypeError means a value that no column accepts.
const isConstraint = (error: unknown) =>
  error instanceof TypeError ||
  (error instanceof Error && 'code' in error && String(error.code).startsWith('SQLITE_CONSTRAINT'))

type Value = string | number | bigint | null

const valuesOf = (generation: Generation): Value[] => VALUES.map(value => value(generation))

// Most calls of a batch share a few keys and one day, so there is one statement per key and day.
function perDay(charges: StepCharge[]): Iterable<DaySpend> {
  const sums = new Map<string, DaySpend>()
  for (const charge of charges) {
    if (charge.nanos === 0n) continue
    const name = `${charge.key_hash} ${charge.day} ${charge.byok}`
    const sum = sums.get(name)
    if (sum) sum.nanos += charge.nanos
    else sums.set(name, { ...charge })
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
  contentFilters: JSON.parse(row.contentFilters),
  streamed: row.streamed === 1,
  cancelled: row.cancelled === 1,
  is_byok: row.is_byok === 1,
  total_cost: row.total_cost === null ? null : BigInt(row.total_cost),
  upstream_inference_cost:
    row.upstream_inference_cost === null ? null : BigInt(row.upstream_inference_cost),
})
