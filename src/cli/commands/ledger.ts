import { demand, type Fields, fill, NUMBER, offer } from '../fields.ts'
import { defineNoun, defineVerbs, withInput } from '../noun.ts'
import { print } from '../output.ts'

const verb = defineVerbs(() => import('../../observability/repricing.ts'))

const price = (field: string, flags: string, what: string): Fields =>
  fill(field, flags, what, NUMBER)

const REPRICE: Fields[] = [
  demand(fill('model', '--model <id>', 'calls of this model')),
  demand(fill('provider', '--provider <slug>', 'calls that this provider answered')),
  demand(fill('from', '--from <day>', 'the first day, in UTC')),
  demand(fill('to', '--to <day>', 'the last day, which is over')),
  price('prompt', '--prompt <usd>', 'USD per million tokens (those in effect now)'),
  price('completion', '--completion <usd>', 'the same'),
  price('cache_read', '--cache-read <usd>', 'the same'),
  price('reasoning', '--reasoning <usd>', 'the same'),
  price('request', '--request <usd>', 'USD for each call'),
  price('was_prompt', '--was-prompt <usd>', 'what they were charged with'),
  price('was_completion', '--was-completion <usd>', 'the same'),
  price('was_cache_read', '--was-cache-read <usd>', 'the same'),
  price('was_reasoning', '--was-reasoning <usd>', 'the same'),
  price('was_request', '--was-request <usd>', 'the same'),
  offer('--yes', 'do it; otherwise it is only shown'),
]

/** `gateway ledger`: what calls were charged. */
export const createLedgerCommand = () =>
  defineNoun('ledger', 'what calls were charged', [
    verb(
      'reprice',
      'correct what the calls of a period were charged, as if prices had been others',
      REPRICE,
      (core, { yes }) =>
        withInput(core.Repricing, (gateway, actor, input) =>
          yes ? core.reprice(gateway, actor, input) : core.planRepricing(gateway, input),
        ),
    ).printAs(({ data, total }, { printList }) => {
      const rows = data.map(row => [
        ...[row.day, row.key_hash, row.calls, row.charged_usd, row.expected_usd],
        row.difference_usd,
      ])
      if (rows.length > 0)
        printList(['DAY', 'KEY', 'CALLS', 'CHARGED', 'SHOULD BE', 'DIFFERENCE'], rows)
      const { calls, left, corrections, difference_usd, is_done } = total
      print(`${calls} calls, of which ${left} have costs beside their tokens and stay as they are`)
      if (corrections === 0) print('Nothing differs: nothing is to be done')
      else if (is_done)
        print(
          `Corrected by ${difference_usd} USD, in ${corrections} ${corrections === 1 ? 'entry' : 'entries'}`,
        )
      else
        print(
          `--yes corrects it by ${difference_usd} USD, in ${corrections} ${corrections === 1 ? 'entry' : 'entries'}`,
        )
    }),
  ])
