import { type ChatCompletionRequest, type JournalEntry, LLMock } from '@copilotkit/aimock'
import { type Server, startServer } from './server.ts'
import { startUpstream, type Upstream } from './upstream.ts'
import { hasWirecheck, startWirecheck, type WireReport } from './wirecheck.ts'

const PRICES = { prompt: 0.15, completion: 0.6, cache_read: 0.075, cache_write: 0.1875 }

/** What the mock says it counted, so that a cost is known beforehand: 10 tokens in and 5 out. */
export const COUNTED = { usage: { prompt_tokens: 10, completion_tokens: 5 } }

/** What `COUNTED` costs in dollars on `acme/small`. */
export const COST = 0.0000045

/** A gateway between an official client and two providers, and what watches both ends of it. */
export class Stage {
  /** An OpenAI-compatible provider that nobody here wrote. It serves `acme/small`, and both endpoints of `acme/steady`. */
  readonly mock: LLMock
  /** A provider that plays scripts. It serves `acme/thinker`, which takes an effort, and `acme/muser`, which takes the object. */
  readonly scripted: Upstream
  readonly server: Server
  /** The base URL for clients: through the checker where there is one. */
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

  /** The last request that the mock received. Throws when there is none. */
  last(): Received {
    return receivedOf(this.mock.getLastRequest())
  }

  /** Every request that the mock received, in order. */
  received(): Received[] {
    return this.mock.getRequests().map(receivedOf)
  }

  /** What the checker has seen. Throws where there is none. */
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

/** A request as the mock's journal has it, without the mock's own marks. */
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

/** Starts a gateway, its two providers and, where there is one, the checker. The caller closes it. */
export async function openStage(): Promise<Stage> {
  const mock = new LLMock({ port: 0, strict: true })
  await mock.start()
  const scripted = await startUpstream()
  const server = await startServer({ config: configOf(mock, scripted) })
  return new Stage(mock, scripted, server, await frontOf(server))
}

async function frontOf(server: Server): Promise<Front> {
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

function configOf(mock: LLMock, scripted: Upstream) {
  const bought = (more: Record<string, unknown>) => ({
    protocol: 'openai-chat',
    base_url: `${mock.url}/v1`,
    api_key: 'mock',
    ...more,
  })
  const played = (more: Record<string, unknown>) => ({
    protocol: 'openai-chat',
    base_url: scripted.url,
    api_key: 'mock',
    ...more,
  })
  const model = (slug: string, ...providers: string[]) => ({
    id: `acme/${slug}`,
    name: `Acme ${slug}`,
    context_length: 128_000,
    input_modalities: ['text', 'image'],
    endpoints: providers.map(provider => ({
      provider,
      model: `up-${slug}`,
      usd_per_million_tokens: PRICES,
    })),
  })
  // The public schema knows providers by a closed list of names, so these borrow theirs from it.
  return {
    routing: { choice: 'listed' },
    providers: {
      local: bought({ name: 'Together' }),
      spare: bought({ name: 'Groq' }),
      thinking: played({ name: 'Mistral' }),
      // A slug that the public list of provider keys has, and the built-in catalogue has not.
      modelrun: played({ name: 'Fireworks', quirks: { reasoning: 'object' } }),
    },
    models: [
      model('small', 'local'),
      model('steady', 'local', 'spare'),
      model('thinker', 'thinking'),
      model('muser', 'modelrun'),
    ],
  }
}

function receivedOf(entry: JournalEntry | null): Received {
  if (!entry) throw new Error('The mock received no request')
  const { _endpointType, _context, ...body } = (entry.body ?? {}) as ChatCompletionRequest
  return { path: entry.path, headers: entry.headers, body }
}
