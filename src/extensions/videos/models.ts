import { renderUsdPerToken } from '../../base/money.ts'
import type { CatalogWorld } from '../../resources/catalog-world.ts'
import type { Endpoint, Model } from '../../resources/models/catalog.ts'
import { listVideoMakers } from '../../resources/models.ts'
import type { Prices } from '../../resources/prices.ts'
import { protocols } from '../../translation/protocols/registry.ts'
import {
  getVideoCapabilities,
  type VideoCapabilities,
} from '../../translation/protocols/videos/capabilities.ts'

/** Lists the models that make videos, as `GET /videos/models` shows them. */
export const listVideoModels = (world: CatalogWorld) => ({
  data: listVideoMakers(world).flatMap(model => {
    const endpoints = model.endpoints.filter(isOfVideos)
    return endpoints.length === 0 ? [] : [showVideoModel(model, endpoints)]
  }),
})

const isOfVideos = ({ protocol }: Endpoint): boolean => Object.hasOwn(protocols.video, protocol)

/** Shows what any endpoint of the model can be asked for; null where nothing is known. */
function showVideoModel(model: Model, endpoints: Endpoint[]) {
  const all = endpoints.map(getVideoCapabilities)
  const unite = <Value>(read: (can: VideoCapabilities) => readonly Value[] | null) =>
    uniteLists(all.map(read))
  const durations = unite(can => can.durations)
  return {
    id: model.id,
    canonical_slug: model.id,
    hugging_face_id: null,
    name: model.name,
    description: model.description,
    created: model.created ?? 0,
    supported_resolutions: unite(can => can.resolutions),
    supported_aspect_ratios: unite(can => can.ratios),
    supported_sizes: unite(can => can.sizes),
    supported_durations: durations?.toSorted((a, b) => a - b) ?? null,
    supported_frame_images: unite(can => can.frames),
    upscale_factor: null,
    creativity: null,
    generate_audio: all.some(({ audio }) => audio !== 'never'),
    seed: all.some(({ seed }) => seed),
    allowed_passthrough_parameters: unite(can => can.passthrough) ?? [],
    pricing_skus: listPrices(endpoints[0]?.prices ?? null),
  }
}

// Without a list, anything may be asked for.
const uniteLists = <Value>(lists: (readonly Value[] | null)[]): Value[] | null =>
  lists.includes(null) ? null : [...new Set(lists.flatMap(list => list ?? []))]

/** Lists the prices of a video and of its seconds, in USD; null where they are not known. */
function listPrices(prices: Prices | null): Record<string, string> | null {
  if (!prices) return null
  const { per_video, per_second, per_second_1080p, per_second_4k, request } = prices
  const rows = [
    ['request', request],
    ['per_video', per_video],
    // Counted in thousandths.
    ['per_second', per_second && per_second * 1_000n],
    ['per_second_1080p', per_second_1080p && per_second_1080p * 1_000n],
    ['per_second_4k', per_second_4k && per_second_4k * 1_000n],
  ] as const
  return Object.fromEntries(
    rows.flatMap(([name, attos]) => (attos ? [[name, renderUsdPerToken(attos)]] : [])),
  )
}
