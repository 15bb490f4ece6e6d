import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openGateway } from '../../core/gateway.ts'
import { createFirstKeys } from '../../core/identity/workspaces.ts'
import { CUTTABLE, TestProvider } from './provider.ts'
import { type TestAnswer, TestServer } from './server.ts'

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
