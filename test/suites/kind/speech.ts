import fc from 'fast-check'
import { buildSpeechCall } from '../../support/call.ts'
import type { KindSample } from '../kind.ts'
import { texts } from './marked.ts'

const voices = fc.record(
  {
    data: fc.constant('UklGRg=='),
    format: fc.constant('wav'),
    transcript: texts,
  },
  { requiredKeys: ['data', 'format'] },
)

/** The sample of speech. */
export const sample: KindSample<'speech'> = {
  calls: fc
    .record(
      {
        input: texts,
        instructions: texts,
        sample: voices,
        params: fc.record(
          {
            response_format: fc.constantFrom('pcm', 'mp3', 'wav', 'opus', 'flac', 'aac'),
            voice: fc.constant('alloy'),
            speed: fc.double({ min: 0.25, max: 4, noNaN: true }),
          },
          { requiredKeys: ['response_format'] },
        ),
      },
      { requiredKeys: ['input', 'params'] },
    )
    .map(buildSpeechCall),
  isUnreadable: () => false,
  variants: [],
  content: [{ type: 'sound', bytes: Buffer.from('aGk=', 'base64') }],
}
