import fc from 'fast-check'
import type { RerankDocument } from '../../../src/language/rerank.ts'
import { buildRerankCall } from '../../support/call.ts'
import type { KindSample } from '../kind.ts'
import { texts } from './marked.ts'

const image = fc.constantFrom('https://example.com/a.png', 'data:image/png;base64,AAAA')

const documents: fc.Arbitrary<RerankDocument> = fc.oneof(
  { weight: 3, arbitrary: fc.record({ text: texts }) },
  { weight: 1, arbitrary: fc.record({ image }) },
  { weight: 1, arbitrary: fc.record({ text: texts, image }) },
)

/** The sample of reranking. */
export const sample: KindSample<'rerank'> = {
  calls: fc
    .record({
      query: texts,
      documents: fc.array(documents, { minLength: 1, maxLength: 6 }),
      params: fc.record({ top_n: fc.integer({ min: 1, max: 10 }) }, { requiredKeys: [] }),
    })
    .map(buildRerankCall),
  isUnreadable: () => false,
  variants: [],
  content: [{ type: 'ranking', index: 0, relevance_score: 0.5 }],
}
