import { defineVerbs } from '../noun.ts'

const verb = defineVerbs(() => import('../../core/doctor.ts'))

/** `gateway doctor`: checks everything that money depends on. Exits with 1 if a check fails. */
export const createDoctorCommand = () =>
  verb(
    'doctor',
    'check the ledger, its counters and the store, also while a server runs',
    [],
    core => async gateway => {
      const { data } = await core.examineGateway(gateway)
      if (!data.every(({ ok }) => ok)) process.exitCode = 1
      return { data }
    },
  ).printAs({
    CHECK: ({ check }) => check,
    STATE: ({ ok }) => (ok ? 'ok' : 'WRONG'),
    FOUND: ({ found }) => found,
  })
