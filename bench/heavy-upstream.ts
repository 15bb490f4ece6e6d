import { USAGE } from '../src/cli/bench/wire.ts'

/**
 * A mock provider for heavy answers, a process of its own. It reads each request to its end and
 * counts its bytes. A prompt `answer=N` is answered whole with N characters; a streamed call gets
 * one chunk a second, until its client leaves, and with `event=N` chunks of N characters without end.
 */
const INTERVAL = 1_000

const server = Bun.serve({
  hostname: '127.0.0.1',
  port: 0,
  idleTimeout: 0,
  maxRequestBodySize: 256 * 1024 * 1024,
  fetch: respond,
})
process.stdout.write(`${JSON.stringify({ event: 'listening', url: server.url.origin })}\n`)

async function respond(request: Request): Promise<Response> {
  const { head, size } = await readHead(request)
  const delay = Number(/hold=(\d+)/.exec(head)?.[1] ?? 0)
  if (delay > 0) await Bun.sleep(delay)
  const event = Number(/event=(\d+)/.exec(head)?.[1] ?? 0)
  const isStreamed = /"stream":\s*true/.test(head)
  if (event > 0 && isStreamed) return new Response(createFlood(event), { headers: SSE })
  if (isStreamed) return new Response(createStream(), { headers: SSE })
  const characters = Number(/answer=(\d+)/.exec(head)?.[1] ?? 100)
  return Response.json({
    ...HEAD,
    choices: [buildChoice(`${size}`.padEnd(characters, ' work'))],
    usage: USAGE,
  })
}

const HEAD = { id: 'chatcmpl-bench', created: 1_760_000_000, model: 'bench-model' }
const SSE = { 'content-type': 'text/event-stream' }

const buildChoice = (content: string) => ({
  index: 0,
  message: { role: 'assistant', content },
  finish_reason: 'stop',
})

/** Reads the body, and keeps only its first and last bytes: the mock must not be what takes memory. */
async function readHead(request: Request): Promise<{ head: string; size: number }> {
  const decoder = new TextDecoder()
  let [head, tail, size] = ['', '', 0]
  for await (const piece of request.body ?? []) {
    if (size < 4096) head += decoder.decode(piece.subarray(0, 4096))
    tail = (tail + decoder.decode(piece.subarray(-256))).slice(-256)
    size += piece.length
  }
  return { head: head + tail, size }
}

function createStream(): ReadableStream<string> {
  let timer: Timer
  return new ReadableStream<string>({
    start(controller) {
      const send = () => controller.enqueue(renderChunk({ content: 'work ' }))
      timer = setInterval(send, INTERVAL)
      send()
    },
    cancel: () => clearInterval(timer),
  })
}

/** Events of so many characters, as fast as they are read. */
function createFlood(characters: number): ReadableStream<string> {
  const chunk = renderChunk({ content: ''.padEnd(characters, 'work ') })
  return new ReadableStream<string>({ pull: controller => controller.enqueue(chunk) })
}

const renderChunk = (delta: object): string =>
  `data: ${JSON.stringify({ ...HEAD, object: 'chat.completion.chunk', choices: [{ index: 0, delta, finish_reason: null }] })}\n\n`
