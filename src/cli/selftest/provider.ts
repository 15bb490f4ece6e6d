import type { Socket, TCPSocketListener } from 'bun'

/** What a connection has sent so far, and its call once that is whole. */
interface Peer {
  text: string
  model: string
}

const USAGE = { prompt_tokens: 10, completion_tokens: 5, total_tokens: 15 }
const event = (data: object | string): string =>
  `data: ${typeof data === 'string' ? data : JSON.stringify(data)}\n\n`
const chunk = (delta: object, finish_reason: string | null = null) =>
  event({
    ...{ id: 'chatcmpl-1', object: 'chat.completion.chunk', created: 1, model: 'm' },
    choices: [{ index: 0, delta, finish_reason }],
  })

const HEAD =
  'HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n' +
  'transfer-encoding: chunked\r\n\r\n'
const BEGINNING = [chunk({ role: 'assistant', content: 'Hel' }), chunk({ content: 'lo there' })]
const END = [
  chunk({}, 'stop'),
  event({
    ...{ id: 'chatcmpl-1', object: 'chat.completion.chunk', created: 1, model: 'm' },
    ...{ choices: [], usage: USAGE },
  }),
  event('[DONE]'),
]
const WHOLE = JSON.stringify({
  ...{ id: 'chatcmpl-1', object: 'chat.completion', created: 1, model: 'm', usage: USAGE },
  choices: [{ index: 0, message: { role: 'assistant', content: 'Hello' }, finish_reason: 'stop' }],
})

const frame = (text: string): string => `${Buffer.byteLength(text).toString(16)}\r\n${text}\r\n`
const STREAM = `${HEAD}${[...BEGINNING, ...END].map(frame).join('')}0\r\n\r\n`
/** The bytes that a stream has before its last event: cut there, it is not whole. */
export const CUTTABLE = STREAM.indexOf('data: [DONE]')

/**
 * A provider for the self-test, which does to an answer what the name of its model says: `whole`,
 * `stream`, `down`, `held` (until `release`), or `cut-N`, after so many bytes. It speaks TCP itself,
 * since a server would mend what it breaks.
 */
export class TestProvider {
  /** How many requests came for each model. */
  readonly hits = new Map<string, number>()
  /** When connections with a held answer were closed by the gateway. */
  readonly closed: number[] = []
  readonly #held = new Set<Socket<Peer>>()
  readonly #listener: TCPSocketListener<Peer>

  constructor() {
    this.#listener = Bun.listen<Peer>({
      hostname: '127.0.0.1',
      port: 0,
      socket: {
        open(socket) {
          socket.data = { text: '', model: '' }
        },
        data: (socket, bytes) => this.#read(socket, bytes),
        close: socket => {
          if (this.#held.delete(socket)) this.closed.push(performance.now())
        },
      },
    })
  }

  get url(): string {
    return `http://127.0.0.1:${this.#listener.port}/v1`
  }

  get held(): number {
    return this.#held.size
  }

  countHits(prefix: string): number {
    let sum = 0
    for (const [model, hits] of this.hits) if (model.startsWith(prefix)) sum += hits
    return sum
  }

  /** Lets the held answers end. */
  release(): void {
    for (const socket of this.#held) socket.end(`${END.map(frame).join('')}0\r\n\r\n`)
    this.#held.clear()
  }

  stop(): void {
    this.#listener.stop(true)
  }

  #read(socket: Socket<Peer>, bytes: Uint8Array): void {
    socket.data.text += Buffer.from(bytes).toString('latin1')
    const [head, body] = socket.data.text.split('\r\n\r\n', 2)
    const length = Number(/content-length: (\d+)/i.exec(head ?? '')?.[1] ?? 0)
    if (socket.data.model !== '' || body === undefined || body.length < length) return
    const { model, stream } = JSON.parse(body.slice(0, length) || '{}')
    socket.data.model = String(model)
    this.hits.set(socket.data.model, (this.hits.get(socket.data.model) ?? 0) + 1)
    this.#answer(socket, socket.data.model, stream === true)
  }

  #answer(socket: Socket<Peer>, model: string, isStreamed: boolean): void {
    const cut = /^cut-(\d+)$/.exec(model)
    if (model === 'held') {
      this.#held.add(socket)
      socket.write(HEAD + BEGINNING.map(frame).join(''))
    } else if (model === 'down')
      socket.end(`HTTP/1.1 500 Down\r\nconnection: close\r\ncontent-length: 0\r\n\r\n`)
    else if (cut) socket.end(STREAM.slice(0, Number(cut[1])))
    else if (isStreamed) socket.end(STREAM)
    else
      socket.end(
        'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n' +
          `content-length: ${WHOLE.length}\r\n\r\n${WHOLE}`,
      )
  }
}
