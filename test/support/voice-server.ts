import type { Json } from '../../src/core/kernel/json.ts'
import { parseExact } from '../../src/core/kernel/json.ts'
import { asked } from './replay.ts'
import type { Heard, Said } from './voices/voice.ts'
import { voices } from './voices.ts'

/** Decides what a model of the fake providers does with a request. */
export type Scene = (heard: Heard) => { says: Said } | { breaksAfter: string } | 'is overloaded'

/** A loopback server that speaks every protocol. The model in a request selects the scenario. */
export class VoiceServer {
  readonly #server: Bun.Server<undefined>
  readonly #scenes: Record<string, Scene>
  /** The last request in each protocol. */
  readonly #heard = new Map<string, Heard>()

  constructor(scenes: Record<string, Scene>) {
    this.#scenes = scenes
    this.#server = Bun.serve({
      hostname: '127.0.0.1',
      port: 0,
      fetch: request => this.#answer(request),
    })
  }

  /** Returns the base URL of the provider with this protocol. */
  base(protocol: string): string {
    return `http://127.0.0.1:${this.#server.port}/${protocol}`
  }

  /** Returns the last request to the provider with this protocol. Throws if there was none. */
  heardBy(protocol: string): Heard {
    const heard = this.#heard.get(protocol)
    if (!heard) throw new Error(`${protocol} received no request`)
    return heard
  }

  /** Returns a URL that serves an image with these bytes. */
  picture(base64: string): string {
    return `http://127.0.0.1:${this.#server.port}/image/${encodeURIComponent(base64)}`
  }

  /** Stops listening and drops every connection. */
  async close(): Promise<void> {
    await this.#server.stop(true)
  }

  async #answer(request: Request): Promise<Response> {
    const [, protocol = '', ...path] = new URL(request.url).pathname.split('/')
    if (protocol === 'image')
      return new Response(Buffer.from(decodeURIComponent(path.join('/')), 'base64'))
    const voice = voices[protocol]
    const body = parseExact(await request.text()) as Json
    const { model, mode } = asked(path.join('/'), body)
    const scene = this.#scenes[model]
    if (!voice || !scene)
      return Response.json(
        { error: { message: `No scenario ${model} in ${protocol}` } },
        { status: 404 },
      )
    const heard = voice.heard(body)
    this.#heard.set(protocol, heard)
    const does = scene(heard)
    if (does === 'is overloaded')
      return Response.json(voice.overloaded.body, { status: voice.overloaded.status })
    if (mode === 'streamed')
      return streamed(
        voice.streamType,
        'says' in does ? voice.stream(does.says) : voice.broken(does.breaksAfter),
      )
    if (!('says' in does)) throw new Error('A whole answer does not break')
    return new Response(JSON.stringify(voice.whole(does.says)), {
      headers: { 'content-type': 'application/json' },
    })
  }
}

const streamed = (type: string, bytes: Uint8Array) =>
  new Response(Buffer.from(bytes), { headers: { 'content-type': type } })

/** Starts the server. The caller closes it. */
export const startVoices = (scenes: Record<string, Scene>): VoiceServer => new VoiceServer(scenes)
