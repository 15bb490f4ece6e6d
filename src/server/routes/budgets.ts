import { Elysia } from 'elysia'
import type { Gateway } from '../../core/gateway.ts'
import { BudgetInput } from '../../core/policy/budgets/schema.ts'
import { deleteBudget, getBudget, listBudgets, setBudget } from '../../core/policy/budgets.ts'
import { managementKey } from '../access.ts'
import { readBody } from '../body.ts'
import { type Operation, operation } from '../operation.ts'

const budgetsOperation = (described: Omit<Operation, 'tag'>) => operation({ tag: 'Workspaces', ...described })
const id = { id: 'The workspace’s id or slug' }
const one = { ...id, interval: 'daily, weekly, monthly or lifetime' }

/** Budgets of workspaces (wire reference J.3). */
export const budgets = (gateway: Gateway) =>
  new Elysia({ prefix: '/workspaces/:id/budgets' })
    .use(managementKey(gateway))
    .get(
      '/',
      ({ actor, params }) => listBudgets(gateway, actor, params.id),
      budgetsOperation({
        id: 'listWorkspaceBudgets',
        summary: 'List a workspace’s budgets',
        params: id,
        statuses: [200, 401, 403, 404, 500],
      }),
    )
    .get(
      '/:interval',
      ({ actor, params }) => getBudget(gateway, actor, params.id, params.interval),
      budgetsOperation({
        id: 'getWorkspaceBudget',
        summary: 'Get a workspace’s budget',
        params: one,
        statuses: [200, 400, 401, 403, 404, 500],
      }),
    )
    .put(
      '/:interval',
      async ({ actor, params, request }) => setBudget(gateway, actor, params.id, params.interval, await readBody(request, BudgetInput)),
      budgetsOperation({
        id: 'upsertWorkspaceBudget',
        summary: 'Set a workspace’s budget',
        params: one,
        body: BudgetInput,
        statuses: [200, 400, 401, 403, 404, 500],
      }),
    )
    .delete(
      '/:interval',
      ({ actor, params }) => deleteBudget(gateway, actor, params.id, params.interval),
      budgetsOperation({
        id: 'deleteWorkspaceBudget',
        summary: 'Delete a workspace’s budget',
        params: one,
        statuses: [200, 400, 401, 403, 404, 500],
      }),
    )
