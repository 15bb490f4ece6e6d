import { describe, expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { RerankPart } from '../../../../src/language/rerank.ts'
import type { Protocol } from '../../../../src/translation/protocols/protocol.ts'
import { bedrockRerank } from '../../../../src/translation/protocols/rerank/bedrock.ts'
import { cohereRerank } from '../../../../src/translation/protocols/rerank/cohere.ts'
import { openaiRerank, voyageRerank } from '../../../../src/translation/protocols/rerank/openai.ts'
import { buildEndpoint, buildRerankCall } from '../../../support/call.ts'
import { hasRecordings } from '../../../support/recordings.ts'
import { SHARED } from '../../../support/shared.ts'

const FILES: [name: string, protocol: Protocol<'rerank'>, usage: object | undefined][] = [
  ['amazon-bedrock__amazon-bedrock-reranking.1', bedrockRerank, undefined],
  ['cohere__cohere-reranking.1', cohereRerank, { units: { search_unit: 1 } }],
  ['togetherai__togetherai-reranking.1', openaiRerank, { input: { text: 2966 } }],
  ['voyage__voyage-reranking.1', voyageRerank, { input: { text: 12 } }],
]

const call = buildRerankCall({
  documents: Array.from({ length: 6 }, (_, i) => ({ text: `Document ${i}` })),
})

const readRecording = (name: string) =>
  JSON.parse(readFileSync(join(SHARED, 'recordings/rerank', `${name}.json`), 'utf8'))

describe.skipIf(!hasRecordings)('a recorded ranking (recordings from GATEWAY_SHARED)', () => {
  test.each(FILES)('of %s has its indexes, scores and usage', (name, protocol, usage) => {
    const body = readRecording(name)
    const parts: RerankPart[] = protocol.parseAnswer(body, call, buildEndpoint())
    const rankings = parts.filter(({ type }) => type === 'ranking')
    const recorded: Record<string, number>[] = body.results ?? body.data
    expect(rankings).toEqual(
      recorded.map(({ index = -1, relevance_score, relevanceScore }) => ({
        type: 'ranking',
        index,
        relevance_score: relevance_score ?? relevanceScore ?? Number.NaN,
      })),
    )
    const counted = parts.find(({ type }) => type === 'usage')
    expect(counted).toEqual(
      usage && expect.objectContaining({ usage: expect.objectContaining({}) }),
    )
    if (usage) expect(counted).toMatchObject({ usage })
  })
})
