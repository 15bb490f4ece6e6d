import { type Kysely, sql } from 'kysely'
import {
  type Outcome,
  readOutcome,
  type StoredListQuery,
} from '../../observability/generations/filter.ts'
import type {
  Generation,
  GenerationStep,
  GenerationStore,
  ProviderResponse,
} from '../../observability/generations/store.ts'
import { createEvictor } from './generations/evicted.ts'
import { RECORD_COLUMNS } from './generations/rows.ts'
import { selectTexts } from './json-values.ts'
import type { Tables } from './tables.ts'
import type { Write } from './write.ts'

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

/** What records calls. */
export type Recording = Pick<
  GenerationStore,
  'isElsewhere' | 'gathering' | 'record' | 'keep' | 'flush'
> & {
  /** Whether records wait for their transaction. */
  readonly isWaiting: boolean
}

/** Creates the store of generations in SQL over what records them. */
export function createGenerationStore(
  kysely: Kysely<Tables>,
  write: Write,
  recording: Recording,
): GenerationStore {
  return {
    isElsewhere: recording.isElsewhere,
    gathering: recording.gathering,
    record: recording.record.bind(recording),
    keep: recording.keep.bind(recording),
    flush: recording.flush.bind(recording),
    evictBefore: createEvictor(write),
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
      const recorded = kysely.selectFrom('generations').select('id')
      const rows = await recorded.where('id', 'in', selectTexts(kysely, ids)).execute()
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

const OTHER_COLUMNS = RECORD_COLUMNS.filter(
  name => name !== 'total_cost' && name !== 'upstream_inference_cost',
)

const selectGenerations = (kysely: Kysely<Tables>) =>
  kysely
    .selectFrom('generations')
    .select(OTHER_COLUMNS)
    .select([
      sql<string | null>`cast(total_cost as text)`.as('total_cost'),
      sql<string | null>`cast(upstream_inference_cost as text)`.as('upstream_inference_cost'),
    ])

function addFilters(rows: Rows, query: StoredListQuery): Rows {
  const { id, key_hash, model, provider, status, since, until, app, session_id, cursor } = query
  let found = rows
  if (id !== undefined)
    // The second condition of the second half is that of its index.
    found = found.where(({ or, and, eb, ref }) =>
      or([eb('id', '=', id), and([eb('request_id', '=', id), eb('request_id', '<>', ref('id'))])]),
    )
  for (const name of ['workspace_id', 'user_id', 'batch_id'] as const) {
    const value = query[name]
    if (value !== undefined) found = found.where(name, '=', value)
  }
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
