/** The model that the provider serves. */
export const MODEL = 'acme/small'

/** Creates a config in which only a provider at the base URL serves the model. */
export const createTraceConfig = (url: string) => ({
  providers: { local: { protocol: 'openai-chat', base_url: `${url}/v1`, api_key: 'mock' } },
  models: [
    {
      id: MODEL,
      name: 'Acme Small',
      context_length: 128_000,
      endpoints: [{ provider: 'local', model: 'small', usd_per_million_tokens: PRICES }],
    },
  ],
})

const PRICES = { prompt: 0.15, completion: 0.6 }

/** A provider that answers every OpenAI chat call with the same words. */
export interface TraceProvider {
  url: string
  /** How many words a streamed answer has. */
  chunks: number
  /** Says how many words of the answer the client has by now: the next is sent after each. */
  noteReceived(words: number): void
  stop(): Promise<void>
}

/**
 * Starts a provider. A word of a stream goes out when the client has all of those before, so each
 * arrives alone and every run counts the same, however busy the machine is.
 */
export function startProvider(): TraceProvider {
  let arrival = Promise.withResolvers<void>()
  let received = 0
  const awaitReceipt = async (words: number) => {
    while (received < words) await arrival.promise
  }
  const server = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    async fetch(request) {
      const { stream }: { stream?: boolean } = await request.json()
      if (!stream) return Response.json(WHOLE)
      received = 0
      return new Response(createEventStream(provider.chunks, awaitReceipt), {
        headers: EVENT_STREAM,
      })
    },
  })
  const provider: TraceProvider = {
    url: server.url.origin,
    chunks: WORDS.length,
    noteReceived(words) {
      received = words
      arrival.resolve()
      arrival = Promise.withResolvers()
    },
    stop: () => server.stop(true),
  }
  return provider
}

const EVENT_STREAM = { 'content-type': 'text/event-stream' }

/** The words of an answer. A longer stream says them again and again. */
export const WORDS = ['General', ' Kenobi', '!']

/** Counts the words in what a client has read, whatever the dialect. */
export const countWords = (text: string): number => text.split(/General| Kenobi|!/).length - 1

const USAGE = { prompt_tokens: 9, completion_tokens: 3, total_tokens: 12 }
const HEAD = { id: 'chatcmpl-trace', created: 1_760_000_000, model: 'small' }
const WHOLE = {
  ...HEAD,
  object: 'chat.completion',
  choices: [
    {
      index: 0,
      message: { role: 'assistant', content: WORDS.join('') },
      finish_reason: 'stop',
    },
  ],
  usage: USAGE,
}

function createEventStream(
  chunks: number,
  awaitReceipt: (words: number) => Promise<void>,
): ReadableStream<string> {
  return new ReadableStream<string>({
    async start(controller) {
      for (let i = 0; i < chunks; i++) {
        await awaitReceipt(i)
        controller.enqueue(renderChoice({ content: WORDS[i % WORDS.length] }, null))
      }
      await awaitReceipt(chunks)
      const usage = renderChunk({ choices: [], usage: USAGE })
      controller.enqueue(`${renderChoice({}, 'stop')}${usage}data: [DONE]\n\n`)
      controller.close()
    },
  })
}

const renderChoice = (delta: object, finish_reason: string | null) =>
  renderChunk({ choices: [{ index: 0, delta, finish_reason }] })

function renderChunk(fields: object): string {
  const event = { ...HEAD, object: 'chat.completion.chunk', ...fields }
  return `data: ${JSON.stringify(event)}\n\n`
}
