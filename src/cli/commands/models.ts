import { fill, NUMBER, offer } from '../fields.ts'
import { defineNoun, defineVerbs, withInput } from '../noun.ts'
import { printTable } from '../output.ts'

const verb = defineVerbs(
  async () => ({
    ...(await import('../../core/catalog/models.ts')),
    ...(await import('../../core/catalog/models/query.ts')),
  }),
  { needs: { data: false } },
)

const QUERY = [
  offer('--callable', 'only models of configured providers'),
  fill('q', '--q <words>', 'words in the name or the slug'),
  fill('model_authors', '--author <authors>', 'by these authors'),
  fill('providers', '--provider <names>', 'served by one of these providers'),
  fill(
    'input_modalities',
    '--input <modalities>',
    'accepting all of these: text, image, file, audio, video',
  ),
  fill(
    'output_modalities',
    '--output <modalities>',
    'producing one of these: text, image, audio, embeddings, …, or all (text)',
  ),
  fill('context', '--context <tokens>', 'with at least this context', NUMBER),
  fill('max_price', '--max-price <usd>', 'the most per million tokens of input', NUMBER),
  fill(
    'sort',
    '--sort <order>',
    'newest, pricing-low-to-high, pricing-high-to-low or context-high-to-low',
  ),
  fill('limit', '--limit <n>', 'how many at most', NUMBER),
  fill('offset', '--offset <n>', 'how many to skip', NUMBER),
]

/** `gateway models`: known models, and which can be called. */
export const createModelsCommand = () =>
  defineNoun('models', 'models and their endpoints', [
    verb('list', 'list the models', QUERY, (core, { callable }: { callable?: boolean }) =>
      withInput(core.ModelQuery, (gateway, _, query) =>
        callable ? core.listCallableModels(gateway, query) : core.listModels(gateway, query),
      ),
    ).printAs({
      MODEL: model => model.id,
      NAME: model => model.name,
      CONTEXT: model => model.context_length,
      'PROMPT $/M': ({ pricing }) => formatPerMillion(pricing.prompt),
      'COMPLETION $/M': ({ pricing }) => formatPerMillion(pricing.completion),
    }),
    verb(
      'get <slug>',
      'show a model',
      [],
      core => (gateway, _, slug) => core.showModel(gateway, slug),
    ),
    verb(
      'endpoints <slug>',
      'list the endpoints of a model',
      [],
      core => (gateway, _, slug) => core.listEndpoints(gateway, slug, null),
    ).printAs(({ data: { endpoints } }, { gateway: { catalog } }) =>
      printTable(
        ['PROVIDER', 'STATE', 'CONTEXT', 'PROMPT $/M', 'COMPLETION $/M'],
        endpoints.map(({ tag, context_length, pricing }) => [
          tag,
          catalog.providers.get(tag)?.configured ? 'configured' : '-',
          context_length,
          formatPerMillion(pricing.prompt),
          formatPerMillion(pricing.completion),
        ]),
      ),
    ),
  ])

const formatPerMillion = (usdPerToken: string): string =>
  usdPerToken === '-1' ? 'unknown' : String(Number((Number(usdPerToken) * 1e6).toFixed(6)))
