import { type Insertable, type Kysely, type Selectable, sql } from 'kysely'
import { conflict } from '../../base/errors.ts'
import type { Guardrail, GuardrailStore, StoredCallBudget } from '../../limits/guardrails/store.ts'
import { buildAuditInsert } from './audit.ts'
import type { Tables } from './tables.ts'
import { checkWorkspaceReference } from './workspaces.ts'
import { type Check, check, checkFound, parseList, toColumns, type Write } from './write.ts'

/** Creates the store of guardrails in SQL. Deleting one deletes its assignments. */
export function createGuardrailStore(kysely: Kysely<Tables>, write: Write): GuardrailStore {
  return {
    async all(ids) {
      const rows = await kysely
        .selectFrom('guardrails')
        .selectAll()
        .$if(ids !== undefined, some => some.where('id', 'in', ids ?? []))
        .select(sql<string | null>`cast(limit_usd as text)`.as('limit_usd'))
        .execute()
      return rows.map(toGuardrail)
    },
    insert: (guardrail, entry) =>
      write(
        checkWorkspaceReference(kysely, guardrail.workspace_id),
        kysely.insertInto('guardrails').values(toRow(guardrail)),
        buildAuditInsert(kysely, entry),
      ),
    replace(guardrail, entry) {
      const update = kysely
        .updateTable('guardrails')
        .set(toRow(guardrail))
        .where('id', '=', guardrail.id)
      // The entry first: who requires a version is refused for that.
      return write(buildAuditInsert(kysely, entry), checkUnchanged(kysely, guardrail), update)
    },
    remove: (id, entry) =>
      write(
        checkFound(kysely.selectFrom('guardrails').select('id').where('id', '=', id), 'Guardrail'),
        kysely.deleteFrom('guardrails').where('id', '=', id),
        buildAuditInsert(kysely, entry),
      ),
  }
}

const checkUnchanged = (kysely: Kysely<Tables>, { id, revision }: Guardrail): Check =>
  check(kysely.selectFrom('guardrails').select('revision').where('id', '=', id), ([now]) => {
    if (now?.revision !== revision - 1)
      throw conflict('It was changed at the same moment. Please try again.')
  })

type Row = Selectable<Tables['guardrails']>

const LISTS = [
  'allowed_data_regions',
  'allowed_models',
  'allowed_providers',
  'ignored_models',
  'ignored_providers',
  'content_filter_builtins',
  'content_filters',
] as const satisfies (keyof Guardrail)[]

const FLAGS = [
  'filterOutput',
  'enable_free_model_publication',
  'enable_free_model_training',
  'enable_paid_model_training',
  'enforce_zdr',
  'enforce_zdr_anthropic',
  'enforce_zdr_google',
  'enforce_zdr_openai',
  'enforce_zdr_other',
  'enforce_zdr_xai',
  'include_byok_in_budgets',
] as const satisfies (keyof Guardrail)[]

const toGuardrail = (row: Row): Guardrail => ({
  ...row,
  ...mapFields(row, LISTS, text => parseList(text as string | null)),
  ...mapFields(row, FLAGS, flag => (flag === null ? null : flag === 1)),
  mcp: row.mcp === null ? null : JSON.parse(row.mcp),
  budgets: row.budgets === null ? null : parseBudgets(row.budgets),
  limit_usd: row.limit_usd === null ? null : BigInt(row.limit_usd),
})

const toRow = ({ mcp, budgets, ...guardrail }: Guardrail) => ({
  ...toColumns<Insertable<Omit<Tables['guardrails'], 'mcp' | 'budgets'>>>(guardrail),
  mcp: mcp && JSON.stringify(mcp),
  budgets: budgets && renderBudgets(budgets),
})

// JSON has no numbers as large as amounts of money.
const renderBudgets = (budgets: StoredCallBudget[]): string =>
  JSON.stringify(budgets.map(one => ({ ...one, limit_usd: String(one.limit_usd) })))

const parseBudgets = (json: string): StoredCallBudget[] =>
  (JSON.parse(json) as (StoredCallBudget & { limit_usd: string })[]).map(one => ({
    ...one,
    limit_usd: BigInt(one.limit_usd),
  }))

// In a loop: there may be thousands of guardrails.
function mapFields<Name extends string>(
  record: Record<Name, unknown>,
  names: readonly Name[],
  map: (value: unknown) => unknown,
): Record<Name, never> {
  const mapped: Partial<Record<Name, unknown>> = {}
  for (const name of names) mapped[name] = map(record[name])
  return mapped as Record<Name, never>
}
