import { defineVerbs } from '../noun.ts'

const verb = defineVerbs(() => import('../../core/doctor.ts'))

/**
 * `gateway doctor`: whether everything that money depends on is as it must be. Exits with 1 when
 * it is not.
 */
export const doctorCommand = () =>
  verb(
    'doctor',
    'check the ledger, its counters and the store; also while a server runs',
    [],
    of => async gateway => {
      const { data } = await of.examine(gateway)
      if (!data.every(({ ok }) => ok)) process.exitCode = 1
      return { data }
    },
  ).prints({
    CHECK: ({ check }) => check,
    STATE: ({ ok }) => (ok ? 'ok' : 'WRONG'),
    FOUND: ({ found }) => found,
  })
