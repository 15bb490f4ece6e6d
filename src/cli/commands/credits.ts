import { demand, fill, NUMBER, PAGE } from '../fields.ts'
import { defineNoun, defineVerbs, take } from '../noun.ts'
import { dollars, print } from '../output.ts'

const verb = defineVerbs(() => import('../../core/ledger/credits.ts'))

const CREDIT = [
  demand(fill('amount', '--amount <usd>', 'USD; negative to correct', NUMBER)),
  fill('note', '--note <text>', 'what it is'),
]

/** `gateway credits`: what was paid in, where the config counts in credits. The only door to pay in. */
export const creditsCommand = () =>
  defineNoun('credits', 'what was paid in, and what was spent of it', [
    verb('add', 'pay in, or correct what was paid in', CREDIT, of =>
      take(of.NewCredit, of.addCredit),
    ).prints(({ data }, { core, gateway, actor }) => {
      const { total_credits } = core.getCredits(gateway, actor).data
      print(`Added ${dollars(data.amount)}; ${dollars(total_credits)} in all`)
      if (!gateway.config.limits.credits)
        print('The config does not count in credits: limits.credits is off')
    }),
    verb('show', 'show what was paid in, and what was spent of it', [], of => of.getCredits),
    verb('list', 'list what was paid in, the newest first', PAGE, of =>
      take(of.CreditQuery, of.listCredits),
    ).prints({
      WHEN: credit => credit.created_at,
      AMOUNT: credit => dollars(credit.amount),
      NOTE: credit => credit.note,
      BY: credit => credit.user_id,
      ID: credit => credit.id,
    }),
  ])
