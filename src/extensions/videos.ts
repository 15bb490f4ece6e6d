import { type Static, Type } from '@sinclair/typebox'
import { getIsoTime } from '../base/clock.ts'
import { conflict, requireFound } from '../base/errors.ts'
import { renderUsdPerToken } from '../base/money.ts'
import { closed, Id, oneOf } from '../base/schema-builders.ts'
import { type Actor, resolveWorkspaceId } from '../resources/actor.ts'
import type { CatalogWorld } from '../resources/catalog-world.ts'
import type { Endpoint, Model } from '../resources/models/catalog.ts'
import { listVideoMakers } from '../resources/models.ts'
import type { Prices } from '../resources/prices.ts'
import { isOwnJob, VIDEO_STATUSES, type VideoJob } from '../resources/videos.ts'
import { protocols } from '../translation/protocols/registry.ts'
import {
  getVideoCapabilities,
  type VideoCapabilities,
} from '../translation/protocols/videos/capabilities.ts'
import { type CallbackWorld, deriveCallbackSecret } from './videos/callback.ts'
import { openVideoContent, type RangeWish, type VideoContent } from './videos/content.ts'
import { showVideo, showVideoToOperator } from './videos/view.ts'

/** What this noun needs beside the inference world: where users find the gateway. */
export type VideoWorld = CallbackWorld

/**
 * Returns how a job is doing. Throws 404 for a job that does not exist in the actor's workspace.
 */
export async function getVideo(world: VideoWorld, actor: Actor, id: string) {
  return showVideo(await requireVideo(world, actor, id), world.instance.siteUrl)
}

/**
 * Opens a video of a job. Throws as `getVideo` does, and as `openVideoContent`: 409 while the job
 * goes on, 410 where there is no video.
 */
export async function getVideoContent(
  world: VideoWorld,
  actor: Actor,
  id: string,
  { index = 0 }: VideoContentQuery,
  wish?: RangeWish,
): Promise<VideoContent> {
  return openVideoContent(world, await requireVideo(world, actor, id), index, wish)
}

async function requireVideo(world: VideoWorld, actor: Actor, id: string): Promise<VideoJob> {
  const job = await world.store.videos.find(id)
  return requireFound(job && isOwnJob(actor, job) ? job : undefined, 'Video')
}

/** The most jobs of one list: the newest. */
const MOST_LISTED = 10_000

/** Lists the newest jobs, of one workspace or of all. Throws 400 for a workspace without a name. */
export async function listVideos(
  world: VideoWorld,
  actor: Actor,
  { workspace_id, status }: VideoQuery = {},
) {
  const workspace =
    workspace_id === undefined ? null : resolveWorkspaceId(world, actor, workspace_id)
  const range = { workspace_id: workspace, status: status ?? null, limit: MOST_LISTED }
  const jobs = await world.store.videos.list(range)
  return { data: jobs.map(job => showVideoToOperator(job, world.instance.siteUrl)) }
}

/** Returns a job as operators see it. Throws 404. */
export async function showVideoJob(world: VideoWorld, _: Actor, id: string) {
  const job = requireFound(await world.store.videos.find(id), 'Video')
  return { data: showVideoToOperator(job, world.instance.siteUrl) }
}

/**
 * Asks for the end of a job: the server ends it at its provider, and it costs nothing. Throws 404,
 * and 409 for one that has ended.
 */
export async function cancelVideo(world: VideoWorld, _: Actor, id: string) {
  requireFound(await world.store.videos.find(id), 'Video')
  const isOpen = await world.store.videos.requestCancel(id, getIsoTime(world))
  if (!isOpen) throw conflict('The job has ended')
  return { data: { id, cancel_requested: true as const } }
}

/**
 * Returns the secret that signs what a workspace is told of its jobs; of the default one unless
 * another is named. Throws 400 for a workspace without a name, 404 for one that does not exist.
 */
export async function showCallbackSecret(
  world: VideoWorld,
  actor: Actor,
  { workspace_id }: VideoSecretQuery = {},
) {
  const id = resolveWorkspaceId(world, actor, workspace_id)
  return { data: { workspace_id: id, secret: deriveCallbackSecret(world, id) } }
}

/** The query of `GET /videos/{jobId}/content`. */
export const VideoContentQuery = Type.Object(
  { index: Type.Optional(Type.Integer({ minimum: 0, maximum: 1_000 })) },
  closed,
)
export type VideoContentQuery = Static<typeof VideoContentQuery>

/** Which jobs operators list. */
export const VideoQuery = Type.Object(
  {
    workspace_id: Type.Optional(Id),
    status: Type.Optional(oneOf(...VIDEO_STATUSES)),
  },
  closed,
)
export type VideoQuery = Static<typeof VideoQuery>

/** Whose secret operators ask for. */
export const VideoSecretQuery = Type.Object({ workspace_id: Type.Optional(Id) }, closed)
export type VideoSecretQuery = Static<typeof VideoSecretQuery>

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
