import { type AnyElysia, Elysia } from 'elysia'
import { RawBody } from '../../core/dialects/raw-body.ts'
import type { Gateway } from '../../core/gateway.ts'
import type { Actor } from '../../core/identity/actor.ts'
import { listVideoModels } from '../../core/inference/videos/models.ts'
import { VideoContentQuery } from '../../core/inference/videos/schema.ts'
import { getVideo, getVideoContent } from '../../core/inference/videos.ts'
import { allowAnyone, requireKey } from '../access.ts'
import { readQuery } from '../body.ts'
import { createRawResponse } from '../byte-stream.ts'
import { findConnection } from '../connections.ts'
import { describeOperation } from '../operation.ts'

const ONE = { jobId: 'The job’s id' }

/** Creates the routes of jobs that make videos (wire reference B.3). A dialect begins them. */
export const createVideoRoutes = (gateway: Gateway): AnyElysia =>
  new Elysia().use(createListRoute(gateway)).use(createJobRoutes(gateway))

const createJobRoutes = (gateway: Gateway) =>
  new Elysia()
    .use(requireKey(gateway))
    .get(
      '/videos/:jobId',
      ({ actor, params: { jobId } }) => getVideo(gateway, actor, jobId),
      describeOperation({
        id: 'getVideos',
        tag: 'Videos',
        summary: 'Get how a video is coming along',
        params: ONE,
        statuses: [200, 401, 403, 404, 500],
      }),
    )
    .get(
      '/videos/:jobId/content',
      ({ actor, params: { jobId }, request }) => download(gateway, actor, jobId, request),
      describeOperation({
        id: 'listVideosContent',
        tag: 'Videos',
        summary: 'Download a video',
        params: ONE,
        query: VideoContentQuery,
        produces: ['video/mp4'],
        statuses: [200, 400, 401, 403, 404, 409, 410, 500, 502],
      }),
    )

const createListRoute = (gateway: Gateway) =>
  new Elysia().use(allowAnyone()).get(
    '/videos/models',
    () => listVideoModels(gateway),
    describeOperation({
      id: 'listVideosModels',
      tag: 'Videos',
      summary: 'List the models that make videos',
      open: true,
      statuses: [200, 500],
    }),
  )

/** Answers with the bytes of a video as its provider sends them. */
async function download(
  gateway: Gateway,
  actor: Actor,
  id: string,
  request: Request,
): Promise<Response> {
  const query = readQuery(request, VideoContentQuery)
  const { media_type, content } = await getVideoContent(gateway, actor, id, query)
  return createRawResponse(new RawBody(media_type, content), {}, findConnection(request))
}
