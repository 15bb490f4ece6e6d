import { afterAll, beforeAll, beforeEach, expect, test } from 'bun:test'
import { type LocalServer, startLocalServer } from '../support/server.ts'
import { json, startUpstream, type Upstream } from '../support/upstream.ts'

/** A provider as its reference has it: its settings, what it is asked, what it answers. */
interface Wire {
  provider: string
  settings?: object
  model: string
  protocol?: string
  path: string
  body: object
  answer: unknown
  usage: object
}

const DOCUMENTS = ['one', 'two', 'three']
const ask = { query: 'Which?', documents: DOCUMENTS, top_n: 2 }
const SCORES = [
  [2, 0.9],
  [0, 0.25],
] as const
const results = SCORES.map(([index, relevance_score]) => ({ index, relevance_score }))
const tokens = (total: number) => ({ prompt_tokens: total, total_tokens: total })

const WIRES: Record<string, Wire> = {
  // https://docs.cohere.com/reference/rerank
  Cohere: {
    provider: 'cohere',
    model: 'rerank-v3.5',
    path: '/v1/rerank',
    body: { model: 'rerank-v3.5', ...ask },
    answer: { id: 'r-1', results, meta: { billed_units: { search_units: 1 } } },
    usage: { search_units: 1 },
  },
  // https://docs.voyageai.com/reference/reranker-api
  Voyage: {
    provider: 'voyage',
    model: 'rerank-2.5',
    path: '/v1/rerank',
    body: { model: 'rerank-2.5', query: 'Which?', documents: DOCUMENTS, top_k: 2 },
    answer: { object: 'list', data: results, model: 'rerank-2.5', usage: { total_tokens: 26 } },
    usage: { total_tokens: 26 },
  },
  // https://api.jina.ai/redoc#tag/rerank
  Jina: {
    provider: 'jina',
    model: 'jina-reranker-v3',
    path: '/v1/rerank',
    body: { model: 'jina-reranker-v3', ...ask, return_documents: false },
    answer: { model: 'jina-reranker-v3', object: 'list', usage: { total_tokens: 30 }, results },
    usage: { total_tokens: 30 },
  },
  // https://docs.aws.amazon.com/bedrock/latest/userguide/rerank-use.html
  'Amazon Bedrock': {
    provider: 'bedrock',
    settings: { region: 'us-west-2' },
    model: 'amazon.rerank-v1:0',
    path: '/v1/model/amazon.rerank-v1%3A0/invoke',
    body: ask,
    answer: { results },
    usage: { search_units: 1 },
  },
  'Cohere’s at Amazon Bedrock': {
    provider: 'bedrock',
    settings: { region: 'us-west-2' },
    model: 'cohere.rerank-v3-5:0',
    path: '/v1/model/cohere.rerank-v3-5%3A0/invoke',
    body: { ...ask, api_version: 2 },
    answer: { results },
    usage: { search_units: 1 },
  },
  // https://cloud.google.com/generative-ai-app-builder/docs/ranking
  Vertex: {
    provider: 'ranking',
    settings: { protocol: 'vertex-rerank' },
    model: 'semantic-ranker-default@latest',
    path: '/v1/rankingConfigs/default_ranking_config:rank',
    body: {
      model: 'semantic-ranker-default@latest',
      query: 'Which?',
      records: DOCUMENTS.map((content, i) => ({ id: String(i), content })),
      topN: 2,
      ignoreRecordDetailsInResponse: true,
    },
    answer: { records: SCORES.map(([index, score]) => ({ id: String(index), score })) },
    usage: { search_units: 1 },
  },
  // https://docs.together.ai/reference/rerank
  Together: {
    provider: 'together',
    model: 'Salesforce/Llama-Rank-V1',
    path: '/v1/rerank',
    body: { model: 'Salesforce/Llama-Rank-V1', ...ask },
    answer: {
      object: 'rerank',
      id: 'r-1',
      model: 'Salesforce/Llama-Rank-V1',
      results: results.map(one => ({ ...one, document: {} })),
      usage: { ...tokens(2_966), completion_tokens: 0 },
    },
    usage: { total_tokens: 2_966 },
  },
  // https://docs.fireworks.ai/api-reference/rerank-documents
  Fireworks: {
    provider: 'fireworks',
    model: 'fireworks/qwen3-reranker-8b',
    path: '/v1/rerank',
    body: { model: 'fireworks/qwen3-reranker-8b', ...ask },
    answer: {
      object: 'list',
      model: 'fireworks/qwen3-reranker-8b',
      data: results.map(one => ({ ...one, document: 'x' })),
      usage: { ...tokens(50), completion_tokens: 0 },
    },
    usage: { total_tokens: 50 },
  },
  // https://docs.api.nvidia.com/nim/reference/nvidia-llama-3_2-nv-rerankqa-1b-v2-infer
  NVIDIA: {
    provider: 'nvidia',
    model: 'nvidia/llama-3.2-nv-rerankqa-1b-v2',
    protocol: 'nvidia-rerank',
    path: '/v1/retrieval/nvidia/llama-3_2-nv-rerankqa-1b-v2/reranking',
    body: {
      model: 'nvidia/llama-3.2-nv-rerankqa-1b-v2',
      query: { text: 'Which?' },
      passages: DOCUMENTS.map(text => ({ text })),
    },
    answer: {
      rankings: [...SCORES, [1, -4.5]].map(([index, logit]) => ({ index, logit })),
      usage: tokens(40),
    },
    usage: { total_tokens: 40 },
  },
  // https://docs.vllm.ai/en/latest/serving/openai_compatible_server.html#re-rank-api
  vLLM: {
    provider: 'vllm-rank',
    settings: { protocol: 'openai-chat' },
    model: 'BAAI/bge-reranker-base',
    path: '/v1/rerank',
    body: { model: 'BAAI/bge-reranker-base', ...ask },
    answer: {
      id: 'rerank-1',
      model: 'BAAI/bge-reranker-base',
      usage: { total_tokens: 56 },
      results: results.map(one => ({ ...one, document: { text: 'x' } })),
    },
    usage: { total_tokens: 56 },
  },
  // https://huggingface.github.io/text-embeddings-inference
  TEI: {
    provider: 'tei',
    settings: { protocol: 'tei-rerank' },
    model: 'BAAI/bge-reranker-large',
    path: '/v1/rerank',
    body: { query: 'Which?', texts: DOCUMENTS },
    answer: [...SCORES, [1, 0.01]].map(([index, score]) => ({ index, score })),
    usage: { search_units: 1 },
  },
  // https://github.com/ggml-org/llama.cpp/tree/master/tools/server
  'llama.cpp': {
    provider: 'llama-rank',
    settings: { protocol: 'openai-chat' },
    model: 'bge-reranker-v2-m3',
    path: '/v1/rerank',
    body: { model: 'bge-reranker-v2-m3', ...ask },
    answer: { model: 'bge-reranker-v2-m3', object: 'list', usage: tokens(31), results },
    usage: { total_tokens: 31 },
  },
}

