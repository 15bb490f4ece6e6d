import { Command } from 'commander'
import { type CommonOptions, common, inputOf, numeric, paged } from '../options.ts'
import { dollars, output, print, printFields, printTable } from '../output.ts'
import { withGateway } from '../with-gateway.ts'

/** `gateway credits`: what was paid in, where the config counts in credits. The only door to pay in. */
export const creditsCommand = () =>
  new Command('credits')
    .description('what was paid in, and what was spent of it')
    .addCommand(addCommand())
    .addCommand(common(new Command('show').description('show what was paid in, and what was spent of it')).action(show))
    .addCommand(listCommand())

const addCommand = () =>
  common(new Command('add').description('pay in, or correct what was paid in'))
    .requiredOption('--amount <usd>', 'USD; negative to correct', numeric)
    .option('--note <text>', 'what it is')
    .action(add)

const listCommand = () => paged(common(new Command('list').description('list what was paid in, the newest first'))).action(list)

async function add({ amount, note, ...options }: CommonOptions & { amount: number; note?: string }): Promise<void> {
  const { addCredit, getCredits, NewCredit } = await import('../../core/ledger/credits.ts')
  const input = inputOf(NewCredit, { amount, note })
  await withGateway(options, async (gateway, actor) => {
    const added = await addCredit(gateway, actor, input)
    output(options.json, added, ({ data }) => {
      print(`Added ${dollars(data.amount)}; ${dollars(getCredits(gateway, actor).data.total_credits)} in all`)
      if (!gateway.config.limits.credits) print('The config does not count in credits: limits.credits is off')
    })
  })
}

async function show(options: CommonOptions): Promise<void> {
  const { getCredits } = await import('../../core/ledger/credits.ts')
  await withGateway(options, (gateway, actor) => output(options.json, getCredits(gateway, actor), ({ data }) => printFields(data)))
}

async function list({ offset, limit, ...options }: CommonOptions & { offset?: number; limit?: number }): Promise<void> {
  const { CreditQuery, listCredits } = await import('../../core/ledger/credits.ts')
  const query = inputOf(CreditQuery, { offset, limit })
  await withGateway(options, async (gateway, actor) =>
    output(options.json, await listCredits(gateway, actor, query), ({ data }) =>
      printTable(
        ['WHEN', 'AMOUNT', 'NOTE', 'BY', 'ID'],
        data.map(one => [one.created_at, dollars(one.amount), one.note, one.user_id, one.id]),
      ),
    ),
  )
}
