import { defineNoun, defineVerbs } from '../noun.ts'
import { print } from '../output.ts'

const verb = defineVerbs(() => import('../../observability/rollups.ts'))

/** `gateway rollups`: the sums that usage and analytics are read from. */
export const createRollupsCommand = () =>
  defineNoun('rollups', 'the sums that usage and analytics are read from', [
    verb(
      'recompute',
      'compute them again from the records, also while a server runs',
      [],
      core => core.recomputeRollups,
    ).printAs(() => print('The roll-ups are those of the records')),
  ])
