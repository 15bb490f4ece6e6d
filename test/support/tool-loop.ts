import type { Gateway } from '../../src/app/gateway.ts'
import type { Json } from '../../src/base/json.ts'
import type { ServerTool } from '../../src/extensions/server-tool.ts'
import { TOOLS } from '../../src/extensions/tools/registry.ts'
import type { Generation } from '../../src/observability/generations/store.ts'
import { getOperator } from '../../src/resources/actor.ts'
import { createKey } from '../../src/resources/keys.ts'
import { createApp } from '../../src/server/app.ts'
import {
  type FakeProviderServer,
  type Pace,
  type Scenario,
  startFakeProviders,
} from './fake-provider-server.ts'
import type { ReceivedRequest } from './fake-providers/fake-provider.ts'
import { testGateway } from './gateway.ts'

/** The endpoints of text, each an API of its own. */
export const DOORS = ['chat', 'messages', 'responses'] as const
export type Door = (typeof DOORS)[number]

const PATHS: Record<Door, string> = {
  chat: '/chat/completions',
  messages: '/messages',
  responses: '/responses',
}

/** The protocols that the loop is tried with. */
export const LOOP_PROTOCOLS = [
  ...['openai-chat', 'anthropic-messages', 'gemini', 'openai-responses', 'bedrock-converse'],
  'cohere-chat',
]

/** The price of a turn of the fake providers: 10 tokens in, 5 out. Nano-dollars. */
export const TURN = 10n * 1_000n + 5n * 2_000n

/** What a client got, in whichever API it asked. */
export interface LoopReading {
  status: number
  text: string
  /** The calls of functions that are for the client. */
  calls: { id: string; name: string; input: unknown }[]
  /** The uses of tools that the gateway ran, as the API shows them. */
  uses: Json[]
  finish: string | null
  usage: Json
  error: Json | null
  /** The whole answer, or the events of the stream. */
  raw: Json[]
}

/** The options of a stage. */
interface StageOptions {
  tools?: ServerTool[]
  config?: Json
  /** Changes the config of the providers and models. */
  changeConfig?: (config: Json) => Json
  /** Dollars; absent for no limit. */
  limit?: number
  /** What providers do before they answer. */
  pace?: Pace
  parts?: Parameters<typeof testGateway>[0]
}

/** A gateway with tools between clients and fake providers of every protocol. */
export class LoopStage {
  readonly gateway: Gateway
  readonly providers: FakeProviderServer
  readonly key: { hash: string; secret: string }
  readonly generations: Generation[] = []
  /** Every request that a provider received, in order. */
  readonly heard: ReceivedRequest[]
  readonly #app: ReturnType<typeof createApp>

  constructor(
    gateway: Gateway,
    providers: FakeProviderServer,
    key: { hash: string; secret: string },
    heard: ReceivedRequest[],
  ) {
    this.gateway = gateway
    this.providers = providers
    this.key = key
    this.heard = heard
    this.#app = createApp(gateway)
    gateway.events.on('generation.finished', generation => this.generations.push(generation))
  }

  /** Sends a body through a door and returns the response. */
  send(door: Door, body: Json, init: { signal?: AbortSignal; headers?: HeadersInit } = {}) {
    const headers = {
      'content-type': 'application/json',
      authorization: `Bearer ${this.key.secret}`,
      ...init.headers,
    }
    const request = new Request(`http://localhost/api/v1${PATHS[door]}`, {
      ...init,
      method: 'POST',
      headers,
      body: JSON.stringify(buildBody(door, body)),
    })
    return this.#app.handle(request)
  }

  /** Sends a body through a door and reads the answer. */
  async ask(door: Door, body: Json, headers: HeadersInit = {}): Promise<LoopReading> {
    const response = await this.send(door, body, { headers })
    const text = await response.text()
    const isStream = response.headers.get('content-type')?.includes('event-stream') ?? false
    const raw = isStream ? readEvents(text) : [JSON.parse(text)]
    return { status: response.status, ...READERS[door](raw, isStream), raw }
  }

  /** Returns what is left of money: the hold, and how much was spent. Nano-dollars. */
  get money(): { held: bigint; spent: bigint } {
    const account = `key ${this.key.hash}` as const
    const { ledger } = this.gateway
    return {
      held: ledger.getHeld(account, false),
      spent: ledger.getSpent(account, null, false),
    }
  }

  async close(): Promise<void> {
    await this.gateway.close()
    await this.providers.close()
  }
}

/** Opens a stage on which the model does as the scenario says. The caller closes it. */
export async function openLoopStage(
  scenario: Scenario,
  {
    tools = TOOLS,
    config = {},
    changeConfig = same => same,
    limit,
    pace,
    parts = {},
  }: StageOptions = {},
): Promise<LoopStage> {
  const heard: ReceivedRequest[] = []
  const record: Scenario = request => {
    heard.push(request)
    return scenario(request)
  }
  const providers = startFakeProviders({ loop: record }, pace)
  const gateway = await testGateway({
    ...parts,
    tools,
    config: { ...changeConfig(buildLoopConfig(name => providers.getBaseUrl(name))), ...config },
  })
  const made = await createKey(gateway, getOperator(gateway), {
    name: 'k',
    ...(limit === undefined ? {} : { limit }),
  })
  const key = { hash: made.data.hash, secret: made.key }
  return new LoopStage(gateway, providers, key, heard)
}