const names = Object.keys(WIRES)
const idOf = (name: string) => `acme/${name.toLowerCase().replace(/[^a-z]+/g, '-')}`

let upstream: Upstream
let server: LocalServer

beforeAll(async () => {
  upstream = await startUpstream()
  server = await startLocalServer({
    providers: Object.fromEntries(
      Object.values(WIRES).map(({ provider, settings }) => [
        provider,
        { base_url: upstream.url, api_key: 'mock', ...settings },
      ]),
    ),
    models: Object.entries(WIRES).map(([name, { provider, model, protocol, usage }]) => ({
      id: idOf(name),
      output_modalities: ['rerank'],
      endpoints: [
        {
          provider,
          model,
          ...(protocol ? { protocol } : {}),
          usd_per_million_tokens: {
            prompt: 0,
            completion: 0,
            ...('search_units' in usage ? { per_search_unit: 0.001 } : {}),
          },
        },
      ],
    })),
  })
})

beforeEach(() => {
  upstream.hits.length = 0
})

afterAll(async () => {
  await server[Symbol.asyncDispose]()
  await upstream.close()
})

test.each(names)('%s is asked and read in its own form', async name => {
  const { path, body, answer, usage } = WIRES[name] as Wire
  upstream.plan(json(answer))
  const response = await server.fetch('/rerank', { json: { model: idOf(name), ...ask } })
  const read = (await response.json()) as { results: { index: number }[]; usage: object }
  expect([response.status, read]).toEqual([200, expect.anything()])
  expect([upstream.hits[0]?.path, upstream.hits[0]?.json]).toEqual([path, body])
  expect(read.results).toEqual(
    SCORES.map(([index, relevance_score]) => ({
      ...{ index, relevance_score },
      document: { text: DOCUMENTS[index] },
    })) as never,
  )
  expect(read.usage).toMatchObject(usage)
})
