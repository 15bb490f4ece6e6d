import type { Gateway } from '../../app/gateway.ts'
import { GatewayError } from '../../base/errors.ts'
import type { VideoContent } from '../../extensions/videos/content.ts'
import {
  getVideo,
  getVideoContent,
  listVideoModels,
  VideoContentQuery,
} from '../../extensions/videos.ts'
import type { Actor } from '../../resources/actor.ts'
import { RawBody } from '../../translation/dialects/raw-body.ts'
import { allowAnyone, requireKey } from '../access.ts'
import { readQuery } from '../body.ts'
import { createRawResponse } from '../byte-stream.ts'
import { findConnection } from '../connections.ts'
import { describeOperation } from '../operation.ts'
import { Routes } from '../routes.ts'
import { chooseRange } from './files.ts'

const ONE = { jobId: 'The job’s id' }

/** Creates the routes of jobs that make videos (wire reference B.3). A dialect begins them. */
export const createVideoRoutes = (gateway: Gateway): Routes[] => [
  createListRoute(gateway),
  createJobRoutes(gateway),
]

const createJobRoutes = (gateway: Gateway) =>
  new Routes(requireKey(gateway))
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
        statuses: [200, 206, 400, 401, 403, 404, 409, 410, 416, 500, 502],
      }),
    )

const createListRoute = (gateway: Gateway) =>
  new Routes(allowAnyone()).get(
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

/** Answers with the bytes of a video, or those that are asked for, as its provider sends them. */
async function download(
  gateway: Gateway,
  actor: Actor,
  id: string,
  request: Request,
): Promise<Response> {
  const query = readQuery(request, VideoContentQuery)
  const { headers } = request
  const wish = {
    range: headers.get('range'),
    if_range: headers.get('if-range'),
    choose: chooseRange(request),
  }
  const video = await getVideoContent(gateway, actor, id, query, wish)
  const { media_type, content, range, size } = video
  const status = range ? 206 : 200
  const length = range?.length ?? size
  const bytes =
    length !== null && length <= COLLECTED ? await collectVideo(gateway, video, length) : content
  if (bytes instanceof Uint8Array) {
    const type = { 'content-type': media_type, 'x-content-type-options': 'nosniff' }
    return new Response(bytes, { status, headers: { ...renderRange(video), ...type } })
  }
  const body = new RawBody(media_type, bytes)
  return createRawResponse(body, renderRange(video), findConnection(request), status)
}

/**
 * What is no longer than this is collected before it is sent: a response that is written as its bytes
 * arrive has no length, as Bun takes it away. It is told to clients that ask for a part.
 */
const COLLECTED = 4 * 1024 * 1024

/**
 * Collects the bytes, a few large ones at a time. Where some of them do not come, it returns those
 * that came, and the failure behind them: the response breaks off too.
 */
async function collectVideo(
  { traffic }: Gateway,
  { content }: VideoContent,
  length: number,
): Promise<Uint8Array<ArrayBuffer> | AsyncIterator<Uint8Array>> {
  const leave = length > LARGE ? await traffic.largeAnswers.enter() : null
  const bytes = new Uint8Array(length)
  let at = 0
  try {
    for (let step = await content.next(); !step.done; step = await content.next()) {
      if (at + step.value.length > length) break
      bytes.set(step.value, at)
      at += step.value.length
    }
    if (at === length) return bytes
    throw new GatewayError('provider_unavailable', 'Provider returned error')
  } catch (thrown) {
    return breakOff(bytes.subarray(0, at), thrown)
  } finally {
    leave?.()
    await content.return?.()
  }
}

const LARGE = 256 * 1024

async function* breakOff(bytes: Uint8Array, thrown: unknown): AsyncGenerator<Uint8Array> {
  yield bytes
  throw thrown
}

/** Renders what the bytes are of all the bytes (RFC 9110, 14.4). */
function renderRange({ size, range, validators }: VideoContent): Record<string, string> {
  return {
    ...validators,
    'accept-ranges': 'bytes',
    ...(range
      ? {
          'content-range': `bytes ${range.start}-${range.start + range.length - 1}/${size ?? '*'}`,
        }
      : {}),
  }
}
