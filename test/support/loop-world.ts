import type { Gateway } from '../../src/app/gateway.ts'
import { systemClock } from '../../src/base/clock.ts'
import { type Send, toIncomingResponse } from '../../src/network/egress.ts'
import { createApp } from '../../src/server/app.ts'
import { createTestKeys, testGateway } from './gateway.ts'

/** A provider of each protocol, and one that wants its messages to alternate. */
const PROTOCOLS = [
  'openai-chat',
  'anthropic-messages',
  'gemini',
  'bedrock-converse',
  'cohere-chat',
  'openai-responses',
]
const EMBEDDING_PROTOCOLS = ['openai-chat', 'gemini', 'bedrock-converse', 'cohere-chat']
const MODALITIES = ['text', 'image', 'file', 'audio', 'video']

export const TEXT_MODELS = [...PROTOCOLS, 'alternating'].map(name => `acme/${name}`)
export const EMBEDDING_MODELS = EMBEDDING_PROTOCOLS.map(name => `acme/embed-${name}`)

const base = { base_url: 'http://127.0.0.1:9/v1', api_key: 'mock' }
const endpoint = (provider: string) => ({
  provider,
  model: 'm',
  usd_per_million_tokens: { prompt: 1, completion: 1 },
})
const textModel = (name: string) => ({
  id: `acme/${name}`,
  context_length: 20_000_000,
  input_modalities: MODALITIES,
  endpoints: [endpoint(name)],
})

const CONFIG = {
  providers: {
    ...Object.fromEntries(PROTOCOLS.map(protocol => [protocol, { ...base, protocol }])),
    alternating: { ...base, protocol: 'openai-chat', quirks: { alternating: true } },
  },
  models: [
    ...[...PROTOCOLS, 'alternating'].map(textModel),
    ...EMBEDDING_PROTOCOLS.map(name => ({
      id: `acme/embed-${name}`,
      input_modalities: MODALITIES,
      output_modalities: ['embeddings'],
      endpoints: [endpoint(name)],
    })),
  ],
}

/** A gateway and its app in this process. */
export interface LoopWorld {
  gateway: Gateway
  keys: { management: string; inference: string }
  /** Sends a request, and returns the status and the text of its answer. */
  send(path: string, body?: unknown, options?: SendOptions): Promise<LoopAnswer>
}

export interface SendOptions {
  method?: string
  /** Null for none. The inference key by default. */
  key?: string | null
}

export interface LoopAnswer {
  status: number
  text: string
}

/**
 * Opens a gateway whose providers answer at once and in this process, as `answer` does: 400 by
 * default. The sandbox answers as always.
 */
export async function openLoopWorld(
  answer: () => Response = () => Response.json({ error: { message: 'No' } }, { status: 400 }),
): Promise<LoopWorld> {
  const gateway = await testGateway({ config: CONFIG, clock: systemClock })
  const keys = await createTestKeys(gateway)
  const { send: sendOut } = gateway.egress
  const sendHere: Send = (outgoing, cancellation) => {
    if (outgoing.url.startsWith('sandbox:')) return sendOut(outgoing, cancellation)
    outgoing.onSent?.()
    return Promise.resolve(toIncomingResponse(answer()))
  }
  gateway.egress.send = sendHere
  const app = createApp(gateway)
  return {
    gateway,
    keys,
    async send(path, body, { method = body === undefined ? 'GET' : 'POST', key } = {}) {
      const headers = new Headers({ 'content-type': 'application/json' })
      if (key !== null) headers.set('authorization', `Bearer ${key ?? keys.inference}`)
      const text = body === undefined || typeof body === 'string' ? body : JSON.stringify(body)
      const init = {
        method,
        headers,
        ...(text === undefined ? {} : { body: arrive(text, headers) }),
      }
      const response = await app.handle(new Request(`http://localhost/api/v1${path}`, init))
      return { status: response.status, text: await response.text() }
    },
  }
}

/** Lets a body arrive as from a connection: in pieces, with its length before it. */
function arrive(text: string, headers: Headers): ReadableStream<Uint8Array> {
  headers.set('content-length', String(Buffer.byteLength(text)))
  const encoder = new TextEncoder()
  let at = 0
  return new ReadableStream({
    pull(controller) {
      // A character of two units is not cut.
      const end = at + PIECE + (isHighSurrogate(text.charCodeAt(at + PIECE - 1)) ? 1 : 0)
      if (at < text.length) controller.enqueue(encoder.encode(text.slice(at, end)))
      else controller.close()
      at = end
    },
  })
}

const PIECE = 256 * 1024
const isHighSurrogate = (unit: number) => unit >= 0xd800 && unit <= 0xdbff
