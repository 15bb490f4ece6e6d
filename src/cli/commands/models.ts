import { Command } from 'commander'
import { type CommonOptions, common } from '../options.ts'
import { output, printFields, printTable } from '../output.ts'
import { withGateway } from '../with-gateway.ts'

/** `gateway models`: what can be called. */
export const modelsCommand = () =>
  new Command('models')
    .description('models that can be called')
    .addCommand(common(new Command('list').description('list the models')).action(list))
    .addCommand(common(new Command('get').description('show a model').argument('<slug>')).action(get))

async function list(options: CommonOptions): Promise<void> {
  const { listModels } = await import('../../core/catalog/models.ts')
  await withGateway(options, gateway =>
    output(options.json, listModels(gateway, { limit: 1000 }), ({ data }) =>
      printTable(
        ['MODEL', 'NAME', 'CONTEXT', 'PROMPT $/M', 'COMPLETION $/M'],
        data.map(model => [
          model.id,
          model.name,
          model.context_length,
          perMillion(model.pricing.prompt),
          perMillion(model.pricing.completion),
        ]),
      ),
    ),
  )
}

async function get(slug: string, options: CommonOptions): Promise<void> {
  const { getModel } = await import('../../core/catalog/models.ts')
  const { shownModel } = await import('../../core/catalog/models/shown.ts')
  await withGateway(options, gateway =>
    output(options.json, { data: shownModel(getModel(gateway, slug)) }, ({ data }) => printFields(data)),
  )
}

const perMillion = (usdPerToken: string) => (usdPerToken === '-1' ? 'unknown' : String(Number((Number(usdPerToken) * 1e6).toFixed(6))))
