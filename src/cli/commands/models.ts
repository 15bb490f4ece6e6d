import { Option } from 'commander'
import type { Gateway } from '../../app/gateway.ts'
import type { updateModels as updateModelsCore } from '../../app/update-models.ts'
import type { BuiltInModels } from '../../resources/models/built-in.ts'
import type { ModelQuery } from '../../resources/models/query.ts'
import type { listModels, listPassing } from '../../resources/models.ts'
import { getDataDirectory } from '../data-directory.ts'
import { type Fields, type Flags, fill, NUMBER, offer } from '../fields.ts'
import { defineNoun, defineVerbs, withInput } from '../noun.ts'
import type { CommonOptions } from '../options.ts'
import { printTable } from '../output.ts'

const verb = defineVerbs(
  async () => ({
    ...(await import('../../resources/models.ts')),
    ...(await import('../../resources/models/query.ts')),
  }),
  { needs: { data: false }, sources: { slug: 'every model' } },
)

const update = defineVerbs(() => import('../../app/update-models.ts'), {
  args: { source: 'a file, or an http or https address' },
})

/** Installs models, and has the server that runs on this data read them. */
async function installModels(
  { updateModels }: { updateModels: typeof updateModelsCore },
  gateway: Gateway,
  data: string,
  source: string,
) {
  const { askServer } = await import('../feed.ts')
  const { readStatus } = await import('../status-socket.ts')
  const updated = await updateModels(gateway, data, source)
  const isServed = (await readStatus(data)) !== undefined
  if (isServed) await askServer(data, { do: 'reload_models' })
  return { data: { ...updated, server: isServed ? 'uses it' : 'none runs' } }
}

/** The outputs of the models that do each kind of work. */
const OUTPUTS: Record<string, string> = {
  text: 'text',
  embedding: 'embeddings',
  rerank: 'rerank',
  image: 'image',
  speech: 'speech',
  transcription: 'transcription',
  video: 'video',
}

/** Declares `--kind`, another way to name what models produce. */
const fillKind = (): Fields => ({
  options: [
    new Option('--kind <kind>', 'doing this kind of work, like --output')
      .choices(Object.keys(OUTPUTS))
      .conflicts('output'),
  ],
  flags: { output_modalities: '--kind' },
  read: ({ kind }) => (kind === undefined ? {} : { output_modalities: OUTPUTS[String(kind)] }),
})

const QUERY = [
  offer('--all', 'the whole catalogue, and not only what can be called here'),
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
  fillKind(),
  fill('context', '--context <tokens>', 'with at least this context', NUMBER),
  fill('max_price', '--max-price <usd>', 'the most per million tokens of input', NUMBER),
  fill(
    'sort',
    '--sort <order>',
    'newest, pricing-low-to-high, pricing-high-to-low, context-high-to-low, …',
  ),
  fill('limit', '--limit <n>', 'how many at most', NUMBER),
  fill('offset', '--offset <n>', 'how many to skip', NUMBER),
]

/** `gateway models`: known models, and which can be called. */
export const createModelsCommand = () =>
  defineNoun('models', 'models and their endpoints', [
    verb('list', 'list the models', QUERY, (core, { all }: { all?: boolean }) =>
      withInput(core.ModelQuery, (gateway, _, query) =>
        core.listModels(gateway, all ? { ...query, all: 'true' } : query),
      ),
    ).printAs(
      {
        MODEL: model => model.id,
        NAME: model => model.name,
        CONTEXT: model => model.context_length,
        'PROMPT $/M': ({ pricing }) => formatPerMillion(pricing.prompt),
        'COMPLETION $/M': ({ pricing }) => formatPerMillion(pricing.completion),
      },
      describeHidden,
    ),
    update(
      'update <source>',
      'install a newer catalogue, from a signed file or its URL; a running server takes it at once',
      [],
      (core, flags: CommonOptions) => (gateway, _, source) =>
        installModels(core, gateway, getDataDirectory(flags), source),
    ),
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
          findProvider(catalog.providers, tag)?.configured ? 'configured' : '-',
          context_length,
          formatPerMillion(pricing.prompt),
          formatPerMillion(pricing.completion),
        ]),
      ),
    ),
  ])

/** How many models match a query. */
type CountModels = (query: ModelQuery) => number

interface Listed {
  core: { listModels: typeof listModels; listPassing: typeof listPassing }
  gateway: Gateway
  flags: Flags
}

/** Says how many of the models that match a list leaves out, and how to see them. */
async function describeHidden(
  { data, total_count }: { data: unknown[]; total_count: number },
  listed: Listed,
): Promise<string[]> {
  const { core, gateway, flags } = listed
  const query: ModelQuery = { ...(flags.all ? { all: 'true' } : {}) }
  for (const { read } of QUERY) Object.assign(query, await read?.(flags, []))
  const { limit: _, offset: __, ...whole } = query
  const count: CountModels = more =>
    core.listModels(gateway, { ...whole, ...more, limit: 1 }).total_count
  const shown = Number(flags.offset ?? 0) + data.length
  const other = query.output_modalities ? 0 : count({ output_modalities: 'all' }) - total_count
  const unlisted = count({ all: 'true' }) - total_count
  return [
    ...(data.length > 0 && total_count > shown
      ? [`Shown: ${data.length} of ${total_count}. --offset ${shown} shows the next`]
      : []),
    ...(unlisted > 0 ? [`Hidden: ${unlisted} that cannot be called here. --all shows them`] : []),
    ...describePassing(listed),
    ...(other > 0 ? [`Hidden: ${other} that produce no text. --output all shows them`] : []),
    ...describeAge(gateway.catalog.getBuiltIn(), unlisted > 0),
  ]
}

/** Says which names can be called that no list has. */
function describePassing({ core, gateway: { catalog, config } }: Listed): string[] {
  const names = core.listPassing(config, catalog.providers).map(({ slug }) => slug)
  return names.length > 0
    ? [`Not listed: other models of ${names.join(', ')}. Calls of them pass, at an unknown price`]
    : []
}

/** Says of which day the catalogue is, where a list leaves out some of it. */
const describeAge = ({ generated, problem }: BuiltInModels, leavesOut: boolean): string[] =>
  leavesOut || problem !== null
    ? [`Catalogue: of ${generated}${problem === null ? '' : ` (${problem})`}`]
    : []

// A tag may end in a region or a quantization.
const findProvider = <Provider>(providers: Map<string, Provider>, tag: string) =>
  providers.get(tag) ?? providers.get(tag.slice(0, tag.lastIndexOf('/')))

const formatPerMillion = (usdPerToken: string): string =>
  usdPerToken === '-1' ? 'unknown' : String(Number((Number(usdPerToken) * 1e6).toFixed(6)))
