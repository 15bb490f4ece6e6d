import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { createAmazonBedrock } from '@ai-sdk/amazon-bedrock'
import { createCohere } from '@ai-sdk/cohere'
import { createOpenAI } from '@ai-sdk/openai'
import { generateImage, type RerankingModel, rerank } from 'ai'
import OpenAI from 'openai'
import { hasRecordings } from '../support/recordings.ts'
import { type LocalServer, startLocalServer } from '../support/server.ts'
import { SHARED } from '../support/shared.ts'
import { type Hit, json, startUpstream, type Upstream } from '../support/upstream.ts'

/*
 * Every recorded ranking and picture reads the same directly and through the gateway: by the
 * provider's own client where there is one, and by the answer itself where there is none.
 */

const DOCUMENTS = Array.from({ length: 6 }, (_, i) => `Document ${i}`)

/** A recording: its name, and the answer as its provider sent it. */
interface Recording {
  name: string
  body: RecordedRanking & RecordedPictures
}

interface RecordedRanking {
  results?: Score[]
  data?: Score[]
  usage?: { total_tokens?: number }
  meta?: { billed_units?: { search_units?: number } }
}

interface Score {
  index: number
  relevance_score?: number
  relevanceScore?: number
}

interface RecordedPictures {
  usage?: { input_tokens?: number; output_tokens?: number; total_tokens?: number }
}

const readFolder = (folder: string): Recording[] =>
  !hasRecordings
    ? []
    : readdirSync(join(SHARED, 'recordings', folder)).map(file => ({
        name: file.replace(/\.json$/, ''),
        body: JSON.parse(readFileSync(join(SHARED, 'recordings', folder, file), 'utf8')),
      }))

const rankings = readFolder('rerank')
const pictures = readFolder('images')

/** The protocol of each provider, and its own client where there is one. */
const PROVIDERS: Record<string, { protocol: string; open?: (url: string) => RerankingModel }> = {
  'amazon-bedrock': {
    protocol: 'bedrock-converse',
    open: baseURL =>
      createAmazonBedrock({ baseURL, apiKey: 'mock', region: 'us-east-1' }).reranking('m'),
  },
  cohere: {
    protocol: 'cohere-chat',
    open: baseURL => createCohere({ baseURL, apiKey: 'mock' }).reranking('m'),
  },
  togetherai: { protocol: 'openai-chat' },
  voyage: { protocol: 'voyage-rerank' },
  openai: { protocol: 'openai-chat' },
}

const providerOf = ({ name }: Recording): string => name.split('__')[0] ?? ''
const idOf = ({ name }: Recording): string => `recorded/${name.replace(/[^a-z]+/g, '-')}`

let server: LocalServer
let upstream: Upstream
/** What the provider answers with. */
let recording: Recording

beforeAll(async () => {
  upstream = await startUpstream()
  upstream.answer((_: Hit) => json(recording.body))
  const all = [...rankings, ...pictures]
  const slugs = [...new Set(all.map(providerOf))]
  const toProvider = (slug: string) => ({
    protocol: PROVIDERS[slug]?.protocol,
    base_url: upstream.url,
    api_key: 'mock',
    ...(slug === 'amazon-bedrock' ? { region: 'us-east-1' } : {}),
  })
  server = await startLocalServer({
    providers: Object.fromEntries(slugs.map(slug => [`r-${slug}`, toProvider(slug)])),
    models: all.map(one => ({
      id: idOf(one),
      output_modalities: [rankings.includes(one) ? 'rerank' : 'image'],
      endpoints: [{ provider: `r-${providerOf(one)}`, model: 'gpt-image-1' }],
    })),
  })
})

afterAll(async () => {
  await server[Symbol.asyncDispose]()
  await upstream.close()
})

const ask = { query: 'Which?', documents: DOCUMENTS }

async function readRanking(model: RerankingModel) {
  const { ranking } = await rerank({ model, ...ask, maxRetries: 0 })
  return ranking.map(({ originalIndex, score }) => ({ index: originalIndex, score }))
}

/** The scores of an answer, as its fields have them. */
const readScores = ({ results, data }: RecordedRanking) =>
  (results ?? data ?? []).map(({ index, relevance_score, relevanceScore }) => ({
    index,
    score: relevance_score ?? relevanceScore ?? Number.NaN,
  }))

describe.skipIf(!hasRecordings)('a recorded ranking (recordings from GATEWAY_SHARED)', () => {
  test.each(rankings)('$name reads the same directly and through the gateway', async one => {
    recording = one
    const { open } = PROVIDERS[providerOf(one)] ?? {}
    const direct = open ? await readRanking(open(upstream.url)) : readScores(one.body)
    expect(direct).toEqual(readScores(one.body))
    const gateway = createCohere({ baseURL: server.base, apiKey: server.inference_key })
    expect(await readRanking(gateway.reranking(idOf(one)))).toEqual(direct)

    const response = await server.fetch('/rerank', { json: { model: idOf(one), ...ask } })
    const { results, usage } = (await response.json()) as RecordedRanking & {
      usage: { search_units?: number; total_tokens?: number }
    }
    expect(readScores({ results: results ?? [] })).toEqual(direct)
    const { search_units } = one.body.meta?.billed_units ?? {}
    if (search_units !== undefined) expect(usage.search_units).toBe(search_units)
    if (one.body.usage) expect(usage.total_tokens).toBe(one.body.usage.total_tokens)
  })

  test('is there for every provider that the table names', () => {
    expect(new Set(rankings.map(providerOf))).toEqual(
      new Set(Object.keys(PROVIDERS).filter(slug => slug !== 'openai')),
    )
  })
})

describe.skipIf(!hasRecordings)('recorded pictures (recordings from GATEWAY_SHARED)', () => {
  test.each(pictures)('$name reads the same directly and through the gateway', async one => {
    recording = one
    const read = async (baseURL: string, apiKey: string, model: string) => {
      const { data, usage } = await new OpenAI({ baseURL, apiKey, maxRetries: 0 }).images.generate({
        ...{ model, prompt: 'A sea otter', n: 2 },
      })
      const sdk = createOpenAI({ baseURL, apiKey }).image(model)
      const { images } = await generateImage({ model: sdk, prompt: 'A sea otter', maxRetries: 0 })
      return {
        data: data?.map(({ b64_json }) => b64_json),
        usage: usage as unknown as Record<string, number> | undefined,
        sdk: images.map(({ base64, mediaType }) => [base64, mediaType]),
      }
    }
    const direct = await read(upstream.url, 'mock', 'gpt-image-1')
    const through = await read(server.base, server.inference_key, idOf(one))
    expect(through.data).toEqual(direct.data)
    expect(through.data?.length).toBeGreaterThan(0)
    expect(through.sdk[0]).toEqual(direct.sdk[0])
    if (one.body.usage)
      expect(through.usage).toMatchObject({
        prompt_tokens: direct.usage?.input_tokens,
        completion_tokens: direct.usage?.output_tokens,
        total_tokens: direct.usage?.total_tokens,
      })
  })
})
