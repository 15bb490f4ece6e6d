import { TURN_RANGES } from '../../observability/rollups/sessions.ts'
import { fill, NUMBER } from '../fields.ts'
import { defineNoun, defineVerbs, withInput } from '../noun.ts'
import { formatDollars } from '../output.ts'

const verb = defineVerbs(() => import('../../observability/datasets/session-cost.ts'), {
  lists: { 'session-cost': 'sessions found that may be shown' },
})

const CELLS = [
  fill('app_slug', '--app <slug>', 'sessions of this app'),
  fill('model', '--model <id>', 'sessions with this model'),
  fill('turn_range', '--turns <range>', `sessions of so many turns: ${TURN_RANGES.join(', ')}`),
  fill('limit', '--limit <n>', 'how many at most (100)', NUMBER),
  fill('offset', '--offset <n>', 'how many to skip', NUMBER),
]

/** `gateway datasets`: what the public datasets show. */
export const createDatasetsCommand = () =>
  defineNoun('datasets', 'medians that name no one', [
    verb('session-cost', 'show what sessions cost in the last whole week', CELLS, core =>
      withInput(core.SessionCostQuery, core.getSessionCost),
    ).printAs(({ data }, { printList }) =>
      printList(
        ['APP', 'MODEL', 'TURNS', 'MEDIAN'],
        data.map(cell => [
          cell.app_slug,
          cell.model_permaslug,
          cell.turn_range,
          formatDollars(cell.median_session_cost_usd),
        ]),
      ),
    ),
  ])
