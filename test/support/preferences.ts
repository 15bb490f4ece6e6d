import { LLMock } from '@copilotkit/aimock'
import { parseStream } from './chat.ts'
import { type LocalServer, startLocalServer } from './server.ts'
import {
  completion,
  type Hit,
  json,
  type Script,
  startUpstream,
  status,
  stream,
} from './upstream.ts'

/** Three providers of every model, each with a property that the others lack. */
const FACTS = {
  cheap: {
    usd_per_million_tokens: { prompt: 1, completion: 1, request: 0.01 },
    region: 'us',
    quantization: 'fp8',
    supported_parameters: ['temperature'],
  },
  private: {
    usd_per_million_tokens: { prompt: 2, completion: 2 },
    data_policy: { training: false, retention_days: 0 },
    supported_parameters: ['temperature'],
  },
  able: {
    usd_per_million_tokens: { prompt: 3, completion: 3 },
    data_policy: { training: false, retention_days: 30 },
    region: 'europe',
  },
}
export type Name = keyof typeof FACTS
export const NAMES = Object.keys(FACTS) as Name[]

/** A model that is known to reason. For the others this is unknown. */
export const REASONER = 'anthropic/claude-haiku-4.5'

const SERVED: [id: string, names: Name[], more?: object][] = [
  ['acme/small', NAMES],
  ['acme/taught', ['able'], { distillable: true }],
  ['acme/seeing', NAMES, { input_modalities: ['text', 'image'] }],
  [REASONER, ['cheap', 'able']],
]

/** Models without measurements until a test uses them. */
const TIMED = Array.from({ length: 32 }, (_, i): [string, Name[]] => [
  `acme/timed-${i}`,
  ['cheap', 'able'],
])

/** A provider that answers its name, or is down. */
export interface Player {
  url: string
  /** The bodies that it received, in order. */
  received(): object[]
  /** Sets what it does from now on, and clears what it received. */
  play(isWell: boolean): void
  close(): Promise<unknown>
}

/** The mock servers that play the providers: a third party's and our own. */
export const PLAYERS: Record<string, (name: Name) => Promise<Player>> = {
  aimock: startAimock,
  scripted: startScripted,
}

const VECTOR = [0.5, -0.25]
const USAGE = { prompt_tokens: 10, completion_tokens: 5, total_tokens: 15 }

async function startAimock(name: Name): Promise<Player> {
  const mock = new LLMock({ port: 0, strict: true })
  await mock.start()
  return {
    url: `${mock.url}/v1`,
    received: () => mock.getRequests().map(({ body }) => body ?? {}),
    play(isWell) {
      const failure = { error: { message: 'down', type: 'server_error' }, status: 503 }
      mock.reset()
      mock.onMessage(/./, isWell ? { content: name, usage: USAGE } : failure)
      mock.onEmbedding(/./, isWell ? { embedding: VECTOR } : failure)
    },
    close: () => mock.stop(),
  }
}

async function startScripted(name: Name): Promise<Player> {
  const upstream = await startUpstream()
  const well = ({ path, json: body }: Hit): Script => {
    if (path.endsWith('/embeddings'))
      return json({ data: [{ object: 'embedding', index: 0, embedding: VECTOR }], usage: USAGE })
    return (body as { stream?: boolean }).stream ? stream([name]) : completion(name)
  }
  return {
    url: upstream.url,
    received: () => upstream.hits.map(hit => hit.json as object),
    play(isWell) {
      upstream.hits.length = 0
      upstream.answer(isWell ? well : () => status(503))
    },
    close: () => upstream.close(),
  }
}

/** The fields of a body besides the question. `tool` adds a tool. */
export type Body = Record<string, unknown> & { model?: string; tool?: boolean }

/** A form of request: its path, and its body besides the preferences. */
export interface RequestForm {
  path: string
  body: object
  /** A tool in this form. */
  tool: object
  /** Reads the text of the answer; null if it has none. */
  said(body: string): string | null
  isOfVectors: boolean
  isStreamed: boolean
}

const HI = { messages: [{ role: 'user', content: 'Hi' }] }
const CHAT = {
  path: '/chat/completions',
  tool: { type: 'function', function: { name: 'f' } },
  isOfVectors: false,
  isStreamed: false,
}
const MESSAGES = {
  path: '/messages',
  tool: { name: 'f', input_schema: { type: 'object' } },
  isOfVectors: false,
  isStreamed: false,
}

