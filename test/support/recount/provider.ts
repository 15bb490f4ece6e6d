import { type OutgoingRequest, type Send, toIncomingResponse } from '../../../src/network/egress.ts'
import { decodeOutgoing } from '../outgoing.ts'
import { buildWav } from '../recording.ts'

/** What a provider counts of one call, and how it ends. */
export interface Plan {
  prompt: number
  completion: number
  cached: number
  reasoning: number
  end: 'ok' | 'failed' | 'cancelled'
}

/** Where calls of each kind go. */
export const PATHS: Record<string, string> = {
  base: 'http://127.0.0.1:9/v1',
  chat: '/chat/completions',
  stream: '/chat/completions',
  messages: '/messages',
  responses: '/responses',
  embed: '/embeddings',
  draw: '/images',
  rank: '/rerank',
  speak: '/audio/speech',
  hear: '/audio/transcriptions',
}

const PICTURE = Buffer.from(
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==',
  'base64',
).toString('base64')

/** How long the sound is that is heard. */
export const SECONDS = 2
const SOUND = buildWav(SECONDS).toString('base64')

/** A provider without a network: its answers count what the next call was planned to. */
export function createPlayedProvider() {
  let plan: Plan = { prompt: 0, completion: 0, cached: 0, reasoning: 0, end: 'ok' }
  let gate = Promise.withResolvers<void>()

  function buildBody(kind: string, model: string, next: Plan, speech: string): object {
    plan = next
    gate = Promise.withResolvers()
    const messages = [{ role: 'user', content: 'Hello' }]
    if (kind === 'embed') return { model, input: 'Hello' }
    if (kind === 'draw') return { model, prompt: 'A picture' }
    if (kind === 'rank') return { model, query: 'Which?', documents: ['one', 'two'] }
    if (kind === 'speak') return { model, input: speech, voice: 'alloy' }
    if (kind === 'hear') return { model, input_audio: { data: SOUND, format: 'wav' } }
    if (kind === 'responses') return { model, input: 'Hello', max_output_tokens: 2_000 }
    return { model, messages, max_tokens: 2_000, ...(kind === 'stream' ? { stream: true } : {}) }
  }

  function answer(path: string, body: OutgoingRequest['body']): Response {
    if (plan.end === 'failed') return Response.json({ error: { message: 'No' } }, { status: 502 })
    const usage = renderUsage(plan)
    if (path.endsWith('/embeddings'))
      return Response.json({ data: [{ index: 0, embedding: [0.5] }], model: 'up', usage })
    if (path.endsWith('/rerank'))
      return Response.json({ results: [{ index: 0, relevance_score: 1 }], usage })
    if (path.endsWith('/images/generations'))
      return Response.json({ created: 1, data: [{ b64_json: PICTURE }] })
    if (path.endsWith('/audio/speech'))
      return new Response(new Uint8Array(64), { headers: { 'content-type': 'audio/mpeg' } })
    if (path.endsWith('/audio/transcriptions'))
      return Response.json({ text: 'Hello', duration: SECONDS })
    if (JSON.parse(decodeOutgoing(body)).stream !== true)
      return Response.json({
        ...{ id: 'x', object: 'chat.completion', created: 1, model: 'up', usage },
        choices: [
          { index: 0, message: { role: 'assistant', content: 'Yes.' }, finish_reason: 'stop' },
        ],
      })
    return new Response(renderStream(plan, gate.promise), {
      headers: { 'content-type': 'text/event-stream' },
    })
  }

  return {
    buildBody,
    /** Has the stream go on whose client has left. */
    goOn: () => gate.resolve(),
    /** Creates what sends: calls to the provider, and deliveries to `onDelivery`. */
    createSend:
      (onDelivery: (body: OutgoingRequest['body']) => void): Send =>
      async ({ url, body, onSent }) => {
        onSent?.()
        if (url.startsWith(String(PATHS.base)))
          return toIncomingResponse(answer(new URL(url).pathname, body))
        onDelivery(body)
        return toIncomingResponse(Response.json({}))
      },
  }
}

const renderUsage = ({ prompt, completion, cached, reasoning }: Plan) => ({
  ...{ prompt_tokens: prompt, completion_tokens: completion, total_tokens: prompt + completion },
  ...(cached > 0 ? { prompt_tokens_details: { cached_tokens: cached } } : {}),
  ...(reasoning > 0 ? { completion_tokens_details: { reasoning_tokens: reasoning } } : {}),
})

/** Streams an answer; the rest of one whose client is to leave waits until it has. */
function renderStream(plan: Plan, left: Promise<void>): ReadableStream<Uint8Array> {
  const common = { id: 'x', object: 'chat.completion.chunk', created: 1, model: 'up' }
  const render = (value: object) =>
    Buffer.from(`data: ${JSON.stringify({ ...common, ...value })}\n\n`)
  const choice = (delta: object, finish_reason: string | null) => ({
    choices: [{ index: 0, delta, finish_reason }],
  })
  async function* pieces() {
    yield render(choice({ role: 'assistant', content: 'Yes' }, null))
    if (plan.end === 'cancelled') await left
    yield render(choice({ content: '.' }, 'stop'))
    yield render({ choices: [], usage: renderUsage(plan) })
    yield Buffer.from('data: [DONE]\n\n')
  }
  const all = pieces()
  return new ReadableStream({
    async pull(controller) {
      const { done, value } = await all.next()
      if (done) controller.close()
      else controller.enqueue(value)
    },
  })
}
