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

/** Starts a provider that answers every OpenAI chat call with the same words. */
export function startProvider() {
  const server = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    fetch: async request => respond(await request.json()),
  })
  return { url: server.url.origin, stop: () => server.stop(true) }
}

function respond({ stream }: { stream?: boolean }): Response {
  if (!stream) return Response.json(WHOLE)
  return new Response(createEventStream(), { headers: EVENT_STREAM })
}

const EVENT_STREAM = { 'content-type': 'text/event-stream' }

const WORDS = ['General', ' Kenobi', '!']
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

/** In milliseconds, between two events. Each arrives alone, so that every run counts the same. */
const GAP = 10

function createEventStream(): ReadableStream<string> {
  return new ReadableStream<string>({
    async start(controller) {
      for (const choice of CHOICES) {
        controller.enqueue(renderChunk({ choices: [choice] }))
        await Bun.sleep(GAP)
      }
      controller.enqueue(`${renderChunk({ choices: [], usage: USAGE })}data: [DONE]\n\n`)
      controller.close()
    },
  })
}

const CHOICES = [
  ...WORDS.map(content => ({ index: 0, delta: { content }, finish_reason: null })),
  { index: 0, delta: {}, finish_reason: 'stop' },
]

function renderChunk(fields: object): string {
  const event = { ...HEAD, object: 'chat.completion.chunk', ...fields }
  return `data: ${JSON.stringify(event)}\n\n`
}
