import { Option } from 'commander'
import { type Fields, fill, fillNamed, findIds, NUMBER, PAGE, PERIOD } from '../fields.ts'
import { readPieces } from '../input.ts'
import { KEYS, MEMBERS, RESOURCES, WORKSPACES } from '../names.ts'
import { defineNoun, defineVerbs, withInput } from '../noun.ts'
import { print } from '../output.ts'

const verb = defineVerbs(async () => (await import('../../resources/audit.ts')).audit.operations)

const WORKSPACE: Fields = {
  options: [
    new Option(
      '--workspace <id>',
      'the changes in one workspace, by id or slug; by id if it is deleted',
    ),
  ],
  find: async (gateway, { workspace }) =>
    workspace === undefined
      ? {}
      : { workspace_id: (await findIds(WORKSPACES, gateway, [String(workspace)]))[0] },
}
const CHANGES = [
  ...PAGE,
  fill('action', '--action <noun.verb>', 'one kind of change, such as keys.create'),
  fillNamed(
    'resource_id',
    '--resource <id>',
    'the changes of one resource, by id or name',
    RESOURCES,
  ),
  fillNamed('user_id', '--user <user>', 'the changes by this user', MEMBERS),
  fillNamed('key_hash', '--key <key>', 'the changes made with this API key', KEYS),
  WORKSPACE,
  ...PERIOD,
]

const reconcile = defineVerbs(() => import('../../observability/reconciliation.ts'), {
  args: { invoice: 'the bill as CSV, or - for standard input' },
})

const BILL = [
  fill('provider', '--provider <slug>', 'whose bill it is, where its columns do not tell'),
  fill('tolerance', '--tolerance <usd>', 'how much a model may differ on a day (0)', NUMBER),
  fill('day_column', '--day-column <name>', 'the column with the day, of a bill in another form'),
  fill('model_column', '--model-column <name>', 'the column with the model; by day without one'),
  fill('amount_column', '--amount-column <name>', 'the column with the amount in USD'),
  fill('input_column', '--input-column <name>', 'the column with the input tokens, for usage'),
  fill('output_column', '--output-column <name>', 'the column with the output tokens'),
]

/** `gateway audit`: changes, and who made them; and what providers bill. */
export const createAuditCommand = () =>
  defineNoun('audit', 'changes, and who made them; bills of providers', [
    verb('list', 'list the changes, newest first', CHANGES, core => core.list).printAs({
      WHEN: change => change.created_at,
      ACTION: change => change.action,
      RESOURCE: change => change.resource_id,
      CHANGED: change => change.changed.join(' '),
      BY: change => change.user_id,
      'WITH KEY': change => change.key_hash ?? change.actor,
    }),
    reconcile(
      'reconcile <invoice>',
      'compare a provider’s bill with what was charged, by day and model; 1 if they differ',
      BILL,
      core =>
        withInput(core.Reconciliation, async (gateway, _, path: string, input) => {
          const answer = await core.reconcileInvoice(gateway, readPieces(path), input)
          if (answer.data.length > 0) process.exitCode = 1
          return answer
        }),
    ).printAs(({ data, total }, { printList }) => {
      const rows = data.map(row => [
        ...[row.day, row.model ?? '-', row.state.replace('_', ' ')],
        ...[row.billed_usd ?? row.billed_tokens, row.charged_usd ?? row.charged_tokens],
        row.difference_usd,
      ])
      if (rows.length > 0)
        printList(['DAY', 'MODEL', 'STATE', 'BILLED', 'CHARGED', 'DIFFERENCE'], rows)
      const sums = `billed ${total.billed_usd ?? 'no amounts'}, charged ${total.charged_usd ?? '-'}`
      print(`${total.compared} compared, ${total.differing} differ (${total.format}: ${sums})`)
    }),
  ])
