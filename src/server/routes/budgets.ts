import { BudgetInput } from '../../limits/budgets/schema.ts'
import { deleteBudget, getBudget, listBudgets, setBudget } from '../../limits/budgets.ts'
import { defineResource, defineRoute } from '../resource.ts'

const params = {
  id: 'The workspace’s id or slug',
  interval: 'daily, weekly, monthly or lifetime',
}
const refusals = [400]

/** Creates the routes of workspaces' budgets (wire reference J.3). */
export const createBudgetRoutes = defineResource(
  { tag: 'Workspaces', access: 'management', params },
  [
    defineRoute(
      'GET /workspaces/:id/budgets',
      'listWorkspaceBudgets',
      'List a workspace’s budgets',
      listBudgets,
    ),
    defineRoute(
      'GET /workspaces/:id/budgets/:interval',
      'getWorkspaceBudget',
      'Get a workspace’s budget',
      getBudget,
      { refusals },
    ),
    defineRoute(
      'PUT /workspaces/:id/budgets/:interval',
      'upsertWorkspaceBudget',
      'Set a workspace’s budget',
      setBudget,
      { body: BudgetInput },
    ),
    defineRoute(
      'DELETE /workspaces/:id/budgets/:interval',
      'deleteWorkspaceBudget',
      'Delete a workspace’s budget',
      deleteBudget,
      { refusals },
    ),
  ],
)