export const REQUEST_FORMS: Record<string, RequestForm> = {
  chat: { ...CHAT, body: HI, said: body => JSON.parse(body).choices[0].message.content },
  'chat, streamed': {
    ...CHAT,
    isStreamed: true,
    body: { ...HI, stream: true },
    said: body => parseStream(body).text,
  },
  messages: {
    ...MESSAGES,
    body: { ...HI, max_tokens: 100 },
    said: body => JSON.parse(body).content[0].text,
  },
  'messages, streamed': {
    ...MESSAGES,
    isStreamed: true,
    body: { ...HI, max_tokens: 100, stream: true },
    said: readTextDeltas,
  },
  embeddings: {
    path: '/embeddings',
    body: { input: 'Hi' },
    tool: {},
    said: () => null,
    isOfVectors: true,
    isStreamed: false,
  },
}

function readTextDeltas(body: string): string {
  const events = body.split('\n').filter(line => line.startsWith('data: '))
  return events.map(line => JSON.parse(line.slice('data: '.length)).delta?.text ?? '').join('')
}

/** The outcome of a call: its text or its error, and the providers that were called. */
export interface Outcome {
  status: number
  said: string | null
  error: string | null
  asked: Name[]
}

/** A gateway in front of three providers. */
export class Cast {
  readonly server: LocalServer
  readonly #players: Record<Name, Player>
  #timed = 0

  constructor(server: LocalServer, players: Record<Name, Player>) {
    this.server = server
    this.#players = players
  }

  /** Starts a gateway with providers of this kind. The caller closes it. */
  static async open(playedBy: (name: Name) => Promise<Player>): Promise<Cast> {
    const [cheap, other, able] = await Promise.all([
      playedBy('cheap'),
      playedBy('private'),
      playedBy('able'),
    ])
    const players = { cheap, private: other, able }
    return new Cast(await startLocalServer(buildConfig(players)), players)
  }

  /** Makes all providers answer except these, and clears what they received. */
  play(down: Name[] = []): void {
    for (const name of NAMES) this.#players[name].play(!down.includes(name))
  }

  /** Returns a model without measurements. */
  unmeasured(): string {
    return TIMED[this.#timed++]?.[0] ?? ''
  }

  /** Returns the last body that a provider received. */
  lastAt(name: Name): Record<string, unknown> {
    return { ...this.#players[name].received().at(-1) }
  }

  /** Sends a request in this form, with `body` applied. */
  async ask(
    way: RequestForm,
    { model = 'acme/small', tool = false, ...body }: Body,
    key?: string,
  ): Promise<Outcome> {
    const before = NAMES.map(name => this.#players[name].received().length)
    const json = {
      model: way.isOfVectors ? toVectorModel(model) : model,
      ...way.body,
      ...(tool ? { tools: [way.tool] } : {}),
      ...body,
    }
    const response = await this.server.fetch(way.path, {
      json,
      ...(key === undefined ? {} : { key }),
    })
    const text = await response.text()
    const asked = NAMES.filter(
      (name, i) => this.#players[name].received().length > (before[i] ?? 0),
    )
    if (response.status !== 200)
      return { status: response.status, said: null, error: JSON.parse(text).error.message, asked }
    return { status: 200, said: way.said(text), error: null, asked }
  }

  async close(): Promise<void> {
    await this.server[Symbol.asyncDispose]()
    await Promise.all(NAMES.map(name => this.#players[name].close()))
  }
}

/** Returns the name of the embeddings model. A variant stays at its end. */
const toVectorModel = (model: string) => model.replace(/^[^:]*/, id => `${id}-vectors`)

function buildConfig(players: Record<Name, Player>) {
  const provider = (name: Name) => ({
    protocol: 'openai-chat',
    base_url: players[name].url,
    api_key: 'mock',
    ...(name === 'able' ? { quirks: { web_search: true } } : {}),
  })
  return {
    routing: { failures: 0 },
    providers: Object.fromEntries(NAMES.map(name => [name, provider(name)])),
    models: [...SERVED, ...TIMED].flatMap(([id, names, more = {}]) => {
      const endpoints = names.map(name => ({ provider: name, model: 'm', ...FACTS[name] }))
      return [
        { id, ...more, endpoints },
        { id: `${id}-vectors`, ...more, output_modalities: ['embeddings'], endpoints },
      ]
    }),
  }
}
