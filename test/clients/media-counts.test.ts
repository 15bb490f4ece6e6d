import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import type { Json } from '../../src/base/json.ts'
import { type MediaStage, openMediaStage } from '../support/media.ts'
import { json } from '../support/upstream.ts'

/*
 * One reader finds every count that a server sends, whatever it calls it: every protocol of vectors
 * and of rankings, and every name.
 */

const COUNT = 4_200

/** Where servers count what they were given. */
const SHAPES: Record<string, Json> = {
  'usage.total_tokens': { usage: { total_tokens: COUNT } },
  'usage.prompt_tokens': { usage: { prompt_tokens: COUNT } },
  'usage.input_tokens': { usage: { input_tokens: COUNT, output_tokens: 0 } },
  'meta.billed_units': { meta: { billed_units: { input_tokens: COUNT } } },
  'meta.tokens': { meta: { tokens: { input_tokens: COUNT, output_tokens: 0 } } },
  'meta.tokens beside billed units': {
    meta: { billed_units: { search_units: 1 }, tokens: { input_tokens: COUNT, output_tokens: 0 } },
  },
  'meta.tokens beside a usage of nothing': {
    usage: { total_tokens: 0 },
    meta: { tokens: { input_tokens: COUNT } },
  },
  usageMetadata: { usageMetadata: { promptTokenCount: COUNT } },
  inputTextTokenCount: { inputTextTokenCount: COUNT },
  inputTokenCount: { inputTokenCount: COUNT },
  prompt_eval_count: { prompt_eval_count: COUNT },
  total_tokens: { total_tokens: COUNT },
}

/** The protocols, and an answer of each to one input or document, without a count. */
const VECTORS: Record<string, [settings: Json, model: string, answer: Json]> = {
  openai: [{ protocol: 'openai-chat' }, 'm', { data: [{ index: 0, embedding: [1] }] }],
  gemini: [{ protocol: 'gemini' }, 'm', { embedding: { values: [1] } }],
  cohere: [{ protocol: 'cohere-chat' }, 'm', { embeddings: { float: [[1]] } }],
  titan: [{ protocol: 'bedrock-converse', region: 'us-east-1' }, 'titan', { embedding: [1] }],
  voyage: [{ protocol: 'voyage-rerank' }, 'm', { data: [{ index: 0, embedding: [1] }] }],
}
const ranked = { results: [{ index: 0, relevance_score: 0.5 }] }
const RANKED: Record<string, [settings: Json, model: string, answer: Json]> = {
  openai: [{ protocol: 'openai-chat' }, 'm', ranked],
  cohere: [{ protocol: 'cohere-chat' }, 'm', ranked],
  bedrock: [{ protocol: 'bedrock-converse', region: 'us-east-1' }, 'm', ranked],
  voyage: [{ protocol: 'voyage-rerank' }, 'm', ranked],
  jina: [{ protocol: 'jina-rerank' }, 'm', ranked],
  nvidia: [{ protocol: 'nvidia-rerank' }, 'm', { rankings: [{ index: 0, logit: 1 }] }],
  vertex: [{ protocol: 'vertex-rerank' }, 'm', { records: [{ id: '0', score: 0.5 }] }],
}

let stage: MediaStage

beforeAll(async () => {
  const toModels = (kind: string, output: string, rows: typeof VECTORS) =>
    Object.entries(rows).map(([name, [settings, model]]) => ({
      ...{ id: `${kind}/${name}`, output, model, providers: [settings], prices: { prompt: 1_000 } },
      more: { context_length: 100_000 },
    }))
  stage = await openMediaStage([
    ...toModels('embed', 'embeddings', VECTORS),
    ...toModels('rank', 'rerank', RANKED),
  ])
})
afterAll(() => stage[Symbol.asyncDispose]())

const cross = (rows: typeof VECTORS) =>
  Object.keys(rows).flatMap(name => Object.keys(SHAPES).map(shape => ({ name, shape })))

describe('tokens of vectors', () => {
  test.each(cross(VECTORS))('$name counts in $shape', async ({ name, shape }) => {
    const answer = VECTORS[name]?.[2]
    stage.upstreamOf(`embed/${name}`).plan(json({ ...answer, ...SHAPES[shape] }))
    const { usage } = await stage.openai.embeddings.create({ model: `embed/${name}`, input: 'Hi' })
    expect(usage as unknown).toMatchObject({ prompt_tokens: COUNT, cost: 4.2 })
  })
})

describe('tokens of rankings', () => {
  test.each(cross(RANKED))('$name counts in $shape', async ({ name, shape }) => {
    const answer = RANKED[name]?.[2]
    stage.upstreamOf(`rank/${name}`).plan(json({ ...answer, ...SHAPES[shape] }))
    const response = await stage.server.fetch('/rerank', {
      json: { model: `rank/${name}`, query: 'Hi', documents: ['Bye'] },
    })
    expect(await response.json()).toMatchObject({ usage: { total_tokens: COUNT, cost: 4.2 } })
  })
})
