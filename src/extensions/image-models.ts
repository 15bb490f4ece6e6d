import { notFound } from '../base/errors.ts'
import { renderUsdPerToken } from '../base/money.ts'
import { kinds } from '../engine/kinds.ts'
import { MOST_PICTURES } from '../language/image.ts'
import type { CatalogWorld } from '../resources/catalog-world.ts'
import type { Endpoint, Model } from '../resources/models/catalog.ts'
import { getModel, listDrawingModels } from '../resources/models.ts'
import type { Prices } from '../resources/prices.ts'
import { getImageCapabilities, listFormats } from '../translation/protocols/images/capabilities.ts'
import { protocols } from '../translation/protocols/registry.ts'

/** How a parameter may be set (wire reference E.3). */
type Capability =
  | { type: 'boolean' }
  | { type: 'enum'; values: string[] }
  | { type: 'range'; min: number; max: number }

/** Lists the models that draw, as `GET /images/models` shows them. */
export const listImageModels = (world: CatalogWorld) => ({
  data: listDrawingModels(world).flatMap(model => {
    const endpoints = listDrawingEndpoints(model)
    return endpoints.length === 0 ? [] : [toPublicImageModel(model, endpoints)]
  }),
})

/**
 * Lists the endpoints of a model that draw, as `GET /images/models/{author}/{slug}/endpoints` shows
 * them. Throws 404 for a model that does not draw.
 */
export function listImageEndpoints(world: CatalogWorld, id: string) {
  const model = getModel(world, id)
  const endpoints = listDrawingEndpoints(model)
  if (endpoints.length === 0) throw notFound(`${model.id} does not draw pictures`)
  return { id: model.id, endpoints: endpoints.map(toPublicImageEndpoint) }
}

const listDrawingEndpoints = ({ output_modalities, endpoints }: Model): Endpoint[] =>
  kinds.image.matchesModalities(output_modalities)
    ? endpoints.filter(({ protocol }) => Object.hasOwn(protocols.image, protocol))
    : []

const toPublicImageModel = (model: Model, endpoints: Endpoint[]) => ({
  id: model.id,
  name: model.name,
  description: model.description,
  created: model.created ?? 0,
  architecture: {
    input_modalities: model.input_modalities,
    output_modalities: model.output_modalities,
  },
  endpoints: `/api/v1/images/models/${model.id}/endpoints`,
  supported_parameters: endpoints.map(listParameters).reduce(uniteParameters),
  supports_streaming: endpoints.some(endpoint => getImageCapabilities(endpoint).streams),
})

function toPublicImageEndpoint(endpoint: Endpoint) {
  const { streams, passthrough } = getImageCapabilities(endpoint)
  return {
    provider_name: endpoint.provider.name,
    provider_slug: endpoint.provider.slug,
    provider_tag: endpoint.region,
    supported_parameters: listParameters(endpoint),
    supports_streaming: streams,
    allowed_passthrough_parameters: [...passthrough],
    pricing: listPrices(endpoint.prices),
  }
}

function listParameters(endpoint: Endpoint): Record<string, Capability> {
  const can = getImageCapabilities(endpoint)
  // Where an endpoint draws fewer at once, it is asked several times.
  const formats = listFormats(can)
  const words: [string, readonly string[]][] = [
    ['aspect_ratio', can.aspect_ratios],
    ['resolution', can.resolutions],
    ['quality', can.qualities],
    ['background', can.backgrounds],
    ['output_format', formats],
  ]
  return {
    n: { type: 'range', min: 1, max: MOST_PICTURES },
    ...(can.references > 0
      ? { input_references: { type: 'range', min: 0, max: can.references } }
      : {}),
    ...Object.fromEntries(
      words.flatMap(([name, values]): [string, Capability][] =>
        values.length === 0 ? [] : [[name, { type: 'enum', values: [...values] }]],
      ),
    ),
    ...(formats.includes('jpeg')
      ? { output_compression: { type: 'range', min: 0, max: 100 } as const }
      : {}),
    ...(can.size ? { size: { type: 'boolean' } as const } : {}),
    ...(can.seed ? { seed: { type: 'boolean' } as const } : {}),
  }
}

function uniteParameters(
  one: Record<string, Capability>,
  other: Record<string, Capability>,
): Record<string, Capability> {
  const united = { ...one }
  for (const [name, capability] of Object.entries(other))
    united[name] = uniteCapabilities(united[name], capability)
  return united
}

function uniteCapabilities(one: Capability | undefined, other: Capability): Capability {
  if (one?.type === 'enum' && other.type === 'enum')
    return { type: 'enum', values: [...new Set([...one.values, ...other.values])] }
  if (one?.type === 'range' && other.type === 'range')
    return {
      type: 'range',
      min: Math.min(one.min, other.min),
      max: Math.max(one.max, other.max),
    }
  return other
}

/** Lists what is charged, by what it is charged for, and by variant where that matters. */
function listPrices(prices: Prices | null) {
  if (!prices) return []
  const { variants = [] } = prices
  const base = listRows(prices)
  const rows = variants.flatMap(({ quality, resolution, prices: rates }) => {
    const variant = [quality, resolution].filter(Boolean).join(' ')
    return listRows(rates)
      .filter(row => !base.some(one => Bun.deepEquals(one, row)))
      .map(row => ({ ...row, variant }))
  })
  return [...base, ...rows]
}

function listRows(prices: Prices) {
  const { prompt, completion, image, image_output, per_image, per_megapixel, per_input_image } =
    prices
  const rows = [
    ['input_text', 'token', prompt],
    ['input_image', 'token', image],
    ['output_image', 'token', image_output ?? completion],
    ['output_image', 'image', per_image],
    // Counted in thousandths.
    ['output_image', 'megapixel', per_megapixel && per_megapixel * 1_000n],
    ['input_reference', 'image', per_input_image],
  ] as const
  return rows.flatMap(([billable, unit, attos]) =>
    attos ? [{ billable, unit, cost_usd: Number(renderUsdPerToken(attos)) }] : [],
  )
}
