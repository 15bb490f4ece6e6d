import { defineVerbs } from '../noun.ts'

const verb = defineVerbs(() => import('../../core/doctor.ts'))

/** `gateway doctor`: checks everything that money depends on. Exits with 1 if a check fails. */
export const doctorCommand = () =>
  verb(
    'doctor',
    'check the ledger, its counters and the store, also while a server runs',
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