/** Builds a config with one model for each protocol. */
export const buildLoopConfig = (getBaseUrl: (protocol: string) => string): Json => ({
  providers: Object.fromEntries(
    LOOP_PROTOCOLS.map(name => [
      name,
      { protocol: name, base_url: getBaseUrl(name), ...AUTH[name] },
    ]),
  ),
  models: LOOP_PROTOCOLS.map(name => ({
    id: `acme/${name}`,
    context_length: 100_000,
    endpoints: [
      {
        provider: name,
        model: 'loop',
        usd_per_million_tokens: { prompt: 1, completion: 2 },
      },
    ],
  })),
})

const AUTH: Record<string, Json> = Object.fromEntries(
  LOOP_PROTOCOLS.map(name => [
    name,
    name === 'bedrock-converse'
      ? { region: 'us-east-1', aws: { access_key_id: 'AKIA', secret_access_key: 'secret' } }
      : { api_key: 'mock' },
  ]),
)

function buildBody(door: Door, { model = 'acme/openai-chat', text = 'Hi', ...rest }: Json): Json {
  if (door === 'responses') return { model, input: text, max_output_tokens: 100, ...rest }
  return { model, messages: [{ role: 'user', content: text }], max_tokens: 100, ...rest }
}

const readEvents = (text: string): Json[] =>
  text
    .split('\n')
    .filter(line => line.startsWith('data: ') && line !== 'data: [DONE]')
    .map(line => JSON.parse(line.slice('data: '.length)))

type Reader = (raw: Json[], isStream: boolean) => Omit<LoopReading, 'status' | 'raw'>

// biome-ignore lint/suspicious/noExplicitAny: answers of three APIs, whose fields the tests check
type Any = any

const READERS: Record<Door, Reader> = {
  chat(raw, isStream) {
    const chunks = raw as Any[]
    const choices = chunks.flatMap(chunk => chunk.choices ?? [])
    const parts = choices.map(choice => (isStream ? choice.delta : choice.message) ?? {})
    const calls = new Map<number, Any>()
    for (const [i, call] of parts.flatMap(part => part.tool_calls ?? []).entries()) {
      const index = call.index ?? i
      const known = calls.get(index) ?? { id: call.id, name: call.function.name, input: '' }
      calls.set(index, { ...known, input: known.input + (call.function.arguments ?? '') })
    }
    return {
      text: parts.map(part => part.content ?? '').join(''),
      calls: [...calls.values()].map(call => ({ ...call, input: JSON.parse(call.input) })),
      uses: parts
        .flatMap(part => part.reasoning_details ?? [])
        .filter(({ type }) => type === 'reasoning.server_tool_call'),
      finish: choices.findLast(choice => choice.finish_reason)?.finish_reason ?? null,
      usage: chunks.findLast(chunk => chunk.usage)?.usage ?? {},
      error:
        chunks.find(chunk => chunk.error)?.error ?? choices.find(one => one.error)?.error ?? null,
    }
  },
  messages(raw, isStream) {
    const events = raw as Any[]
    const blocks: Any[] = isStream ? [] : (events[0]?.content ?? [])
    for (const event of events) {
      if (event.type === 'content_block_start')
        blocks[event.index] = { ...event.content_block, json: '' }
      const block = blocks[event.index]
      if (event.delta?.type === 'text_delta') block.text += event.delta.text
      if (event.delta?.type === 'input_json_delta') block.json += event.delta.partial_json
    }
    const inputOf = (block: Any) => (block.json ? JSON.parse(block.json) : block.input)
    const last = isStream ? events.findLast(({ type }) => type === 'message_delta') : events[0]
    return {
      text: blocks.map(block => (block.type === 'text' ? block.text : '')).join(''),
      calls: blocks
        .filter(({ type }) => type === 'tool_use')
        .map(block => ({ id: block.id, name: block.name, input: inputOf(block) })),
      uses: blocks
        .filter(({ type }) => type === 'server_tool_use' || String(type).endsWith('_tool_result'))
        .map(({ json: _, ...block }) =>
          'input' in block ? { ...block, input: inputOf({ ...block, json: _ }) } : block,
        ),
      finish: (isStream ? last?.delta?.stop_reason : last?.stop_reason) ?? null,
      usage: last?.usage ?? {},
      error: events.find(event => event.error)?.error ?? null,
    }
  },
  responses(raw, isStream) {
    const events = raw as Any[]
    const response = isStream ? events.at(-1)?.response : events[0]
    const items: Any[] = response?.output ?? []
    return {
      text: response?.output_text ?? '',
      calls: items
        .filter(({ type }) => type === 'function_call')
        .map(({ call_id, name, arguments: input }) => ({
          id: call_id,
          name,
          input: JSON.parse(input),
        })),
      uses: items.filter(({ type }) => type.includes(':') || type.startsWith('apply_patch')),
      finish: response?.incomplete_details?.reason ?? response?.status ?? null,
      usage: response?.usage ?? {},
      error: response?.error ?? null,
    }
  },
}
