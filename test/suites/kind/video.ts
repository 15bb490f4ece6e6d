import fc from 'fast-check'
import { buildVideoCall } from '../../support/call.ts'
import type { KindSample } from '../kind.ts'
import { texts } from './marked.ts'

const pictures = fc.constantFrom('https://example.com/a.png', 'data:image/png;base64,AAAA')
const sides = fc.integer({ min: 10, max: 8_192 })

/** The sample of videos. */
export const sample: KindSample<'video'> = {
  calls: fc
    .record({
      prompt: texts,
      frames: fc
        .array(pictures, { maxLength: 2 })
        .map(urls =>
          urls.map((url, i) => ({ type: i === 0 ? 'first_frame' : 'last_frame', url }) as const),
        ),
      references: fc.array(
        fc.record({ type: fc.constantFrom('image', 'audio', 'video'), url: pictures }),
        { maxLength: 4 },
      ),
      params: fc.record(
        {
          duration: fc.integer({ min: 1, max: 600 }),
          size: fc.record({ width: sides, height: sides }),
          resolution: fc.constantFrom('480p', '720p', '1080p', '4K'),
          aspect_ratio: fc.constantFrom('16:9', '9:16'),
          generate_audio: fc.boolean(),
          seed: fc.integer(),
        },
        { requiredKeys: [] },
      ),
    })
    .map(buildVideoCall),
  isUnreadable: () => false,
  variants: [],
  content: [{ type: 'job', upstream_id: 'video-1' }],
}
