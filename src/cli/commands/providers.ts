import { Command } from 'commander'
import { invalid } from '../../core/errors.ts'
import { type CommonOptions, common, numeric } from '../options.ts'
import { output, printTable } from '../output.ts'
import { withGateway } from '../with-gateway.ts'

/** `gateway providers`: who serves models, and who is configured. */
export const providersCommand = () =>
  new Command('providers')
    .description('providers of models')
    .addCommand(common(new Command('list').description('list the providers')).action(list))
    .addCommand(
      common(new Command('check').description('ask the configured providers for something that costs nothing').argument('[provider...]'))
        .option('--timeout <seconds>', 'how long each may take', numeric, 10)
        .action(check),
    )

async function list(options: CommonOptions): Promise<void> {
  const { listProviders } = await import('../../core/catalog/providers.ts')
  await withGateway(options, gateway =>
    output(options.json, listProviders(gateway), () =>
      printTable(
        ['PROVIDER', 'NAME', 'PROTOCOL', 'STATE'],
        [...gateway.catalog.providers.values()].map(({ slug, name, protocol, configured }) => [
          slug,
          name,
          protocol,
          configured ? 'configured' : '-',
        ]),
      ),
    ),
  )
}

async function check(providers: string[], options: CommonOptions & { timeout: number }): Promise<void> {
  if (options.timeout <= 0 || options.timeout > LONGEST) throw invalid(`timeout: expected a number of seconds above 0, to ${LONGEST}`)
  const { checkProviders } = await import('../../core/upstream/provider-check.ts')
  await withGateway(options, async gateway => {
    const { data } = await checkProviders(gateway, providers, options.timeout * 1000)
    output(options.json, { data }, () =>
      printTable(
        ['PROVIDER', 'STATE', 'STATUS', 'MS', 'FOUND'],
        data.map(({ provider, ok, status, milliseconds, error }) => [provider, stateOf(ok), status, milliseconds, error]),
      ),
    )
    if (data.some(({ ok }) => ok === false)) process.exitCode = 1
  })
}

/** Seconds. */
const LONGEST = 600

const stateOf = (ok: boolean | null) => (ok === null ? '?' : ok ? 'ok' : 'WRONG')
