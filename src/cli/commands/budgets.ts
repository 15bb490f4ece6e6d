import type { Gateway } from '../../core/gateway.ts'
import { demand, fill, NUMBER, offer, YES_OR_NO } from '../fields.ts'
import { defineNoun, defineVerbs, take } from '../noun.ts'
import { dollars, print, printFields, printTable } from '../output.ts'

interface Elsewhere {
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
export const budgetsCommand = () =>
  defineNoun('budgets', 'spending limits for all keys of a workspace together', [
    verb(
      'list',
      'list the budgets of a workspace',
      [WORKSPACE],
      (of, { workspace }: Elsewhere) =>
        (gateway, actor) =>
          of.listBudgets(gateway, actor, placeOf(gateway, workspace)),
    ).prints(({ data, include_byok_in_budgets }) =>
      printTable(
        ['INTERVAL', 'LIMIT', 'OWN PROVIDER KEYS', 'SET'],
        data.map(budget => [
          budget.reset_interval ?? 'lifetime',
          dollars(budget.limit_usd),
          include_byok_in_budgets ? 'count' : '-',
          budget.updated_at,
        ]),
      ),
    ),
    verb(
      'get <interval>',
      'show a budget',
      [WORKSPACE],
      (of, { workspace }: Elsewhere) =>
        (gateway, actor, interval) =>
          of.getBudget(gateway, actor, placeOf(gateway, workspace), interval),
    ).prints(printBudget),
    verb(
      'set <interval>',
      'set a budget; the narrower the window, the lower its limit',
      BUDGET,
      (of, { workspace }: Elsewhere) =>
        take(of.BudgetInput, (gateway, actor, interval, input) =>
          of.setBudget(gateway, actor, placeOf(gateway, workspace), interval, input),
        ),
    ).prints(printBudget),
    verb(
      'delete <interval>',
      'delete a budget',
      [WORKSPACE],
      (of, { workspace }: Elsewhere) =>
        (gateway, actor, interval) =>
          of.deleteBudget(gateway, actor, placeOf(gateway, workspace), interval),
    ).prints((_, { args: [interval] }) => print(`Deleted the ${interval} budget`)),
  ])

const placeOf = (gateway: Gateway, workspace: string | undefined): string =>
  workspace ?? gateway.memory.owner.workspace_id

const printBudget = (budget: { data: object; include_byok_in_budgets: boolean }): void =>
  printFields({ ...budget.data, include_byok_in_budgets: budget.include_byok_in_budgets })
