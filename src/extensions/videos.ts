import { type Static, Type } from '@sinclair/typebox'
import { getIsoTime } from '../base/clock.ts'
import { conflict, requireFound } from '../base/errors.ts'
import { closed, Id, oneOf } from '../base/schema-builders.ts'
import { type Actor, resolveWorkspaceId } from '../resources/actor.ts'
import { isOwnJob, VIDEO_STATUSES, type VideoJob } from '../resources/videos.ts'
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
