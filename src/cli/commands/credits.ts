import { demand, fill, NUMBER, PAGE } from '../fields.ts'
import { defineNoun, defineVerbs } from '../noun.ts'
import { formatDollars, print } from '../output.ts'

const verb = defineVerbs(async () => (await import('../../limits/credits.ts')).credits.operations)

const CREDIT = [
  demand(fill('amount', '--amount <usd>', 'USD; negative for a correction', NUMBER)),
  fill('note', '--note <text>', 'a note for people'),
]

/**
 * `gateway credits`: prepaid credits, where the config counts them. Credits can be added only here.
 */
export const createCreditsCommand = () =>
  defineNoun('credits', 'prepaid credits, and what was spent of them', [
    verb('add', 'add credits, or correct an amount', CREDIT, core => core.create).printAs(
      async ({ data }, { core, gateway, actor }) => {
        const { total_credits } = (await core.show.run(gateway, actor)).data
        print(`Added ${formatDollars(data.amount)}; ${formatDollars(total_credits)} in all`)
        if (!gateway.config.limits.credits)
          print('The config does not count in credits: limits.credits is off')
      },
    ),
    verb('show', 'show the credits added and spent', [], core => core.show),
    verb('list', 'list the credits added, newest first', PAGE, core => core.list).printAs({
      WHEN: credit => credit.created_at,
      AMOUNT: credit => formatDollars(credit.amount),
      NOTE: credit => credit.note,
      BY: credit => credit.user_id,
      ID: credit => credit.id,
    }),
  ])
