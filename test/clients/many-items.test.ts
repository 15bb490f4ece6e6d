import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import { APIError } from 'openai'
import type { Json } from '../../src/base/json.ts'
import { type MediaStage, openMediaStage } from '../support/media.ts'
import { type Hit, json, type Script, status } from '../support/upstream.ts'

/*
 * What the public API allows at once is asked in as many requests as it takes, all or nothing, its
 * usage summed: every protocol that takes inputs or documents. Each server here refuses more than
 * its provider takes, in that provider's words, and answers so that the order can be told.
 */

/** A server of inputs: what it takes at once, and how it reads and answers. */
interface Family {
  settings: Json
  model: string
  most: number
  read(hit: Hit): string[]
  answer(texts: string[]): unknown
  /** Whether it counts what it was given. */
  counts: boolean
}

const numberOf = (text: string): number => Number(/\d+/.exec(text)?.[0])
const vectorOf = (text: string) => [numberOf(text), 1]
const bodyOf = ({ json: body }: Hit) => body as Json
const listOf = (value: unknown) => value as Json[]

const partsOf = (request: Json) => (request.content as { parts: { text: string }[] }).parts[0]?.text
const openai: Omit<Family, 'settings' | 'model' | 'most'> = {
  read: hit => [bodyOf(hit).input].flat() as string[],
  answer: texts => ({
    data: texts.map((text, index) => ({ index, embedding: vectorOf(text) })),
    usage: { prompt_tokens: texts.length, total_tokens: texts.length },
  }),
  counts: true,
}

const VECTORS: Record<string, Family> = {
  Gemini: {
    settings: { protocol: 'gemini' },
    model: 'gemini-embedding-001',
    most: 100,
    read: hit =>
      listOf(bodyOf(hit).requests ?? [bodyOf(hit)]).map(request => partsOf(request) ?? ''),
    answer: texts =>
      texts.length === 1
        ? { embedding: { values: vectorOf(texts[0] ?? '') } }
        : { embeddings: texts.map(text => ({ values: vectorOf(text) })) },
    counts: false,
  },
  Titan: {
    settings: { protocol: 'bedrock-converse', region: 'us-east-1' },
    model: 'amazon.titan-embed-text-v2:0',
    most: 1,
    read: hit => [String(bodyOf(hit).inputText)],
    answer: ([text = '']) => ({ embedding: vectorOf(text), inputTextTokenCount: 1 }),
    counts: true,
  },
  Nova: {
    settings: { protocol: 'bedrock-converse', region: 'us-east-1' },
    model: 'amazon.nova-2-multimodal-embeddings-v1:0',
    most: 1,
    read: hit => {
      const { text } = bodyOf(hit).singleEmbeddingParams as { text: { value: string } }
      return [text.value]
    },
    answer: ([text = '']) => ({ embeddings: [{ embedding: vectorOf(text) }], inputTokenCount: 1 }),
    counts: true,
  },
  Cohere: {
    settings: { protocol: 'cohere-chat' },
    model: 'embed-v4.0',
    most: 96,
    read: hit => bodyOf(hit).texts as string[],
    answer: texts => ({
      embeddings: { float: texts.map(vectorOf) },
      meta: { billed_units: { input_tokens: texts.length } },
    }),
    counts: true,
  },
  'Cohere at Bedrock': {
    settings: { protocol: 'bedrock-converse', region: 'us-east-1' },
    model: 'cohere.embed-english-v3',
    most: 96,
    read: hit => bodyOf(hit).texts as string[],
    answer: texts => ({ embeddings: { float: texts.map(vectorOf) } }),
    counts: false,
  },
  Voyage: { ...openai, settings: { protocol: 'voyage-rerank' }, model: 'voyage-4', most: 1_000 },
  OpenAI: {
    ...openai,
    settings: { protocol: 'openai-chat' },
    model: 'text-embedding-3-small',
    most: 2_048,
  },
  // https://huggingface.github.io/text-embeddings-inference
  'a server that tells its bound': {
    ...openai,
    settings: { protocol: 'openai-chat' },
    model: 'tei',
    most: 32,
  },
}

