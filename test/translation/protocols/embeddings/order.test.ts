import { expect, test } from 'bun:test'
import fc from 'fast-check'
import { protocols } from '../../../../src/translation/protocols/registry.ts'
import { buildEmbeddingCall, buildEndpoint } from '../../../support/call.ts'

/*
 * Indexes are followed only if they are a permutation, and otherwise the order: every protocol whose
 * vectors have an index.
 */

const INDEXED = ['openai-chat', 'voyage-rerank', 'jina-rerank', 'sandbox']

const read = (name: string, data: object[]) => {
  const inputs = data.map(() => ({ type: 'text' as const, text: 'a' }))
  const call = buildEmbeddingCall({ inputs })
  const parts = protocols.embedding[name]?.parseAnswer({ data }, call, buildEndpoint()) ?? []
  return parts.flatMap(part => (part.type === 'embedding' ? [part.vector] : []))
}

const indexes = fc.array(
  fc.oneof(
    fc.integer({ min: -2, max: 12 }),
    fc.constantFrom(0, 1, 0.5, 1e99, '0', null, undefined, 'length', -0),
  ),
  { minLength: 1, maxLength: 12 },
)

test.each(INDEXED)('%s: any indexes, each vector once', name => {
  fc.assert(
    fc.property(indexes, given => {
      const vectors = read(
        name,
        given.map((index, i) => ({ index, embedding: [i] })),
      )
      const places = new Set(given)
      const isPermutation =
        places.size === given.length && given.every((_, place) => places.has(place))
      const inOrder = given.map((_, i) => [i])
      const byIndex = given.map((_, place) => [given.indexOf(place)])
      expect(vectors).toEqual(isPermutation ? byIndex : inOrder)
    }),
    { numRuns: 300 },
  )
})

test.each(INDEXED)('%s: permutations are followed', name => {
  const permutations = fc
    .integer({ min: 1, max: 40 })
    .chain(length => fc.shuffledSubarray([...Array(length).keys()], { minLength: length }))
  fc.assert(
    fc.property(permutations, given => {
      const data = given.map(index => ({ index, embedding: [index] }))
      expect(read(name, data)).toEqual(given.map((_, i) => [i]))
    }),
  )
})
