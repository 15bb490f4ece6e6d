import { Command } from 'commander'
import { type CommonOptions, common } from '../options.ts'
import { output, printTable } from '../output.ts'
import { withGateway } from '../with-gateway.ts'

/** `gateway doctor`: whether everything that money depends on is as it must be. Exits with 1 when it is not. */
export const doctorCommand = () =>
  common(new Command('doctor').description('check the ledger, its counters and the store; also while a server runs')).action(doctor)

async function doctor(options: CommonOptions): Promise<void> {
  const { examine } = await import('../../core/doctor.ts')
  await withGateway(options, async gateway => {
    const { data } = await examine(gateway)
    output(options.json, { data }, () =>
      printTable(
        ['CHECK', 'STATE', 'FOUND'],
        data.map(({ check, ok, found }) => [check, ok ? 'ok' : 'WRONG', found]),
      ),
    )
    if (!data.every(({ ok }) => ok)) process.exitCode = 1
  })
}