const RANKED: Record<string, Family> = {
  Vertex: {
    settings: { protocol: 'vertex-rerank' },
    model: 'semantic-ranker-512',
    most: 200,
    read: hit => listOf(bodyOf(hit).records).map(({ content }) => String(content)),
    answer: texts => ({
      records: texts.map((text, id) => ({ id: String(id), score: numberOf(text) })),
    }),
    counts: false,
  },
  Cohere: {
    settings: { protocol: 'cohere-chat' },
    model: 'rerank-v3.5',
    most: 10_000,
    read: hit => bodyOf(hit).documents as string[],
    answer: texts => ({
      results: texts.map((text, index) => ({ index, relevance_score: numberOf(text) })),
      meta: { billed_units: { search_units: Math.ceil(texts.length / 100) } },
    }),
    counts: true,
  },
  'Text Embeddings Inference': {
    settings: { protocol: 'tei-rerank' },
    model: 'bge-reranker',
    most: 32,
    read: hit => bodyOf(hit).texts as string[],
    answer: texts => texts.map((text, index) => ({ index, score: numberOf(text) })),
    counts: false,
  },
}

/** How servers refuse more than they take: the last ones are known by their own words alone. */
const refuse = (asked: number, most: number): Script =>
  status(422, {
    error: `batch size ${asked} > maximum allowed batch size ${most}`,
    error_type: 'Validation',
  })

const serve =
  ({ read, answer, most }: Family, refusal = refuse) =>
  (hit: Hit): Script => {
    const texts = read(hit)
    return texts.length > most ? refusal(texts.length, most) : json(answer(texts))
  }

let stage: MediaStage
const idOf = (kind: string, name: string) =>
  `${kind}/${name.toLowerCase().replace(/[^a-z]+/g, '-')}`
const perToken = { prompt: 1 }

beforeAll(async () => {
  const toModel = (kind: string, output: string) => (name: string) => {
    const { settings, model } = (kind === 'embed' ? VECTORS : RANKED)[name] ?? openFamily()
    const id = idOf(kind, name)
    return { id, output, model, prices: perToken, providers: [settings, settings] }
  }
  stage = await openMediaStage([
    ...Object.keys(VECTORS).map(toModel('embed', 'embeddings')),
    ...Object.keys(RANKED).map(toModel('rank', 'rerank')),
    {
      id: 'embed/first-is-small',
      output: 'embeddings',
      model: 'm',
      providers: [{ protocol: 'gemini' }, { protocol: 'openai-chat' }],
    },
  ])
})
afterAll(() => stage[Symbol.asyncDispose]())

function openFamily(): never {
  throw new Error('No such family')
}

const inputsOf = (count: number) => Array.from({ length: count }, (_, i) => `text ${i}`)
const sizes = (hits: Hit[], { read }: Family) => hits.map(hit => read(hit).length)

describe.each(Object.entries(VECTORS))('vectors of %s', (name, family) => {
  const model = idOf('embed', name)
  const { most } = family
  const counts = [1, 2, most, most + 1, 2 * most + 1, 150].filter(count => count <= 2_048)

  beforeEach(() => {
    for (const endpoint of [0, 1]) {
      stage.upstreamOf(model, endpoint).hits.length = 0
      stage.upstreamOf(model, endpoint).answer(serve(family))
    }
  })

  test.each([...new Set(counts)])('%d at once', async count => {
    const input = inputsOf(count)
    const answer = await stage.openai.embeddings.create({ model, input, encoding_format: 'float' })
    expect(answer.data.map(({ index }) => index)).toEqual(input.map((_, i) => i))
    expect(answer.data.map(({ embedding }) => embedding)).toEqual(input.map(vectorOf))
    if (family.counts) expect(answer.usage.prompt_tokens).toBe(count)
    const { hits } = stage.upstreamOf(model)
    const asked = sizes(hits, family).filter(size => size <= most)
    expect(asked).toHaveLength(Math.ceil(count / most))
    expect(stage.upstreamOf(model, 1).hits).toEqual([])
  })

  test('all of them or none: where one request fails, the next provider is asked for all', async () => {
    const input = inputsOf(Math.min(2 * most + 1, 2_048))
    const last = input.at(-1) ?? ''
    const answer = serve(family)
    stage
      .upstreamOf(model)
      .answer(hit => (family.read(hit).includes(last) ? status(503) : answer(hit)))
    const { data } = await stage.openai.embeddings.create({
      ...{ model, input, encoding_format: 'float' },
    })
    expect(data.map(({ embedding }) => embedding)).toEqual(input.map(vectorOf))
    const second = stage.upstreamOf(model, 1).hits
    expect(
      sizes(second, family)
        .filter(size => size <= most)
        .reduce((a, b) => a + b),
    ).toBe(input.length)
  })
})

