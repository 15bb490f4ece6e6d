import { defineNoun, defineOperation } from '../../resources/operation.ts'
import { deleteBudget, getBudget, listBudgets, setBudget } from '../budgets.ts'
import { BudgetInput } from './schema.ts'

const params = {
  id: 'The workspace’s id or slug',
  interval: 'daily, weekly, monthly or lifetime',
}
const refusals = [400]

/** What can be done with workspaces' budgets (wire reference J.3). */
export const budgets = defineNoun(
  { tag: 'Workspaces', access: 'management', params },
  {
    list: defineOperation(
      'GET /workspaces/:id/budgets',
      'listWorkspaceBudgets',
      'List a workspace’s budgets',
      listBudgets,
    ),
    get: defineOperation(
      'GET /workspaces/:id/budgets/:interval',
      'getWorkspaceBudget',
      'Get a workspace’s budget',
      getBudget,
      { refusals },
    ),
    set: defineOperation(
      'PUT /workspaces/:id/budgets/:interval',
      'upsertWorkspaceBudget',
      'Set a workspace’s budget',
      setBudget,
      { body: BudgetInput },
    ),
    delete: defineOperation(
      'DELETE /workspaces/:id/budgets/:interval',
      'deleteWorkspaceBudget',
      'Delete a workspace’s budget',
      deleteBudget,
      { refusals },
    ),
  },
)
