import { Command } from 'commander'
import { type CommonOptions, common } from '../options.ts'
import { output, printTable } from '../output.ts'
import { withGateway } from '../with-gateway.ts'

/** `gateway providers`: who serves models, and who is configured. */
export const providersCommand = () =>
  new Command('providers')
    .description('providers of models')
    .addCommand(common(new Command('list').description('list the providers')).action(list))

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
