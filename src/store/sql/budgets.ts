import { type Kysely, sql } from 'kysely'
import type { Budget, BudgetStore } from '../../limits/budgets/store.ts'
import { assertLimitsDecrease } from '../../limits/budgets.ts'
import { buildAuditInsert } from './audit.ts'
import type { Tables } from './tables.ts'
import { checkWorkspaceExists } from './workspaces.ts'
import { check, type Statement, type Write } from './write.ts'

/** Creates the store of budgets in SQL. */
export function createBudgetStore(kysely: Kysely<Tables>, write: Write): BudgetStore {
  return {
    async all(names) {
      const rows = selectBudgets(kysely)
      // A name begins with the workspace.
      const workspaces = names?.map(name => name.split(' ')[0] ?? '')
      const some = workspaces ? rows.where('workspace_id', 'in', workspaces) : rows
      return (await some.execute()).map(toBudget)
    },
    upsert: (budget, include_byok_in_budgets, entry) =>
      write(
        checkWorkspaceExists(kysely, budget.workspace_id),
        ...buildUpsert(kysely, budget),
        check(selectBudgets(kysely).where('workspace_id', '=', budget.workspace_id), rows =>
          assertLimitsDecrease(rows.map(toBudget)),
        ),
        ...buildByokSetting(kysely, budget.workspace_id, include_byok_in_budgets),
        buildAuditInsert(kysely, entry),
      ),
    remove: (id, entry) =>
      write(kysely.deleteFrom('budgets').where('id', '=', id), buildAuditInsert(kysely, entry)),
  }
}

const selectBudgets = (kysely: Kysely<Tables>) =>
  kysely
    .selectFrom('budgets')
    .selectAll()
    .select(sql<string>`cast(limit_usd as text)`.as('limit_usd'))

type Row = Omit<Budget, 'limit_usd' | 'soft'> & { limit_usd: string; soft: number | null }

const toBudget = (row: Row): Budget => ({
  ...row,
  soft: row.soft === 1,
  limit_usd: BigInt(row.limit_usd),
})

// Not one statement: which row that changes is not known before.
const buildUpsert = (kysely: Kysely<Tables>, budget: Budget): Statement[] => [
  kysely
    .updateTable('budgets')
    .set({
      limit_usd: budget.limit_usd,
      soft: toColumn(budget),
      updated_at: budget.updated_at,
    })
    .where('id', '=', budget.id),
  kysely
    .insertInto('budgets')
    .values({ ...budget, soft: toColumn(budget) })
    .onConflict(on => on.column('id').doNothing()),
]

// Null of one that is not soft, as of those from before there were any: seals leave that out.
const toColumn = ({ soft }: Budget): 1 | null => (soft ? 1 : null)

const buildByokSetting = (
  kysely: Kysely<Tables>,
  id: string,
  included: boolean | undefined,
): Statement[] =>
  included === undefined
    ? []
    : [
        kysely
          .updateTable('workspaces')
          .set({ include_byok_in_budgets: Number(included) })
          .where('id', '=', id),
      ]
