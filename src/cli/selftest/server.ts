import { closeSync, openSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Subprocess } from 'bun'
import { createDefaultConfig } from '../../core/config.ts'
import { unavailable } from '../../core/errors.ts'
import { Cancellation } from '../../core/kernel/cancellation.ts'
import { openEgress, type Send } from '../../core/upstream/egress.ts'
import { findProgram } from '../own-program.ts'

/** In bytes. */
const LARGEST_ANSWER = 10_000_000

/** An answer as a client gets it. */
export interface TestAnswer {
  status: number
  text: string
  /** The id of its record, if it has one. */
  generation: string | null
}

/** A stream that a client reads, and can leave. */
export interface TestStream {
  read(): Promise<string>
  readAll(): Promise<string>
  leave(): void
}

/** A gateway of this program in a process of its own, which can be killed. */
export class TestServer {
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
    const args = ['serve', '--port', '0', '--data', data, '--log', 'json', '--drain', '3']
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
