import type { Json } from '../../src/base/json.ts'
import { parseExact } from '../../src/base/json.ts'
import type { ReceivedRequest, ScriptedAnswer } from './fake-providers/fake-provider.ts'
import { fakeProviders } from './fake-providers.ts'
import { readTarget } from './replay.ts'

/** Decides what a model of the fake providers does with a request. */
export type Scenario = (
  request: ReceivedRequest,
) => { answer: ScriptedAnswer } | { failsAfter: string } | 'is overloaded'

/** What a provider does before it answers: it takes its time. */
export type Pace = (request: ReceivedRequest, signal: AbortSignal) => void | Promise<void>

/** A loopback server that speaks every protocol. The model in a request selects the scenario. */
export class FakeProviderServer {
  readonly #server: Bun.Server<undefined>
  readonly #scenarios: Record<string, Scenario>
  readonly #pace: Pace
  /** The last request in each protocol. */
  readonly #lastRequests = new Map<string, ReceivedRequest>()

  constructor(scenarios: Record<string, Scenario>, pace: Pace = () => undefined) {
    this.#scenarios = scenarios
    this.#pace = pace
    this.#server = Bun.serve({
      hostname: '127.0.0.1',
      port: 0,
      fetch: request => this.#answer(request),
    })
  }

  /** Returns the base URL of the provider with this protocol. */
  getBaseUrl(protocol: string): string {
    return `http://127.0.0.1:${this.#server.port}/${protocol}`
  }

  /** Returns the last request to the provider with this protocol. Throws if there was none. */
  getLastRequest(protocol: string): ReceivedRequest {
    const received = this.#lastRequests.get(protocol)
    if (!received) throw new Error(`${protocol} received no request`)
    return received
  }

  /** Returns a URL that serves an image with these bytes. */
  getImageUrl(base64: string): string {
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
    const provider = fakeProviders[protocol]
    const body = parseExact(await request.text()) as Json
    const { model, mode } = readTarget(path.join('/'), body)
    const scenario = this.#scenarios[model]
    if (!provider || !scenario)
      return Response.json(
        { error: { message: `No scenario ${model} in ${protocol}` } },
        { status: 404 },
      )
    const received = provider.readRequest(body)
    this.#lastRequests.set(protocol, received)
    const outcome = scenario(received)
    await this.#pace(received, request.signal)
    if (outcome === 'is overloaded')
      return Response.json(provider.overloadedResponse.body, {
        status: provider.overloadedResponse.status,
      })
    if (mode === 'streamed')
      return createStreamResponse(
        provider.streamType,
        'answer' in outcome
          ? provider.renderStream(outcome.answer)
          : provider.renderBrokenStream(outcome.failsAfter),
      )
    if (!('answer' in outcome)) throw new Error('A whole answer does not break')
    return new Response(JSON.stringify(provider.renderAnswer(outcome.answer)), {
      headers: { 'content-type': 'application/json' },
    })
  }
}

const createStreamResponse = (type: string, bytes: Uint8Array) =>
  new Response(Buffer.from(bytes), { headers: { 'content-type': type } })

/** Starts the server. The caller closes it. */
export const startFakeProviders = (
  scenarios: Record<string, Scenario>,
  pace?: Pace,
): FakeProviderServer => new FakeProviderServer(scenarios, pace)
