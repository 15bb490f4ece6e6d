import type { Gateway } from '../../app/gateway.ts'
import { demand, fill, NUMBER, offer, YES_OR_NO } from '../fields.ts'
import { describeOthers } from '../lists.ts'
import { defineNoun, defineVerbs, withInput } from '../noun.ts'
import { findWorkspaceId } from '../options.ts'
import { formatDollars, print, printFields } from '../output.ts'

interface WorkspaceFlags {
  workspace?: string
}

const verb = defineVerbs(
  async () => ({
    ...(await import('../../limits/budgets.ts')),
    ...(await import('../../limits/budgets/schema.ts')),
  }),
  {
    args: { interval: 'daily, weekly, monthly or lifetime' },
  },
)

const WORKSPACE = offer('--workspace <id>', 'another workspace, by id or slug')
const BUDGET = [
  WORKSPACE,
  demand(fill('limit_usd', '--limit <usd>', 'the limit in USD', NUMBER)),
  fill(
    'include_byok_in_budgets',
    '--include-byok <counts>',
    'whether its own provider keys count against all its budgets: yes or no',
    YES_OR_NO,
  ),
]

/**
 * `gateway budgets`: spending limits of a workspace, by the same functions and rules as over HTTP.
 */
export const createBudgetsCommand = () =>
  defineNoun('budgets', 'spending limits for all keys of a workspace together', [
    verb(
      'list',
      'list the budgets of a workspace',
      [WORKSPACE],
      (core, { workspace }: WorkspaceFlags) =>
        async (gateway, actor) =>
          core.listBudgets(gateway, actor, await findWorkspace(gateway, workspace)),
    ).printAs(
      ({ data, include_byok_in_budgets }, { printList }) =>
        printList(
          ['INTERVAL', 'LIMIT', 'SPENT', 'LEFT', 'OWN PROVIDER KEYS', 'SET'],
          data.map(budget => [
            budget.reset_interval ?? 'lifetime',
            formatDollars(budget.limit_usd),
            formatDollars(budget.spent_usd),
            formatDollars(budget.remaining_usd),
            include_byok_in_budgets ? 'count' : '-',
            budget.updated_at,
          ]),
        ),
      describeOthers(({ memory: { budgets } }) => budgets.values().toArray()),
    ),
    verb(
      'get <interval>',
      'show a budget',
      [WORKSPACE],
      (core, { workspace }: WorkspaceFlags) =>
        async (gateway, actor, interval) =>
          core.getBudget(gateway, actor, await findWorkspace(gateway, workspace), interval),
    ).printAs(printBudget),
    verb(
      'set <interval>',
      'set a budget; the narrower the window, the lower its limit',
      BUDGET,
      (core, { workspace }: WorkspaceFlags) =>
        withInput(core.BudgetInput, async (gateway, actor, interval, input) =>
          core.setBudget(gateway, actor, await findWorkspace(gateway, workspace), interval, input),
        ),
    ).printAs(printBudget),
    verb(
      'delete <interval>',
      'delete a budget',
      [WORKSPACE],
      (core, { workspace }: WorkspaceFlags) =>
        async (gateway, actor, interval) =>
          core.deleteBudget(gateway, actor, await findWorkspace(gateway, workspace), interval),
    ).printAs((_, { args: [interval] }) => print(`Deleted the ${interval} budget`)),
  ])

const findWorkspace = async (gateway: Gateway, workspace: string | undefined): Promise<string> =>
  (await findWorkspaceId(gateway, workspace)) ?? gateway.memory.owner.workspace_id

const printBudget = (budget: { data: object; include_byok_in_budgets: boolean }): void =>
  printFields({ ...budget.data, include_byok_in_budgets: budget.include_byok_in_budgets })
