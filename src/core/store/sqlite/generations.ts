import type { Database } from 'bun:sqlite'
import { type Kysely, sql } from 'kysely'
import { GatewayError } from '../../errors.ts'
import type { Mac } from '../../kernel/mac.ts'
import type { DaySpend, StepCharge } from '../../ledger/ledger.ts'
import {
  type GenerationListQuery,
  type Outcome,
  readOutcome,
} from '../../telemetry/generations/filter.ts'
import type {
  Generation,
  GenerationStep,
  GenerationStore,
  ProviderResponse,
} from '../../telemetry/generations.ts'
import type { RecorderEntry } from '../../telemetry/recorder.ts'
import type { FreshCalls } from '../../telemetry/rollups/slice.ts'
import { nameDatabase } from '../data-files.ts'
import { createEvictor } from './generations/evicted.ts'
import { createRecordSealer, type SealedValue } from './generations/sealing.ts'
import { createLedgerWriter } from './ledger.ts'
import { createOutboxWriter } from './outbox.ts'
import type { Tables } from './tables.ts'
import { createTranscriptWriter } from './transcripts.ts'
import { createVideoWriter } from './videos.ts'

/**
 * The value of every column. Booleans, lists and objects are converted, as SQL lacks them. New ones
 * come last: seals cover the first so many.
 */
const COLUMNS: { [Name in keyof Generation]: (generation: Generation) => Value } = {
  id: generation => generation.id,
  request_id: generation => generation.request_id,
  created_at: generation => generation.created_at,
  workspace_id: generation => generation.workspace_id,
  key_hash: generation => generation.key_hash,
  user_id: generation => generation.user_id,
  api_type: generation => generation.api_type,
  model: generation => generation.model,
  provider_name: generation => generation.provider_name,
  provider_responses: generation => JSON.stringify(generation.provider_responses),
  upstream_id: generation => generation.upstream_id,
  streamed: generation => Number(generation.streamed),
  cancelled: generation => Number(generation.cancelled),
  finish_reason: generation => generation.finish_reason,
  native_finish_reason: generation => generation.native_finish_reason,
  latency: generation => generation.latency,
  generation_time: generation => generation.generation_time,
  native_tokens_prompt: generation => generation.native_tokens_prompt,
  native_tokens_completion: generation => generation.native_tokens_completion,
  native_tokens_reasoning: generation => generation.native_tokens_reasoning,
  native_tokens_cached: generation => generation.native_tokens_cached,
  native_tokens_completion_images: generation => generation.native_tokens_completion_images,
  settled_at: generation => generation.settled_at,
  total_cost: generation => generation.total_cost,
  upstream_inference_cost: generation => generation.upstream_inference_cost,
  usageSource: generation => generation.usageSource,
  is_byok: generation => Number(generation.is_byok),
  service_tier: generation => generation.service_tier,
  session_id: generation => generation.session_id,
  external_user: generation => generation.external_user,
  http_referer: generation => generation.http_referer,
  title: generation => generation.title,
  user_agent: generation => generation.user_agent,
  error_type: generation => generation.error_type,
  preset_id: generation => generation.preset_id,
  data_region: generation => generation.data_region,
  router: generation => generation.router,
  response_cache_source_id: generation => generation.response_cache_source_id,
  batch_id: generation => generation.batch_id,
  contentFilters: generation =>
    generation.contentFilters.length === 0 ? '[]' : JSON.stringify(generation.contentFilters),
  steps: ({ steps }) => (steps.length === 0 ? '[]' : renderSteps(steps)),
}

// JSON has no whole numbers of that size.
const renderSteps = (steps: GenerationStep[]): string =>
  JSON.stringify(steps.map(({ cost, ...step }) => ({ ...step, cost: cost?.toString() ?? null })))

const parseSteps = (json: string): GenerationStep[] =>
  parseReadable<Omit<GenerationStep, 'cost'> & { cost: string | null }>(json).map(
    ({ cost, ...step }) => ({ ...step, cost: cost === null ? null : BigInt(cost) }),
  )

// One garbled record hides no other: it is shown without its list, and `doctor` names it.
function parseReadable<Item>(json: string): Item[] {
  try {
    return JSON.parse(json)
  } catch {
    return []
  }
}

