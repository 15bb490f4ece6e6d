import OpenAI from 'openai'
import type { Json } from '../../src/base/json.ts'
import { type LocalServer, startLocalServer } from './server.ts'
import { startUpstream, type Upstream } from './upstream.ts'

/** The smallest of pictures: one pixel. */
export const PNG =
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=='

/** Builds a picture of one pixel that has as many bytes beside it, in base64. */
export function buildPicture(bytes: number): string {
  const pixel = Buffer.from(PNG, 'base64')
  const end = pixel.length - 12
  const text = Buffer.alloc(bytes, 'x')
  const head = Buffer.alloc(4)
  head.writeUInt32BE(text.length)
  const chunk = Buffer.concat([Buffer.from('tEXt'), text])
  const sum = Buffer.alloc(4)
  sum.writeUInt32BE(Bun.hash.crc32(chunk))
  return Buffer.concat([pixel.subarray(0, end), head, chunk, sum, pixel.subarray(end)]).toString(
    'base64',
  )
}

/** A model of the config: its provider's protocol and settings, and what it gives. */
export interface MediaModel {
  id: string
  output: string | string[]
  /** The settings of its providers, one for each endpoint, beside their address. */
  providers: Json[]
  /** The model's name at its providers. */
  model?: string
  prices?: Json
  more?: Json
}

/** A gateway with models of media, their providers, and OpenAI's client of it. */
export interface MediaStage extends AsyncDisposable {
  server: LocalServer
  openai: OpenAI
  /** Returns the provider of a model's endpoint: of the first unless another is named. */
  upstreamOf(model: string, endpoint?: number): Upstream
}

/** Starts a gateway over models, each endpoint of which has a provider of its own. */
export async function openMediaStage(models: MediaModel[], config: Json = {}): Promise<MediaStage> {
  const upstreams = new Map<string, Upstream>()
  const providers: Json = {}
  const listed = []
  for (const { id, output, providers: settings, model = 'm', prices, more } of models) {
    const endpoints = []
    for (const [i, setting] of settings.entries()) {
      const slug = `${id.replace('/', '-')}-${i}`
      const upstream = await startUpstream()
      upstreams.set(`${id} ${i}`, upstream)
      providers[slug] = { base_url: upstream.url, api_key: 'mock', ...setting }
      const usd_per_million_tokens = prices && { prompt: 0, completion: 0, ...prices }
      endpoints.push({ provider: slug, model, ...(prices ? { usd_per_million_tokens } : {}) })
    }
    listed.push({ id, output_modalities: [output].flat(), endpoints, ...more })
  }
  const server = await startLocalServer(
    { routing: { choice: 'listed', failures: 0 }, ...config, providers, models: listed },
    { pollPace: { firstPause: 1, longestPause: 1 } },
  )
  await server.gateway.videos.start()
  const baseURL = `${server.url}/api/v1`
  return {
    server,
    openai: new OpenAI({ apiKey: server.inference_key, baseURL, maxRetries: 0 }),
    upstreamOf(model, endpoint = 0) {
      const upstream = upstreams.get(`${model} ${endpoint}`)
      if (!upstream) throw new Error(`${model} has no endpoint ${endpoint}`)
      return upstream
    },
    async [Symbol.asyncDispose]() {
      await server[Symbol.asyncDispose]()
      await Promise.all([...upstreams.values()].map(upstream => upstream.close()))
    },
  }
}
