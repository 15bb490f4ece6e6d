import type { Gateway } from '../../app/gateway.ts'
import type { Actor } from '../../resources/actor.ts'
import type { Operation } from '../../resources/operation.ts'
import { demand, fill, NUMBER, offer, YES_OR_NO } from '../fields.ts'
import { describeOthers } from '../lists.ts'
import { defineNoun, defineVerbs } from '../noun.ts'
import { findWorkspaceId } from '../options.ts'
import { formatDollars, print, printFields } from '../output.ts'

interface WorkspaceFlags {
  workspace?: string
}

type PlacedOperation<Rest extends unknown[], Answer> = Operation<
  (gateway: Gateway, actor: Actor, workspace: string, ...rest: Rest) => Answer | Promise<Answer>
>

const verb = defineVerbs(
  async () => (await import('../../limits/budgets/operations.ts')).budgets.operations,
  { args: { interval: 'daily, weekly, monthly or lifetime' } },
)

const WORKSPACE = offer('--workspace <id>', 'another workspace, by id or slug')
const BUDGET = [
  WORKSPACE,
  demand(fill('limit_usd', '--limit <usd>', 'the limit in USD', NUMBER)),
  fill('soft', '--soft', 'refuse nothing; alerts tell that it is near'),
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
    verb('list', 'list the budgets of a workspace', [WORKSPACE], (core, flags: WorkspaceFlags) =>
      inWorkspace(core.list, flags),
    ).printAs(
      ({ data, include_byok_in_budgets }, { printList }) =>
        printList(
          ['INTERVAL', 'LIMIT', 'KIND', 'SPENT', 'LEFT', 'OWN PROVIDER KEYS', 'SET'],
          data.map(budget => [
            budget.reset_interval ?? 'lifetime',
            formatDollars(budget.limit_usd),
            budget.soft ? 'soft' : 'hard',
            formatDollars(budget.spent_usd),
            formatDollars(budget.remaining_usd),
            include_byok_in_budgets ? 'count' : '-',
            budget.updated_at,
          ]),
        ),
      describeOthers(({ memory: { budgets } }) => budgets.values().toArray()),
    ),
    verb('get <interval>', 'show a budget', [WORKSPACE], (core, flags: WorkspaceFlags) =>
      inWorkspace(core.get, flags),
    ).printAs(printBudget),
    verb(
      'set <interval>',
      'set a budget; the narrower the window, the lower its limit',
      BUDGET,
      (core, flags: WorkspaceFlags) => inWorkspace(core.set, flags),
    ).printAs(printBudget),
    verb('delete <interval>', 'delete a budget', [WORKSPACE], (core, flags: WorkspaceFlags) =>
      inWorkspace(core.delete, flags),
    ).printAs((_, { args: [interval] }) => print(`Deleted the ${interval} budget`)),
  ])

/** What an operation takes after a workspace, in the one that an option names. */
const inWorkspace = <Rest extends unknown[], Answer>(
  { run, schema }: PlacedOperation<Rest, Answer>,
  { workspace }: WorkspaceFlags,
) => ({
  schema,
  run: async (gateway: Gateway, actor: Actor, ...rest: Rest) => {
    const id = await findWorkspaceId(gateway, workspace)
    return run(gateway, actor, id ?? gateway.memory.owner.workspace_id, ...rest)
  },
})

const printBudget = (budget: { data: object; include_byok_in_budgets: boolean }): void =>
  printFields({ ...budget.data, include_byok_in_budgets: budget.include_byok_in_budgets })
