import { Command } from 'commander'
import type { Gateway } from '../../core/gateway.ts'
import { type CommonOptions, common, inputOf, numeric, yesOrNo } from '../options.ts'
import { dollars, output, print, printFields, printTable } from '../output.ts'
import { withGateway } from '../with-gateway.ts'

interface BudgetOptions extends CommonOptions {
  workspace?: string
}

interface SetOptions extends BudgetOptions {
  limit: number
  includeByok?: boolean
}

/** `gateway budgets`: what a workspace may spend, by the same functions and rules as over HTTP. */
export const budgetsCommand = () =>
  new Command('budgets')
    .description('what the keys of a workspace may spend together')
    .addCommand(listCommand())
    .addCommand(getCommand())
    .addCommand(setCommand())
    .addCommand(deleteCommand())

const budgetCommand = (name: string, description: string) =>
  common(new Command(name).description(description)).option('--workspace <id>', 'another workspace, by id or slug')

const INTERVAL = ['<interval>', 'daily, weekly, monthly or lifetime'] as const

const listCommand = () => budgetCommand('list', 'list the budgets of a workspace').action(list)

const getCommand = () =>
  budgetCommand('get', 'show a budget')
    .argument(...INTERVAL)
    .action(get)

const setCommand = () =>
  budgetCommand('set', 'set a budget; the narrower the window, the lower its limit')
    .argument(...INTERVAL)
    .requiredOption('--limit <usd>', 'what may be spent, in USD', numeric)
    .option('--include-byok <counts>', 'whether own provider keys count against all budgets of the workspace: yes or no', yesOrNo)
    .action(set)

const deleteCommand = () =>
  budgetCommand('delete', 'delete a budget')
    .argument(...INTERVAL)
    .action(remove)

async function list(options: BudgetOptions): Promise<void> {
  const { listBudgets } = await import('../../core/policy/budgets.ts')
  await withGateway(options, (gateway, actor) =>
    output(options.json, listBudgets(gateway, actor, placeOf(gateway, options)), ({ data, include_byok_in_budgets }) =>
      printTable(
        ['INTERVAL', 'LIMIT', 'OWN PROVIDER KEYS', 'SET'],
        data.map(one => [
          one.reset_interval ?? 'lifetime',
          dollars(one.limit_usd),
          include_byok_in_budgets ? 'count' : '-',
          one.updated_at,
        ]),
      ),
    ),
  )
}

async function get(interval: string, options: BudgetOptions): Promise<void> {
  const { getBudget } = await import('../../core/policy/budgets.ts')
  await withGateway(options, (gateway, actor) =>
    output(options.json, getBudget(gateway, actor, placeOf(gateway, options), interval), ({ data, include_byok_in_budgets }) =>
      printFields({ ...data, include_byok_in_budgets }),
    ),
  )
}

async function set(interval: string, options: SetOptions): Promise<void> {
  const { BudgetInput } = await import('../../core/policy/budgets/schema.ts')
  const { setBudget } = await import('../../core/policy/budgets.ts')
  const input = inputOf(BudgetInput, { limit_usd: options.limit, include_byok_in_budgets: options.includeByok })
  await withGateway(options, async (gateway, actor) =>
    output(options.json, await setBudget(gateway, actor, placeOf(gateway, options), interval, input), ({ data, include_byok_in_budgets }) =>
      printFields({ ...data, include_byok_in_budgets }),
    ),
  )
}

async function remove(interval: string, options: BudgetOptions): Promise<void> {
  const { deleteBudget } = await import('../../core/policy/budgets.ts')
  await withGateway(options, async (gateway, actor) =>
    output(options.json, await deleteBudget(gateway, actor, placeOf(gateway, options), interval), () =>
      print(`Deleted the ${interval} budget`),
    ),
  )
}

const placeOf = (gateway: Gateway, { workspace }: BudgetOptions) => workspace ?? gateway.memory.owner.workspace_id
