import { getMicroseconds, isEndless, USAGE } from './wire.ts'

/*
 * The mock provider, a process of its own. It answers an OpenAI chat call at once with a fixed
 * answer of about 1 KB. It answers a call with `"stream":true` with CHUNKS events INTERVAL_MS apart
 * (or `?chunks=` and `?interval=`, or as many chunks as its model’s name ends with), the usage and
 * `[DONE]`. Each chunk contains the time at which it was sent, so that a reader on the same machine
 * can compute its delay. It takes everything at `/hook`.
 */
const defaults = {
  chunks: Number(process.env.CHUNKS ?? 50),
  intervalMs: Number(process.env.INTERVAL_MS ?? 20),
}
const stats = { live: 0, finished: 0, aborted: 0 }
const head = { id: 'chatcmpl-bench', created: 1_760_000_000, model: 'bench-model' }
const whole = JSON.stringify({
  ...head,
  object: 'chat.completion',
  choices: [
    {
      index: 0,
      message: { role: 'assistant', content: 'All work, measured. '.repeat(40) },
      finish_reason: 'stop',
    },
  ],
  usage: USAGE,
})

/** Serves the mock provider. */
export function serveUpstream(): void {
  const server = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    idleTimeout: 0,
    routes: { '/stats': () => Response.json(stats), '/hook': swallow },
    fetch: respond,
  })
  process.stdout.write(`${JSON.stringify({ event: 'listening', url: server.url.origin })}\n`)
}

async function swallow(request: Request): Promise<Response> {
  await request.arrayBuffer()
  return new Response(null, { status: 204 })
}

async function respond(request: Request): Promise<Response> {
  const body = await request.text()
  if (/"stream":\s*true/.test(body))
    return new Response(createStream(readSwitches(request.url, body)), {
      headers: { 'content-type': 'text/event-stream' },
    })
  stats.finished++
  return new Response(whole, { headers: { 'content-type': 'application/json' } })
}

// Minutes, at any interval that is used.
const ENDLESS_CHUNKS = 10_000

function readSwitches(url: string, body: string): typeof defaults {
  const query = new URL(url).searchParams
  const [, named] = /"model":"[^"]*-(\d+)"/.exec(body) ?? []
  const chunks = isEndless(body) ? ENDLESS_CHUNKS : Number(named ?? defaults.chunks)
  return {
    chunks: Number(query.get('chunks') ?? chunks),
    intervalMs: Number(query.get('interval') ?? defaults.intervalMs),
  }
}

function createStream({ chunks, intervalMs }: typeof defaults): ReadableStream<string> {
  let timer: Timer
  let sent = 0
  const settle = (how: 'finished' | 'aborted') => {
    clearInterval(timer)
    stats.live--
    stats[how]++
  }
  return new ReadableStream<string>({
    start(controller) {
      stats.live++
      const send = () => {
        controller.enqueue(renderEvent({ content: `@${getMicroseconds()} ` }))
        if (++sent < chunks) return
        controller.enqueue(renderEnding())
        controller.close()
        settle('finished')
      }
      timer = setInterval(send, intervalMs)
      send()
    },
    cancel: () => settle('aborted'),
  })
}

function renderEvent(delta: object, finish_reason: string | null = null): string {
  return chunk({ choices: [{ index: 0, delta, finish_reason }] })
}

function renderEnding(): string {
  return `${renderEvent({}, 'stop')}${chunk({ choices: [], usage: USAGE })}data: [DONE]\n\n`
}

function chunk(fields: object): string {
  return `data: ${JSON.stringify({ ...head, object: 'chat.completion.chunk', ...fields })}\n\n`
}
