import type { BudgetStore } from '../../../src/limits/budgets/store.ts'
import { assertLimitsDecrease } from '../../../src/limits/budgets.ts'
import { addAudit } from './audit.ts'
import { mustBeThere } from './checks.ts'
import type { Connection } from './memory.ts'
import { changedConcurrently } from './table.ts'

/** Budgets in memory. */
export const createMemoryBudgetStore = (connection: Connection): BudgetStore => ({
  all: () => connection.read(({ budgets }) => budgets.all()),
  upsert: (budget, include_byok_in_budgets, entry) =>
    connection.write(memory => {
      const { id, workspace_id, interval, limit_usd, soft, updated_at } = budget
      const { budgets, workspaces } = memory
      mustBeThere(memory, workspace_id)
      const own = (one: typeof budget) => one.workspace_id === workspace_id
      if (budgets.all(one => own(one) && one.interval === interval && one.id !== id).length > 0)
        throw changedConcurrently()
      if (budgets.has(id)) budgets.update(id, { limit_usd, soft, updated_at })
      else budgets.insert(id, budget)
      assertLimitsDecrease(budgets.all(own))
      if (include_byok_in_budgets !== undefined)
        workspaces.update(workspace_id, { include_byok_in_budgets })
      addAudit(memory, entry)
    }),
  remove: (id, entry) =>
    connection.write(memory => {
      memory.budgets.remove(id)
      addAudit(memory, entry)
    }),
})
