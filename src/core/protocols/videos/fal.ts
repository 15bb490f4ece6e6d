import type { Endpoint } from '../../catalog/models.ts'
import { omitUndefined, readObject, readObjects, readString } from '../../kernel/json.ts'
import type { VideoCall } from '../../language/video.ts'
import { findMessage, translateFailure, unreadableAnswer } from '../failure.ts'
import type { JobProtocol, JobState, Protocol, UpstreamJob, UpstreamRequest } from '../protocol.ts'
import {
  findFrame,
  listPictures,
  listUrls,
  pickSeconds,
  readVideoOptions,
  requireObject,
  toCompleted,
  toEnded,
  toJobParts,
  toRunning,
  videoDefaults,
} from '../videos.ts'

/** Pictures are asked for at another host than the queue. */
const hosts = { 'fal.run': 'queue.fal.run' }

const job: JobProtocol = {
  buildPoll: one => ({ method: 'GET', hosts, path: `${buildJobPath(one)}/status`, body: {} }),
  readState,
  buildResult: one => ({ method: 'GET', hosts, path: buildJobPath(one), body: {} }),
  readResult,
}

/** fal's queue: `POST /{model}`, then the request that it begins (https://docs.fal.ai/queue). */
export const falVideos: Protocol<'video'> = {
  ...videoDefaults,
  urlMedia: ['image', 'audio', 'video'],
  buildRequest,
  parseAnswer: body => toJobParts(requireObject(body).request_id),
  readFailure: (status, body) =>
    translateFailure(status, { code: null, message: findMessage(body) }),
  job,
}

/** A model may have a path within its app; requests are the app's. */
function buildJobPath({ upstream_id, upstreamModel }: UpstreamJob): string {
  const app = upstreamModel.split('/').slice(0, 2).map(encodeURIComponent).join('/')
  return `/${app}/requests/${encodeURIComponent(upstream_id)}`
}

function buildRequest(call: VideoCall, endpoint: Endpoint): UpstreamRequest {
  const { params } = call
  const pictures = listPictures(call)
  const seconds = pickSeconds(call, endpoint)
  const body = {
    ...readVideoOptions(call, endpoint),
    ...omitUndefined({
      prompt: call.prompt || undefined,
      image_url: findFrame(call, 'first_frame'),
      end_image_url: findFrame(call, 'last_frame'),
      reference_image_urls: pictures.length === 0 ? undefined : pictures,
      duration: seconds === null ? undefined : String(seconds),
      resolution: params.resolution?.toLowerCase(),
      aspect_ratio: params.aspect_ratio,
      generate_audio: params.generate_audio,
      seed: params.seed,
    }),
  }
  const path = `/${endpoint.upstreamModel.split('/').map(encodeURIComponent).join('/')}`
  return { hosts, path, body }
}

const STATES: Record<string, JobState['status']> = {
  IN_QUEUE: 'pending',
  IN_PROGRESS: 'in_progress',
  COMPLETED: 'completed',
}

// A request that failed is completed, too: its answer says so.
function readState(body: unknown): JobState {
  const answer = requireObject(body)
  const status = STATES[readString(answer.status) ?? '']
  if (status === undefined) throw unreadableAnswer()
  if (status !== 'completed') return toRunning(status === 'pending' ? status : 'in_progress')
  if (answer.error) return toEnded('failed', findMessage(answer.error))
  return { status, error: null, outputs: [], seconds: null }
}

function readResult(status: number, body: unknown): JobState {
  if (status === 400 || status === 422) return toEnded('failed', findMessage(body))
  if (status !== 200) throw unreadableAnswer()
  const answer = requireObject(body)
  const urls = [readObject(answer, 'video'), ...readObjects(answer.videos)].map(({ url }) => url)
  return toCompleted(listUrls(urls))
}
