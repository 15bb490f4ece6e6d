import type { Gateway } from '../../core/gateway.ts'
import { demand, fill, NUMBER, offer, YES_OR_NO } from '../fields.ts'
import { defineNoun, defineVerbs, withInput } from '../noun.ts'
import { formatDollars, print, printFields, printTable } from '../output.ts'

interface WorkspaceFlags {
  workspace?: string
}

const verb = defineVerbs(
  async () => ({
    ...(await import('../../core/policy/budgets.ts')),
    ...(await import('../../core/policy/budgets/schema.ts')),
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
        (gateway, actor) =>
          core.listBudgets(gateway, actor, getWorkspace(gateway, workspace)),
    ).printAs(({ data, include_byok_in_budgets }) =>
      printTable(
        ['INTERVAL', 'LIMIT', 'OWN PROVIDER KEYS', 'SET'],
        data.map(budget => [
          budget.reset_interval ?? 'lifetime',
          formatDollars(budget.limit_usd),
          include_byok_in_budgets ? 'count' : '-',
          budget.updated_at,
        ]),
      ),
    ),
    verb(
      'get <interval>',
      'show a budget',
      [WORKSPACE],
      (core, { workspace }: WorkspaceFlags) =>
        (gateway, actor, interval) =>
          core.getBudget(gateway, actor, getWorkspace(gateway, workspace), interval),
    ).printAs(printBudget),
    verb(
      'set <interval>',
      'set a budget; the narrower the window, the lower its limit',
      BUDGET,
      (core, { workspace }: WorkspaceFlags) =>
        withInput(core.BudgetInput, (gateway, actor, interval, input) =>
          core.setBudget(gateway, actor, getWorkspace(gateway, workspace), interval, input),
        ),
    ).printAs(printBudget),
    verb(
      'delete <interval>',
      'delete a budget',
      [WORKSPACE],
      (core, { workspace }: WorkspaceFlags) =>
        (gateway, actor, interval) =>
          core.deleteBudget(gateway, actor, getWorkspace(gateway, workspace), interval),
    ).printAs((_, { args: [interval] }) => print(`Deleted the ${interval} budget`)),
  ])

const getWorkspace = (gateway: Gateway, workspace: string | undefined): string =>
  workspace ?? gateway.memory.owner.workspace_id

const printBudget = (budget: { data: object; include_byok_in_budgets: boolean }): void =>
  printFields({ ...budget.data, include_byok_in_budgets: budget.include_byok_in_budgets })
