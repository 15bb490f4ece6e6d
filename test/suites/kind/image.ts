import fc from 'fast-check'
import { buildImageCall } from '../../support/call.ts'
import type { KindSample } from '../kind.ts'
import { texts } from './marked.ts'

const references = fc.constantFrom('https://example.com/a.png', 'data:image/png;base64,AAAA')
const sides = fc.integer({ min: 1, max: 4_096 })

/** The sample of pictures. */
export const sample: KindSample<'image'> = {
  calls: fc
    .record({
      prompt: texts,
      references: fc.array(references, { maxLength: 4 }),
      params: fc.record(
        {
          n: fc.integer({ min: 1, max: 10 }),
          size: fc.record({ width: sides, height: sides }),
          resolution: fc.constantFrom('512', '1K', '2K', '4K'),
          quality: fc.constantFrom('auto', 'low', 'high'),
          seed: fc.integer(),
        },
        { requiredKeys: [] },
      ),
    })
    .map(buildImageCall),
  isUnreadable: () => false,
  variants: [],
  content: [
    { type: 'picture', data: 'aGk=', media_type: 'image/png' },
    { type: 'preview', index: 0, data: 'aGk=' },
  ],
}
