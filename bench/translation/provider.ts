import { bytesOf, CONTENT_TYPE } from './framing.ts'
import { SPEECH } from './speech.ts'
import { type Spoken, voices } from './voices.ts'

/**
 * The mock provider, a process of its own, which supports every protocol, each under a path with
 * its name. It always streams the same output, rendered in advance. The model sets the speed:
 * `paced` waits INTERVAL_MS between two writes, `fast` a millisecond.
 */
const intervals = { paced: Number(process.env.INTERVAL_MS ?? 20), fast: 1 }
const rendered = new Map(
  Object.entries(voices).map(([name, spoken]) => [
    name,
    { type: CONTENT_TYPE[spoken.framing], writes: writesOf(spoken) },
  ]),
)

const server = Bun.serve({ hostname: '127.0.0.1', port: 0, idleTimeout: 0, fetch: answer })
process.stdout.write(`${JSON.stringify({ event: 'listening', url: server.url.origin })}\n`)

async function answer(request: Request): Promise<Response> {
  const [, protocol = '', ...path] = new URL(request.url).pathname.split('/')
  const asked = `${path.join('/')} ${await request.text()}`
  const known = rendered.get(protocol)
  if (!known) return new Response('{}', { status: 404 })
  return new Response(stream(known.writes, intervals[isFast(asked) ? 'fast' : 'paced']), {
    headers: { 'content-type': known.type },
  })
}

// The model is in the path or in the body.
const isFast = (asked: string) => /models?\/fast[:/]|"model":"fast"/.test(asked)

function writesOf({ voice, framing }: Spoken): Uint8Array[] {
  return voice(SPEECH).map(frames => bytesOf(frames, framing))
}

function stream(writes: Uint8Array[], intervalMs: number): ReadableStream<Uint8Array> {
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