/** The columns of a record, in the order in which they are sealed. */
export const NAMES = Object.keys(COLUMNS)
const VALUES = Object.values(COLUMNS)
/** Where money is: as text in a seal. */
const MONEY = ['total_cost', 'upstream_inference_cost'].map(name => NAMES.indexOf(name))

/**
 * Creates the store of generations in SQL. Recording runs the hottest statements of the gateway, so
 * they are prepared by hand. A batch is one transaction, synchronous inside, so that no other
 * request's statements can run in between. `fresh` notes what is on record.
 */
export function createGenerationStore(
  kysely: Kysely<Tables>,
  db: Database,
  mac: Mac,
  fresh: FreshCalls,
): GenerationStore {
  const record = createRecorder(db, mac)
  return {
    async record(batch) {
      try {
        const recorded = nameDatabase(db.filename, () => record.immediate(batch))
        for (const { generation, row } of recorded) fresh.note(generation, row)
      } catch (error) {
        throw isConstraint(error)
          ? new GatewayError('conflict', 'The call cannot be recorded', { cause: error })
          : error
      }
    },
    evictBefore: createEvictor(db),
    async byId(id) {
      const row = await selectGenerations(kysely).where('id', '=', id).executeTakeFirst()
      return row && toGeneration(row)
    },
    // Rows are only ever added, so the newest have the highest rowids.
    async list(query, limit) {
      const rows = addFilters(selectGenerations(kysely), query)
      return (await rows.orderBy(sql`rowid`, 'desc').limit(limit).execute()).map(toGeneration)
    },
    // A range of the primary key: no character comes after the last one.
    async listIds(beginning, limit) {
      const ids = kysely
        .selectFrom('generations')
        .select('id')
        .where('id', '>=', beginning)
        .where('id', '<', `${beginning}\u{10ffff}`)
      return (await ids.limit(limit).execute()).map(({ id }) => id)
    },
    // As one list of JSON, since a statement takes a bounded number of values.
    async filterRecorded(ids) {
      const { rows } = await sql<{ id: string }>`
        select id from generations where id in (select value from json_each(${JSON.stringify(ids)}))
      `.execute(kysely)
      return new Set(rows.map(({ id }) => id))
    },
    // Reads from the newest row back to the first that was settled before the moment. A call that
    // began since was also settled since.
    async countFreeCalls(moment) {
      const since = moment.toISOString()
      const before = kysely
        .selectFrom('generations')
        .select(sql<number>`rowid`.as('row'))
        .where('settled_at', '<', since)
        // A correction counts on an earlier day than the rows around it.
        .where('api_type', '<>', 'correction')
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

function createRecorder(db: Database, mac: Mac) {
  const insertGeneration = db.query(
    `insert into generations (${NAMES.join(', ')}) values (${NAMES.map(() => '?').join(', ')})`,
  )
  const ledgerWriter = createLedgerWriter(db, mac)
  const sealRecords = createRecordSealer(db, mac)
  const writeOutbox = createOutboxWriter(db)
  const writeTranscript = createTranscriptWriter(db)
  const endVideo = createVideoWriter(db)
  const findGeneration = db.query('select 1 from generations where id = ?')
  return db.transaction((batch: RecorderEntry[]) => {
    for (const { generation: finished, charge } of batch)
      if (!finished && charge && findGeneration.get(charge.id))
        throw new TypeError('The call has ended')
    const charges: (StepCharge & { continued: boolean })[] = []
    const recorded: { generation: Generation; row: number }[] = []
    const sealed: SealedValue[][] = []
    for (const entry of batch) {
      const { generation } = entry
      if (generation) {
        const values = toValues(generation)
        const { lastInsertRowid } = insertGeneration.run(...values)
        sealed.push(toSealed(values))
        recorded.push({ generation, row: Number(lastInsertRowid) })
      }
      if (entry.charge && needsRow(entry.charge, entry.generation))
        charges.push(toChargeRow(entry.charge, entry.generation === null))
      if (entry.transcript) writeTranscript(entry.transcript)
      if (entry.job) endVideo(entry.job)
    }
    writeOutbox(batch)
    if (recorded[0]) sealRecords(recorded[0].row, sealed)
    if (charges.length > 0) ledgerWriter.append(charges)
    for (const sum of sumPerDay(charges)) ledgerWriter.count(sum)
    return recorded
  })
}

// Field by field: copying an object with a rest pattern costs more than writing it.
const toChargeRow = (charge: StepCharge, continued: boolean) => {
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
const needsRow = ({ nanos }: StepCharge, generation: Generation | null): boolean =>
  nanos !== 0n || generation === null

// A TypeError means a value that no column accepts.
const isConstraint = (error: unknown) =>
  error instanceof TypeError ||
  (error instanceof Error && 'code' in error && String(error.code).startsWith('SQLITE_CONSTRAINT'))

type Value = string | number | bigint | null

function toValues(generation: Generation): Value[] {
  const values: Value[] = []
  for (const toValue of VALUES) values.push(toValue(generation))
  return values
}

// In place: the values have been written, and nothing else needs them.
function toSealed(values: Value[]): SealedValue[] {
  for (const place of MONEY)
    if (typeof values[place] === 'bigint') values[place] = String(values[place])
  return values as SealedValue[]
}

// Most calls of a batch share a few keys and one day, so there is one statement per key and day.
function sumPerDay(charges: StepCharge[]): Iterable<DaySpend> {
  const sums = new Map<string, DaySpend>()
  for (const charge of charges) {
    if (charge.nanos === 0n) continue
    const payer = `${charge.key_hash} ${charge.day} ${charge.byok}`
    const sum = sums.get(payer)
    if (sum) sum.nanos += charge.nanos
    else sums.set(payer, { ...charge })
  }
  return sums.values()
}

const selectGenerations = (kysely: Kysely<Tables>) =>
  kysely
    .selectFrom('generations')
    .selectAll()
    .select([
      sql<string | null>`cast(total_cost as text)`.as('total_cost'),
      sql<string | null>`cast(upstream_inference_cost as text)`.as('upstream_inference_cost'),
    ])

function addFilters(rows: Rows, query: GenerationListQuery): Rows {
  const { id, key_hash, model, provider, status, since, until, app, session_id, cursor } = query
  let found = rows
  if (id !== undefined)
    // The second condition of the second half is that of its index.
    found = found.where(({ or, and, eb, ref }) =>
      or([eb('id', '=', id), and([eb('request_id', '=', id), eb('request_id', '<>', ref('id'))])]),
    )
  if (key_hash !== undefined) found = found.where('key_hash', '=', key_hash)
  if (model !== undefined) found = found.where('model', '=', model)
  if (provider !== undefined)
    found = found.where(sql`lower(provider_name)`, '=', provider.toLowerCase())
  if (status !== undefined) found = addOutcome(found, readOutcome(status))
  if (since !== undefined) found = found.where('created_at', '>=', since)
  if (until !== undefined) found = found.where('created_at', '<', until)
  if (app !== undefined)
    found = found.where(({ or, eb }) => or([eb('http_referer', '=', app), eb('title', '=', app)]))
  if (session_id !== undefined) found = found.where('session_id', '=', session_id)
  if (cursor !== undefined)
    found = found.where(sql`rowid`, '<', sql`(select rowid from generations where id = ${cursor})`)
  return found
}

function addOutcome(rows: Rows, { cancelled, types }: Outcome): Rows {
  const found = rows.where('cancelled', '=', Number(cancelled))
  if (types === null) return found
  return types.length === 0
    ? found.where('error_type', 'is', null)
    : found.where('error_type', 'in', types)
}

type Rows = ReturnType<typeof selectGenerations>
type Row = Awaited<ReturnType<ReturnType<typeof selectGenerations>['execute']>>[number]

// Earlier versions stored no reason.
const fillProviderResponse = (stored: ProviderResponse): ProviderResponse => ({
  ...stored,
  request_id: stored.request_id ?? null,
  error: stored.error ?? null,
})

const toGeneration = (row: Row): Generation => ({
  ...row,
  provider_responses: parseReadable<ProviderResponse>(row.provider_responses).map(
    fillProviderResponse,
  ),
  contentFilters: parseReadable(row.contentFilters),
  steps: parseSteps(row.steps),
  streamed: row.streamed === 1,
  cancelled: row.cancelled === 1,
  is_byok: row.is_byok === 1,
  total_cost: row.total_cost === null ? null : BigInt(row.total_cost),
  upstream_inference_cost:
    row.upstream_inference_cost === null ? null : BigInt(row.upstream_inference_cost),
})
