import {
  closeSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Socket, Subprocess, TCPSocketListener } from 'bun'
import { openGateway } from '../../app/gateway.ts'
import { Cancellation } from '../../base/cancellation.ts'
import { unavailable } from '../../base/errors.ts'
import { createDefaultConfig } from '../../config.ts'
import { openEgress, type Send } from '../../network/egress.ts'
import { createFirstKeys } from '../../resources/workspaces.ts'
import { findProgram } from '../own-program.ts'

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
const CUTTABLE = STREAM.indexOf('data: [DONE]')

/**
 * A provider for the self-test, which does to an answer what the name of its model says: `whole`,
 * `stream`, `down`, `held` (until `release`), or `cut-N`, after so many bytes. It speaks TCP itself,
 * since a server would mend what it breaks.
 */
class TestProvider {
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

/** In bytes. */
const LARGEST_ANSWER = 10_000_000

/** An answer as a client gets it. */
interface TestAnswer {
  status: number
  text: string
  /** The id of its record, if it has one. */
  generation: string | null
}

/** A stream that a client reads, and can leave. */
interface TestStream {
  read(): Promise<string>
  readAll(): Promise<string>
  leave(): void
}

/** A gateway of this program in a process of its own, which can be killed. */
class TestServer {
  readonly url: string
  readonly #child: Subprocess
  readonly #send: Send = openEgress(createDefaultConfig)

  private constructor(url: string, child: Subprocess) {
    this.url = url
    this.#child = child
  }

  get pid(): number {
    return this.#child.pid
  }

  /** Starts it on a data directory, with its log in a file there. */
  static async start(data: string): Promise<TestServer> {
    const log = openSync(join(data, 'selftest.log'), 'a', 0o600)
    const args = ['serve', '--port', '0', '--data', data, '--log', 'json', '--drain', '30']
    const child = Bun.spawn([...findProgram(), ...args], {
      cwd: data,
      env: { PATH: process.env.PATH ?? '' },
      stdio: ['ignore', 'pipe', log],
    })
    closeSync(log)
    let printed = ''
    for await (const bytes of child.stdout) {
      printed += new TextDecoder().decode(bytes)
      const url = /"url":"(http[^"]+)"/.exec(printed)?.[1]
      if (url !== undefined) return new TestServer(url, child)
    }
    throw new Error(`The server did not start: ${readFileSync(join(data, 'selftest.log'), 'utf8')}`)
  }

  kill(signal: 'SIGKILL' | 'SIGTERM'): Promise<number> {
    this.#child.kill(signal)
    return this.#child.exited
  }

  /** Sends a request, and reads the whole answer. */
  async ask(key: string, path: string, body?: object): Promise<TestAnswer> {
    const { incoming } = await this.#open(key, path, body)
    return {
      status: incoming.status,
      text: await incoming.text(LARGEST_ANSWER, () => undefined),
      generation: incoming.header('x-generation-id'),
    }
  }

  /** Opens the stream of a call. */
  async stream(key: string, model: string): Promise<TestStream> {
    const body = { model, stream: true, messages: [{ role: 'user', content: 'Hi' }] }
    const { incoming, cancellation } = await this.#open(key, '/chat/completions', body)
    const decoder = new TextDecoder()
    const read = async () => {
      const bytes = await incoming.read()
      return bytes ? decoder.decode(bytes, { stream: true }) : null
    }
    return {
      read: async () => (await read()) ?? '',
      async readAll() {
        let text = ''
        for (let more = await read(); more !== null; more = await read()) text += more
        return text
      },
      leave: () => cancellation.cancel(unavailable()),
    }
  }

  async #open(key: string, path: string, body: object | undefined) {
    const cancellation = new Cancellation()
    const incoming = await this.#send(
      {
        method: body ? 'POST' : 'GET',
        url: `${this.url}/api/v1${path}`,
        headers: {
          authorization: `Bearer ${key}`,
          'content-type': 'application/json',
        },
        body: body ? JSON.stringify(body) : '',
      },
      cancellation,
    )
    return { incoming, cancellation }
  }
}

