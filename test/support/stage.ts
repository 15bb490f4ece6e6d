import { type ChatCompletionRequest, type JournalEntry, LLMock } from '@copilotkit/aimock'
import { type Server, startServer } from './server.ts'
import { startUpstream, type Upstream } from './upstream.ts'
import { hasWirecheck, startWirecheck, type WireReport } from './wirecheck.ts'

const PRICES = { prompt: 0.15, completion: 0.6, cache_read: 0.075, cache_write: 0.1875 }

/** The usage that the mock reports, so that costs are known: 10 input and 5 output tokens. */
export const COUNTED = { usage: { prompt_tokens: 10, completion_tokens: 5 } }

/** The cost of `COUNTED` in dollars on `acme/small`. */
export const COST = 0.0000045

/** A gateway between an official client and two providers, observed at both ends. */
export class Stage {
  /** A third party's mock provider. It serves `acme/small` and both endpoints of `acme/steady`. */
  readonly mock: LLMock
  /** Our scripted provider. `acme/thinker` takes an effort, `acme/muser` the reasoning object. */
  readonly scripted: Upstream
  readonly server: Server
  /** The base URL for clients: through the checker if there is one. */
  readonly base: string
  readonly #report: () => Promise<WireReport>
  readonly #close: () => Promise<void>

  constructor(mock: LLMock, scripted: Upstream, server: Server, front: Front) {
    this.mock = mock
    this.scripted = scripted
    this.server = server
    this.base = `${front.url}/api/v1`
    this.#report = front.report
    this.#close = front.close
  }

  /** Returns the last request that the mock received. Throws if there is none. */
  last(): Received {
    return toReceived(this.mock.getLastRequest())
  }

  /** Returns every request that the mock received, in order. */
  received(): Received[] {
    return this.mock.getRequests().map(toReceived)
  }

  /** Returns the checker's report. Throws if there is no checker. */
  report(): Promise<WireReport> {
    return this.#report()
  }

  /** Closes everything. */
  async close(): Promise<void> {
    await this.#close()
    await this.server[Symbol.asyncDispose]()
    await Promise.all([this.mock.stop(), this.scripted.close()])
  }
}

/** A request in the mock's journal, without the mock's own fields. */
export interface Received {
  path: string
  headers: Record<string, string>
  body: Record<string, unknown>
}

interface Front {
  url: string
  report: () => Promise<WireReport>
  close: () => Promise<void>
}

/**
 * Starts a gateway, its two providers and the checker if there is one. The caller closes it.
 * `providers` are added to its config.
 */
export async function openStage(providers: Record<string, unknown> = {}): Promise<Stage> {
  const mock = new LLMock({ port: 0, strict: true })
  await mock.start()
  const scripted = await startUpstream()
  const server = await startServer({ config: buildConfig(mock, scripted, providers) })
  return new Stage(mock, scripted, server, await openFront(server))
}

async function openFront(server: Server): Promise<Front> {
  if (hasWirecheck) {
    const checker = await startWirecheck(server.url)
    return { url: checker.url, report: () => checker.report(), close: () => checker.close() }
  }
  return {
    url: server.url,
    report: () => Promise.reject(new Error('There is no checker here')),
    close: async () => {},
  }
}

function buildConfig(mock: LLMock, scripted: Upstream, providers: Record<string, unknown>) {
  const buildMockProvider = (more: Record<string, unknown>) => ({
    protocol: 'openai-chat',
    base_url: `${mock.url}/v1`,
    api_key: 'mock',
    fetches_urls: true,
    ...more,
  })
  const buildScriptedProvider = (more: Record<string, unknown>) => ({
    protocol: 'openai-chat',
    base_url: scripted.url,
    api_key: 'mock',
    fetches_urls: true,
    ...more,
  })
  const buildModel = (slug: string, ...providers: string[]) => ({
    id: `acme/${slug}`,
    name: `Acme ${slug}`,
    context_length: 128_000,
    input_modalities: ['text', 'image', 'file', 'audio', 'video'],
    endpoints: providers.map(provider => ({
      provider,
      model: `up-${slug}`,
      usd_per_million_tokens: PRICES,
    })),
  })
  // The public schema has a closed list of provider names, so these use some of them.
  return {
    // As the public service does, so that the clients read all of it.
    server: { list_all_models: true },
    routing: { choice: 'listed' },
    providers: {
      local: buildMockProvider({ name: 'Together' }),
      spare: buildMockProvider({ name: 'Groq' }),
      thinking: buildScriptedProvider({ name: 'Mistral' }),
      // A slug that is in the public list of provider keys but not in the built-in catalogue.
      modelrun: buildScriptedProvider({ name: 'Fireworks', quirks: { reasoning: 'object' } }),
      ...providers,
    },
    models: [
      buildModel('small', 'local'),
      buildModel('steady', 'local', 'spare'),
      buildModel('thinker', 'thinking'),
      buildModel('muser', 'modelrun'),
    ],
  }
}

function toReceived(entry: JournalEntry | null): Received {
  if (!entry) throw new Error('The mock received no request')
  const { _endpointType, _context, ...body } = (entry.body ?? {}) as ChatCompletionRequest
  return { path: entry.path, headers: entry.headers, body }
}
