import type { EndpointConfig, ModelConfig } from '../../config.ts'
import type { Endpoint, Model } from '../models.ts'
import type { Served } from '../parameters.ts'
import { FREE, pricesOf } from '../prices.ts'
import { dataPolicyOf } from '../providers/facts.ts'
import type { Provider } from '../providers.ts'
import type { EndpointRow, ModelRow } from './rows.ts'

/** Everything that opening a model needs. */
export interface Opening {
  providers: Map<string, Provider>
  /** The protocols that this version supports. */
  protocols: string[]
  /** In Unix seconds: the release time of models that only the config knows. */
  created: number
  parametersOf: (served: Served) => Set<string>
}

/** Opens a model from the config, from the built-in row, or from the config laid over the row. */
export function openModel(
  id: string,
  given: ModelConfig | undefined,
  row: ModelRow | undefined,
  opening: Opening,
): Model {
  const model = {
    id,
    name: given?.name ?? row?.name ?? id,
    description: given?.description ?? '',
    created: row ? releaseOf(row) : opening.created,
    context_length: given?.context_length ?? row?.context_length ?? null,
    input_modalities: given?.input_modalities ?? row?.input ?? ['text'],
    output_modalities: given?.output_modalities ?? row?.output ?? ['text'],
    reasoning: row?.reasoning ?? null,
  }
  const distillable = given?.distillable ?? false
  const own = given?.endpoints ?? []
  const builtIn = (row?.endpoints ?? []).filter(
    one => isSpoken(one, opening) && own.every(({ provider }) => provider !== one.provider),
  )
  const endpoints = [
    ...own.map(one => givenEndpoint({ ...model, distillable }, one, providerOf(one, opening))),
    ...builtIn.map(one =>
      builtInEndpoint({ ...model, distillable }, one, providerOf(one, opening), opening),
    ),
  ]
  return { ...model, endpoints: distinct(endpoints) }
}

const releaseOf = ({ created }: ModelRow) =>
  created === undefined ? null : Date.parse(created) / 1000

/**
 * Builds an endpoint's id from what it is, independent of its position in a list. Slugs of models
 * and providers have no space.
 */
function idOf(
  model: string,
  { slug, edition }: Provider,
  { model: upstreamModel, region, quantization }: EndpointConfig | EndpointRow,
): string {
  const provider = edition === 1 ? slug : `${slug} ${edition}`
  return [`${model} ${provider}`, upstreamModel, region, quantization]
    .filter(part => part !== undefined)
    .join('/')
}

/** Numbers endpoints that are listed twice, so that each has measurements of its own. */
function distinct(endpoints: Endpoint[]): Endpoint[] {
  const ids = new Set<string>()
  return endpoints.map(endpoint => {
    let { id } = endpoint
    for (let i = 2; ids.has(id); i++) id = `${endpoint.id} ${i}`
    ids.add(id)
    return id === endpoint.id ? endpoint : { ...endpoint, id }
  })
}

// A model cannot be called where its provider serves it in a protocol that this version does not
// support.
const isSpoken = ({ protocol }: EndpointRow, { protocols }: Opening) =>
  protocol === undefined || protocols.includes(protocol)

// The config was checked when it was read, the data when it was generated.
function providerOf({ provider }: { provider: string }, { providers }: Opening): Provider {
  const known = providers.get(provider)
  if (!known) throw new Error(`There is no provider ${provider}`)
  return known
}

type Described = Omit<Model, 'endpoints'> & Pick<Endpoint, 'distillable'>

function givenEndpoint(model: Described, given: EndpointConfig, provider: Provider): Endpoint {
  const { usd_per_million_tokens: prices, data_policy } = given
  const policy = dataPolicyOf(provider.slug)
  return {
    id: idOf(model.id, provider, given),
    provider,
    protocol: given.protocol ?? provider.protocol,
    model: model.id,
    upstreamModel: given.model,
    prices: prices ? pricesOf(prices) : provider.protocol === 'sandbox' ? FREE : null,
    context_length: given.context_length ?? model.context_length,
    max_completion_tokens: given.max_completion_tokens ?? null,
    supported_parameters: given.supported_parameters ? new Set(given.supported_parameters) : null,
    data_policy: {
      training: data_policy?.training ?? policy.training,
      retention_days: data_policy?.retention_days ?? policy.retention_days,
    },
    region: given.region ?? null,
    quantization: given.quantization ?? 'unknown',
    distillable: model.distillable,
    is_byok: false,
  }
}

function builtInEndpoint(
  model: Described,
  row: EndpointRow,
  provider: Provider,
  { parametersOf }: Opening,
): Endpoint {
  const protocol = row.protocol ?? provider.protocol
  const isText = model.output_modalities.includes('text')
  const { dropped } = provider.quirks
  return {
    id: idOf(model.id, provider, row),
    provider,
    protocol,
    model: model.id,
    upstreamModel: row.model,
    prices: row.prices ? pricesOf(row.prices) : null,
    context_length: row.context_length ?? model.context_length,
    max_completion_tokens: row.max_completion_tokens ?? null,
    supported_parameters: parametersOf({
      provider: row.provider,
      protocol,
      dropped,
      reasoning: row.reasoning ?? null,
      isText,
    }),
    data_policy: dataPolicyOf(row.provider),
    region: row.region ?? null,
    quantization: row.quantization ?? 'unknown',
    distillable: model.distillable,
    is_byok: false,
  }
}
