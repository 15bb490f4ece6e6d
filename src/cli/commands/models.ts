import { Command } from 'commander'
import type { ModelQuery } from '../../core/catalog/models/query.ts'
import { type CommonOptions, common, inputOf, numeric } from '../options.ts'
import { output, printFields, printTable } from '../output.ts'
import { withGateway } from '../with-gateway.ts'

interface ListOptions extends CommonOptions {
  callable?: boolean
  q?: string
  author?: string
  provider?: string
  input?: string
  output?: string
  context?: number
  maxPrice?: number
  sort?: string
  limit?: number
  offset?: number
}

/** `gateway models`: what is known and what can be called. */
export const modelsCommand = () =>
  new Command('models')
    .description('models, and who serves them')
    .addCommand(listCommand())
    .addCommand(common(new Command('get').description('show a model').argument('<slug>')).action(get))
    .addCommand(common(new Command('endpoints').description('show who serves a model').argument('<slug>')).action(endpoints))

const listCommand = () =>
  common(new Command('list').description('list the models'))
    .option('--callable', 'only what the configured providers serve')
    .option('--q <words>', 'words of the name or the slug')
    .option('--author <authors>', 'by these authors')
    .option('--provider <names>', 'served by one of these providers')
    .option('--input <modalities>', 'that take all of these: text, image, file, audio, video')
    .option('--output <modalities>', 'that give one of these: text, image, audio, embeddings, …, or all (text)')
    .option('--context <tokens>', 'with at least this context', numeric)
    .option('--max-price <usd>', 'at most so much per million tokens of input', numeric)
    .option('--sort <order>', 'newest, pricing-low-to-high, pricing-high-to-low or context-high-to-low')
    .option('--limit <n>', 'as many', numeric)
    .option('--offset <n>', 'after so many', numeric)
    .action(list)

async function list(options: ListOptions): Promise<void> {
  const { listCallableModels, listModels } = await import('../../core/catalog/models.ts')
  const { ModelQuery } = await import('../../core/catalog/models/query.ts')
  const query = inputOf(ModelQuery, queryOf(options))
  await withGateway(options, gateway =>
    output(options.json, options.callable ? listCallableModels(gateway, query) : listModels(gateway, query), ({ data }) =>
      printTable(
        ['MODEL', 'NAME', 'CONTEXT', 'PROMPT $/M', 'COMPLETION $/M'],
        data.map(model => [model.id, model.name, model.context_length, ...pricesOf(model)]),
      ),
    ),
  )
}

const queryOf = (options: ListOptions): Record<keyof ModelQuery & string, unknown> | Record<string, unknown> => ({
  q: options.q,
  model_authors: options.author,
  providers: options.provider,
  input_modalities: options.input,
  output_modalities: options.output,
  context: options.context,
  max_price: options.maxPrice,
  sort: options.sort,
  limit: options.limit,
  offset: options.offset,
})

async function get(slug: string, options: CommonOptions): Promise<void> {
  const { showModel } = await import('../../core/catalog/models.ts')
  await withGateway(options, gateway => output(options.json, showModel(gateway, slug), ({ data }) => printFields(data)))
}

async function endpoints(slug: string, options: CommonOptions): Promise<void> {
  const { listEndpoints } = await import('../../core/catalog/models.ts')
  await withGateway(options, gateway =>
    output(options.json, listEndpoints(gateway, slug, null), ({ data }) =>
      printTable(
        ['PROVIDER', 'STATE', 'CONTEXT', 'PROMPT $/M', 'COMPLETION $/M'],
        data.endpoints.map(one => [one.tag, stateOf(gateway.catalog.providers.get(one.tag)), one.context_length, ...pricesOf(one)]),
      ),
    ),
  )
}

const stateOf = (provider: { configured: boolean } | undefined) => (provider?.configured ? 'configured' : '-')

const pricesOf = ({ pricing }: { pricing: { prompt: string; completion: string } }) => [
  perMillion(pricing.prompt),
  perMillion(pricing.completion),
]

const perMillion = (usdPerToken: string) => (usdPerToken === '-1' ? 'unknown' : String(Number((Number(usdPerToken) * 1e6).toFixed(6))))
