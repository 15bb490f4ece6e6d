import { findMessage } from '../failure.ts'
import type { JobRow } from './jobs.ts'

const toKeyframe = (url: unknown) => ({ type: 'image', url })

/**
 * Every provider whose videos are jobs of one shape: a POST begins one, a GET tells how it is doing.
 * A new one is a row here, with the name of its protocol, and what it can be asked for in
 * `capabilities.ts`.
 */
export const JOBS: Record<string, JobRow> = {
  /** https://docs.fal.ai/queue: a model may have a path within its app; requests are the app's. */
  fal: {
    // Pictures are asked for at another host than the queue.
    hosts: { 'fal.run': 'queue.fal.run' },
    begin: '/{model}',
    id: 'request_id',
    poll: '/{app}/requests/{id}/status',
    result: '/{app}/requests/{id}',
    fields: {
      prompt: 'prompt',
      first_frame: 'image_url',
      last_frame: 'end_image_url',
      pictures: 'reference_image_urls',
      seconds: ['duration', String],
      resolution: 'resolution',
      aspect_ratio: 'aspect_ratio',
      generate_audio: 'generate_audio',
      seed: 'seed',
    },
    state: 'status',
    // A request that failed is completed, too: its answer says so.
    failure: answer => (answer.error ? (findMessage(answer.error) ?? '') : null),
    outputs: ['video.url', 'videos.url'],
  },
  /** https://docs.dev.runwayml.com/api */
  runway: {
    // The date of the API that this speaks.
    headers: { 'x-runway-version': '2024-11-06' },
    begin: '/text_to_video',
    beginWithPicture: '/image_to_video',
    id: 'id',
    poll: '/tasks/{id}',
    canCancel: true,
    fields: {
      model: 'model',
      prompt: 'promptText',
      first_frame: 'promptImage',
      ratio: 'ratio',
      seconds: 'duration',
      seed: 'seed',
    },
    /** The pixels that each ratio has there, by which it is named. */
    ratios: {
      '16:9': '1280:720',
      '9:16': '720:1280',
      '1:1': '960:960',
      '4:3': '1112:834',
      '3:4': '834:1112',
      '21:9': '1584:672',
    },
    state: 'status',
    error: 'failure',
    outputs: ['output'],
  },
  /** https://docs.lumalabs.ai/docs/video-generation */
  luma: {
    begin: '/generations',
    id: 'id',
    poll: '/generations/{id}',
    canCancel: true,
    fields: {
      model: 'model',
      prompt: 'prompt',
      first_frame: ['keyframes.frame0', toKeyframe],
      last_frame: ['keyframes.frame1', toKeyframe],
      resolution: 'resolution',
      aspect_ratio: 'aspect_ratio',
      seconds: ['duration', seconds => `${seconds}s`],
    },
    resolution: '720p',
    state: 'state',
    error: 'failure_reason',
    outputs: ['assets.video'],
  },
}
