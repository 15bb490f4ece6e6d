import fc from 'fast-check'
import type { EmbeddingInput } from '../../../src/language/embedding.ts'
import { buildEmbeddingCall } from '../../support/call.ts'
import type { KindSample } from '../kind.ts'
import { mediaBlocks, texts } from './marked.ts'

const inputs: fc.Arbitrary<EmbeddingInput> = fc.oneof(
  { weight: 4, arbitrary: fc.record({ type: fc.constant('text' as const), text: texts }) },
  {
    weight: 4,
    arbitrary: fc.record({
      type: fc.constant('content' as const),
      blocks: fc.array(mediaBlocks, { maxLength: 4 }),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      type: fc.constant('tokens' as const),
      tokens: fc.array(fc.nat(), { maxLength: 8 }),
    }),
  },
)

const params = fc.record(
  {
    dimensions: fc.integer({ min: 1, max: 4_096 }),
    input_type: fc.constant('search_query'),
    encoding_format: fc.constantFrom('float' as const, 'base64' as const),
  },
  { requiredKeys: [] },
)

/** The sample of embeddings. */
export const sample: KindSample<'embedding'> = {
  calls: fc
    .record({ inputs: fc.array(inputs, { minLength: 1, maxLength: 4 }), params })
    .map(buildEmbeddingCall),
  // Only the model itself can decode tokens.
  isUnreadable: call => call.inputs.some(({ type }) => type === 'tokens'),
  variants: [],
  content: [{ type: 'embedding', index: 0, vector: [0.5] }],
}