/** A secret that must never be found where it does not belong. */
export const CANARY = 'sk-selftest-canary-5d1c7f0e'

/** Every so many bytes of a stream there is a cut. */
const CUT_EVERY = 12

const PRICES = { prompt: 1_000, completion: 1_000 }
/** Where answers are cut off, in bytes. */
export const CUTS = Array.from(
  { length: Math.floor(CUTTABLE / CUT_EVERY) },
  (_, i) => i * CUT_EVERY,
)

/** A gateway and a provider of its own in a directory of its own, for the self-test. */
export class Trial {
  readonly root = mkdtempSync(join(tmpdir(), 'gateway-selftest-'))
  readonly data = join(this.root, 'data')
  readonly provider = new TestProvider()
  keys = { management: '', inference: '' }
  #server: TestServer | undefined

  get server(): TestServer {
    if (!this.#server) throw new Error('The server does not run')
    return this.#server
  }

  /** Makes the directory with its keys and config, and starts the server. */
  async open(): Promise<void> {
    mkdirSync(this.data, { mode: 0o700 })
    writeFileSync(join(this.data, 'gateway.yaml'), JSON.stringify(this.#buildConfig()))
    const gateway = await openGateway({ data: this.data })
    const keys = await createFirstKeys(gateway)
    await gateway.close()
    this.keys = { management: keys?.management_key ?? '', inference: keys?.inference_key ?? '' }
    await this.start()
  }

  async start(): Promise<void> {
    this.#server = await TestServer.start(this.data)
  }

  /** Ends the server. Returns its exit code. */
  async end(signal: 'SIGKILL' | 'SIGTERM'): Promise<number> {
    const code = await this.#server?.kill(signal)
    this.#server = undefined
    return code ?? 0
  }

  /** Makes a call of a model, by default with the first key. */
  call(model: string, key = this.keys.inference, more: object = {}): Promise<TestAnswer> {
    const messages = [{ role: 'user', content: 'Hi' }]
    return this.server.ask(key, '/chat/completions', { model, messages, max_tokens: 5, ...more })
  }

  /** Makes a key, with more of its fields. */
  async createKey(more: object): Promise<string> {
    const { text } = await this.server.ask(this.keys.management, '/keys', {
      name: 'trial',
      ...more,
    })
    return JSON.parse(text).key
  }

  /** Reads every file of the data directory but the config, which has the provider's key. */
  readFiles(): Buffer[] {
    return readdirSync(this.data, { recursive: true, withFileTypes: true })
      .filter(entry => entry.isFile() && entry.name !== 'gateway.yaml')
      .map(({ parentPath, name }) => readFileSync(join(parentPath, name)))
  }

  async close(): Promise<void> {
    await this.end('SIGKILL')
    this.provider.stop()
    rmSync(this.root, { recursive: true, force: true })
  }

  #buildConfig(): object {
    const models = ['whole', 'down', 'held', ...CUTS.map(cut => `cut-${cut}`)]
    const provider = { protocol: 'openai-chat', base_url: this.provider.url, api_key: CANARY }
    const endpoint = (name: string, model: string) => ({
      ...{ provider: name, model, usd_per_million_tokens: PRICES },
    })
    return {
      providers: { one: provider, two: provider },
      models: [
        ...models.map(id => ({
          ...{ id: `test/${id}`, context_length: 1_000 },
          endpoints: [endpoint('one', id)],
        })),
        {
          ...{ id: 'test/fallback', context_length: 1_000 },
          endpoints: [endpoint('one', 'down'), endpoint('two', 'whole')],
        },
      ],
      routing: { choice: 'listed', failures: 0 },
      // Nothing listens there.
      telemetry: { otlp: { endpoint: 'http://127.0.0.1:9' } },
    }
  }
}
