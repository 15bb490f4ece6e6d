import { CONTENT_TYPE, encodeFrames } from './framing.ts'
import { type MockProtocol, mockProtocols } from './mock-protocols.ts'
import { OUTPUT } from './model-output.ts'

/**
 * The mock provider, a process of its own, which supports every protocol, each under a path with
 * its name. It always streams the same output, rendered in advance. The model sets the speed:
 * `paced` waits INTERVAL_MS between two writes, `fast` a millisecond.
 */
const intervals = { paced: Number(process.env.INTERVAL_MS ?? 20), fast: 1 }
const rendered = new Map(
  Object.entries(mockProtocols).map(([name, spoken]) => [
    name,
    { type: CONTENT_TYPE[spoken.framing], writes: renderWrites(spoken) },
  ]),
)

const server = Bun.serve({ hostname: '127.0.0.1', port: 0, idleTimeout: 0, fetch: respond })
process.stdout.write(`${JSON.stringify({ event: 'listening', url: server.url.origin })}\n`)

async function respond(request: Request): Promise<Response> {
  const [, protocol = '', ...path] = new URL(request.url).pathname.split('/')
  const requestText = `${path.join('/')} ${await request.text()}`
  const known = rendered.get(protocol)
  if (!known) return new Response('{}', { status: 404 })
  return new Response(
    createStream(known.writes, intervals[isFast(requestText) ? 'fast' : 'paced']),
    {
      headers: { 'content-type': known.type },
    },
  )
}

// The model is in the path or in the body.
const isFast = (requestText: string) => /models?\/fast[:/]|"model":"fast"/.test(requestText)

function renderWrites({ render, framing }: MockProtocol): Uint8Array[] {
  return render(OUTPUT).map(frames => encodeFrames(frames, framing))
}

function createStream(writes: Uint8Array[], intervalMs: number): ReadableStream<Uint8Array> {
  let timer: Timer
  let sent = 0
  return new ReadableStream<Uint8Array>({
    start(controller) {
      const send = () => {
        const bytes = writes[sent++]
        if (bytes) return controller.enqueue(bytes)
        clearInterval(timer)
        controller.close()
      }
      timer = setInterval(send, intervalMs)
      send()
    },
    cancel: () => clearInterval(timer),
  })
}
