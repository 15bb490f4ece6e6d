import fc from 'fast-check'
import type { Recording } from '../../../src/language/transcription.ts'
import { buildTranscriptionCall } from '../../support/call.ts'
import type { KindSample } from '../kind.ts'
import { texts } from './marked.ts'

const read: Recording['read'] = async (_, length) => new Uint8Array(length)

const recordings: fc.Arbitrary<Recording> = fc.record({
  format: fc.constantFrom('wav', 'mp3', 'flac', 'ogg', 'webm', 'm4a', 'aac'),
  size: fc.integer({ min: 1, max: 104_857_600 }),
  seconds: fc.option(fc.double({ min: 0, max: 100_000, noNaN: true })),
  read: fc.constant(read),
})

/** The sample of transcription. */
export const sample: KindSample<'transcription'> = {
  calls: fc
    .record(
      {
        audio: recordings,
        prompt: texts,
        params: fc.record(
          {
            response_format: fc.constantFrom('json', 'verbose_json', 'text', 'srt', 'vtt'),
            language: fc.constant('en'),
            temperature: fc.double({ min: 0, max: 1, noNaN: true }),
            timestamp_granularities: fc.subarray<'word' | 'segment'>(['word', 'segment']),
          },
          { requiredKeys: ['response_format'] },
        ),
      },
      { requiredKeys: ['audio', 'params'] },
    )
    .map(buildTranscriptionCall),
  isUnreadable: () => false,
  variants: [],
  content: [{ type: 'transcript', choice: 0, text: 'Hello' }],
}