describe.each(Object.entries(RANKED))('documents at %s', (name, family) => {
  const model = idOf('rank', name)
  const { most } = family
  const counts = [1, 40, most, most + 1, 2 * most + 1].filter(count => count <= 1_000)

  test.each([...new Set(counts)])('%d at once, of which the best are returned', async count => {
    stage.upstreamOf(model).hits.length = 0
    stage.upstreamOf(model).answer(serve(family))
    const response = await stage.server.fetch('/rerank', {
      json: { model, query: 'Which?', documents: inputsOf(count), top_n: 3 },
    })
    const { results } = (await response.json()) as { results: Json[] }
    const best = inputsOf(count)
      .map((_, i) => i)
      .toReversed()
      .slice(0, 3)
    expect(results.map(({ index }) => index)).toEqual(best)
    expect(results.map(({ document }) => document)).toEqual(best.map(i => ({ text: `text ${i}` })))
    const asked = sizes(stage.upstreamOf(model).hits, family).filter(size => size <= most)
    expect(asked).toHaveLength(Math.ceil(count / most))
  })
})

describe('a bound that a server has of its own', () => {
  const model = idOf('embed', 'a server that tells its bound')
  const family = VECTORS['a server that tells its bound'] ?? openFamily()

  test.each<[string, (asked: number, most: number) => Script]>([
    [
      'names it otherwise',
      (_, most) => status(400, `Too many inputs: at most ${most} are allowed`),
    ],
    ['does not name it', () => status(400, 'The batch is too large')],
    ['has only a status', () => status(413, 'Payload Too Large')],
    [
      'counts tokens',
      asked => status(400, `Requested ${asked}000 tokens, max 300000 tokens per request`),
    ],
  ])('%s', async (_, refusal) => {
    stage.upstreamOf(model).answer(serve(family, refusal))
    const input = inputsOf(150)
    const { data } = await stage.openai.embeddings.create({
      ...{ model, input, encoding_format: 'float' },
    })
    expect(data.map(({ embedding }) => embedding)).toEqual(input.map(vectorOf))
  })

  test('a server that refuses one input too is given up, and the next is asked', async () => {
    stage.upstreamOf(model).hits.length = 0
    stage.upstreamOf(model).answer(() => status(413, 'Payload Too Large'))
    stage.upstreamOf(model, 1).answer(serve(family))
    const input = inputsOf(8)
    const { data } = await stage.openai.embeddings.create({
      ...{ model, input, encoding_format: 'float' },
    })
    expect(data).toHaveLength(8)
    expect(stage.upstreamOf(model).hits.length).toBeLessThan(30)
  })

  test('a server that names always one fewer is asked twelve times at most', async () => {
    for (const endpoint of [0, 1]) {
      stage.upstreamOf(model, endpoint).hits.length = 0
      stage.upstreamOf(model, endpoint).answer(hit => refuse(0, family.read(hit).length - 1))
    }
    const asked = stage.openai.embeddings.create({ model, input: inputsOf(100) })
    expect(await asked.catch((thrown: APIError) => thrown)).toBeInstanceOf(APIError)
    const hits = [0, 1].flatMap(endpoint => stage.upstreamOf(model, endpoint).hits)
    expect(hits.length).toBeLessThan(40)
  })
})

test('what one endpoint cannot express is asked of the next', async () => {
  const model = 'embed/first-is-small'
  stage.upstreamOf(model, 1).plan(json({ data: [{ index: 0, embedding: [1] }] }))
  const { data } = await stage.openai.embeddings.create({ model, input: [1, 2, 3] })
  expect(data).toHaveLength(1)
  expect(stage.upstreamOf(model).hits).toEqual([])
})

test.each([
  ['the same for all', [0, 0, 0], [1, 2, 3]],
  ['from one', [1, 2, 3], [1, 2, 3]],
  ['none', [undefined, undefined, undefined], [1, 2, 3]],
  ['a permutation', [2, 0, 1], [2, 3, 1]],
])('indexes of vectors: %s', async (_, indexes, expected) => {
  const model = idOf('embed', 'OpenAI')
  const data = indexes.map((index, i) => ({ index, embedding: [i + 1] }))
  stage.upstreamOf(model).plan(json({ data, usage: { prompt_tokens: 3, total_tokens: 3 } }))
  const answer = await stage.openai.embeddings.create({
    ...{ model, input: inputsOf(3), encoding_format: 'float' },
  })
  expect(answer.data.map(({ embedding }) => embedding[0] ?? 0)).toEqual(expected)
})
