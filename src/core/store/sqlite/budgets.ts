import { type Kysely, sql } from 'kysely'
import type { Budget, BudgetStore } from '../../policy/budgets/store.ts'
import { mustDecrease } from '../../policy/budgets.ts'
import { auditInsert } from './audit.ts'
import type { Tables } from './tables.ts'
import { isThere } from './workspaces.ts'
import { check, type Statement, type Write } from './write.ts'

/** Creates the store of budgets in SQL. */
export function budgetStore(kysely: Kysely<Tables>, write: Write): BudgetStore {
  return {
    all: async () => (await reading(kysely).execute()).map(budgetOf),
    upsert: (budget, include_byok_in_budgets, entry) =>
      write(
        isThere(kysely, budget.workspace_id),
        upsert(kysely, budget),
        check(reading(kysely).where('workspace_id', '=', budget.workspace_id), rows =>
          mustDecrease(rows.map(budgetOf)),
        ),
        ...byokSetting(kysely, budget.workspace_id, include_byok_in_budgets),
        auditInsert(kysely, entry),
      ),
    remove: (id, entry) =>
      write(kysely.deleteFrom('budgets').where('id', '=', id), auditInsert(kysely, entry)),
  }
}

const reading = (kysely: Kysely<Tables>) =>
  kysely
    .selectFrom('budgets')
    .selectAll()
    .select(sql<string>`cast(limit_usd as text)`.as('limit_usd'))

const budgetOf = (row: Omit<Budget, 'limit_usd'> & { limit_usd: string }): Budget => ({
  ...row,
  limit_usd: BigInt(row.limit_usd),
})

const upsert = (kysely: Kysely<Tables>, budget: Budget) =>
  kysely
    .insertInto('budgets')
    .values(budget)
    .onConflict(on =>
      on.column('id').doUpdateSet({ limit_usd: budget.limit_usd, updated_at: budget.updated_at }),
    )

const byokSetting = (
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
