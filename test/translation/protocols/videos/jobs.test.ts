import { describe, expect, test } from 'bun:test'
import type { VideoCall } from '../../../../src/language/video.ts'
import { JOBS } from '../../../../src/translation/protocols/videos/jobs.data.ts'
import {
  createJobProtocol,
  type JobRow,
} from '../../../../src/translation/protocols/videos/jobs.ts'
import { buildEndpoint, buildVideoCall } from '../../../support/call.ts'

const FIRST = 'https://example.com/first.png'
const LAST = 'https://example.com/last.png'

const call = buildVideoCall({
  prompt: 'A cat',
  frames: [
    { type: 'first_frame', url: FIRST },
    { type: 'last_frame', url: LAST },
  ],
  references: [{ type: 'image', url: FIRST }],
  params: { duration: 5, aspect_ratio: '9:16', seed: 7, generate_audio: true },
})

/** Builds the request of a provider for a call. */
function build(name: string, upstreamModel: string, asked: VideoCall) {
  const row = JOBS[name] as JobRow
  const endpoint = buildEndpoint({ protocol: name, upstreamModel, output_modalities: ['video'] })
  return createJobProtocol(row).buildRequest(asked, endpoint)
}

describe('what a provider is asked for', () => {
  test.each<[string, string, object]>([
    [
      'fal',
      'fal-ai/kling-video/v2/master/image-to-video',
      {
        hosts: { 'fal.run': 'queue.fal.run' },
        path: '/fal-ai/kling-video/v2/master/image-to-video',
        body: {
          prompt: 'A cat',
          image_url: FIRST,
          end_image_url: LAST,
          reference_image_urls: [FIRST],
          duration: '5',
          aspect_ratio: '9:16',
          generate_audio: true,
          seed: 7,
        },
      },
    ],
    [
      'runway',
      'gen4_turbo',
      {
        headers: { 'x-runway-version': '2024-11-06' },
        path: '/image_to_video',
        body: {
          model: 'gen4_turbo',
          promptText: 'A cat',
          promptImage: FIRST,
          ratio: '720:1280',
          duration: 5,
          seed: 7,
        },
      },
    ],
    [
      'luma',
      'ray-2',
      {
        path: '/generations',
        body: {
          model: 'ray-2',
          prompt: 'A cat',
          keyframes: {
            frame0: { type: 'image', url: FIRST },
            frame1: { type: 'image', url: LAST },
          },
          resolution: '720p',
          aspect_ratio: '9:16',
          duration: '5s',
        },
      },
    ],
  ])('%s has its own names for it', (name, model, request) => {
    expect(build(name, model, call)).toEqual(request as never)
  })

  test('goes elsewhere without a picture, where the row says so, and in exact pixels', () => {
    const plain = buildVideoCall({ prompt: 'A cat', params: { size: { width: 960, height: 960 } } })
    expect(build('runway', 'gen4_turbo', plain)).toMatchObject({
      ...{ path: '/text_to_video', body: { ratio: '960:960' } },
    })
  })

  test.each(Object.entries(JOBS))(
    '%s: a model and an id are parts of paths, and lead nowhere else',
    (_, row) => {
      const { job } = createJobProtocol(row)
      const { path } = job?.buildPoll({ upstream_id: 'a/$&?b', upstreamModel: '../x' }) ?? {}
      expect(path).toContain('a%2F%24%26%3Fb')
    },
  )
})
