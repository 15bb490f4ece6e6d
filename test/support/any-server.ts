import { isObject, type Json, readObject, readObjects, readString } from '../../src/base/json.ts'
import { DOORS, type Door } from './doors.ts'
import { type LocalServer, startLocalServer } from './server.ts'

/** What a server answers: a status with a body, or the data of events, of which the last may be [DONE]. */
export type RawAnswer = { status?: number; body: unknown } | { events: unknown[] }

/** A request as the server got it. */
export interface RawRequest {
  path: string
  headers: Headers
  body: Json
}

/** What a client of any door takes an answer for. */
export interface Verdict {
  text: string
  calls: [name: string, input: string][]
  /** Our finish reason; `error` for an answer that failed, before its first word or later. */
  end: string | null
}

/** Providers of every protocol on loopback that answer as a test says, and a gateway before them. */
export class AnyServer {
  /** Every request, in order. */
  readonly requests: RawRequest[] = []
  readonly #server: Bun.Server<undefined>
  #gateway: LocalServer | null = null
  #answers: RawAnswer[] = []

  constructor() {
    this.#server = Bun.serve({
      hostname: '127.0.0.1',
      port: 0,
      fetch: request => this.#answer(request),
    })
  }

  /** Starts a gateway with a model `acme/NAME` at a provider for each row. */
  async open(
    providers: Record<string, Json>,
    models: Record<string, string[]>,
    more: Json = {},
  ): Promise<void> {
    const base = `http://127.0.0.1:${this.#server.port}`
    this.#gateway = await startLocalServer({
      providers: Object.fromEntries(
        Object.entries(providers).map(([name, fields]) => [
          name,
          { api_key: 'mock', base_url: `${base}/${name}`, ...fields },
        ]),
      ),
      models: Object.entries(models).map(([name, slugs]) => ({
        id: `acme/${name}`,
        context_length: 128_000,
        endpoints: slugs.map(provider => ({
          provider,
          model: name,
          usd_per_million_tokens: { prompt: 1, completion: 2 },
        })),
      })),
      routing: { choice: 'listed', failures: 0 },
      ...more,
    })
  }

  get gateway(): LocalServer {
    if (!this.#gateway) throw new Error('The gateway is not open')
    return this.#gateway
  }

  /** Says what the next requests get; the last answer is repeated. */
  plan(...answers: RawAnswer[]): void {
    this.#answers = answers
    this.requests.length = 0
  }

  /** Stops the gateway and the providers. */
  async close(): Promise<void> {
    await this.#gateway?.[Symbol.asyncDispose]()
    await this.#server.stop(true)
  }

  /** Says "Hi" at a door, with `more` in the body, and returns the response with its text. */
  async send(door: Door, more: Json, headers: Record<string, string> = {}): Promise<Response> {
    return this.gateway.fetch(PATHS[door], { json: { ...BODIES[door], ...more }, headers })
  }

  /** Says "Hi" at a door and reads what its client takes the answer for. */
  async ask(door: Door, more: Json): Promise<Verdict> {
    const response = await this.send(door, more)
    const raw = await response.text()
    if (response.status !== 200) return { text: '', calls: [], end: 'error' }
    return this.read(door, more.stream === true, raw)
  }

  /** Reads what the client of a door takes an answer for. */
  read(door: Door, stream: boolean, raw: string): Verdict {
    return stream ? READERS[door].events(readEvents(raw)) : READERS[door].whole(JSON.parse(raw))
  }

  async #answer(request: Request): Promise<Response> {
    const body = (await request.json()) as Json
    this.requests.push({ path: new URL(request.url).pathname, headers: request.headers, body })
    const answer = this.#answers.length > 1 ? this.#answers.shift() : this.#answers[0]
    if (!answer) return Response.json({ error: 'Nothing was planned' }, { status: 501 })
    if ('body' in answer) return Response.json(answer.body, { status: answer.status ?? 200 })
    return new Response(answer.events.map(renderEvent).join(''), {
      headers: { 'content-type': 'text/event-stream' },
    })
  }
}

const renderEvent = (event: unknown): string => {
  if (typeof event === 'string') return `data: ${event}\n\n`
  const type = isObject(event) ? readString(event.type) : null
  return `${type === null ? '' : `event: ${type}\n`}data: ${JSON.stringify(event)}\n\n`
}

const PATHS: Record<Door, string> = {
  chat: '/chat/completions',
  messages: '/messages',
  responses: '/responses',
}

const SAID = [{ role: 'user', content: 'Hi' }]
const BODIES: Record<Door, Json> = {
  chat: { messages: SAID },
  messages: { max_tokens: 100, messages: SAID },
  responses: { input: SAID },
}

/** Reads the events of a streamed answer, without the [DONE] of some. */
export const readEvents = (raw: string): Json[] =>
  raw
    .split('\n')
    .filter(line => line.startsWith('data: ') && line !== 'data: [DONE]')
    .map(line => JSON.parse(line.slice('data: '.length)))

interface DoorReader {
  whole(answer: Json): Verdict
  events(events: Json[]): Verdict
}

const chat: DoorReader = {
  whole: ({ choices }) => {
    const [choice = {}] = readObjects(choices)
    const message = readObject(choice, 'message')
    return {
      text: readString(message.content) ?? '',
      calls: readObjects(message.tool_calls).map(call => {
        const called = readObject(call, 'function')
        return [String(called.name), String(called.arguments)]
      }),
      end: readString(choice.finish_reason),
    }
  },
  events: events => {
    const verdict: Verdict = { text: '', calls: [], end: null }
    for (const choice of events.flatMap(({ choices }) => readObjects(choices))) {
      const delta = readObject(choice, 'delta')
      verdict.text += readString(delta.content) ?? ''
      for (const call of readObjects(delta.tool_calls)) {
        const called = readObject(call, 'function')
        const known = verdict.calls[Number(call.index)]
        if (known) known[1] += String(called.arguments)
        else verdict.calls[Number(call.index)] = [String(called.name), String(called.arguments)]
      }
      verdict.end = readString(choice.finish_reason) ?? verdict.end
    }
    return verdict
  },
}

const STOPS: Record<string, string> = {
  end_turn: 'stop',
  stop_sequence: 'stop',
  pause_turn: 'stop',
  max_tokens: 'length',
  tool_use: 'tool_calls',
  refusal: 'content_filter',
}

const readStop = (value: unknown): string | null => STOPS[String(value)] ?? null

const messages: DoorReader = {
  whole: ({ content, stop_reason }) => ({
    text: readObjects(content)
      .map(({ type, text }) => (type === 'text' ? text : ''))
      .join(''),
    calls: readObjects(content).flatMap(({ type, name, input }): Verdict['calls'] =>
      type === 'tool_use' ? [[String(name), JSON.stringify(input)]] : [],
    ),
    end: readStop(stop_reason),
  }),
  events: events => {
    const verdict: Verdict = { text: '', calls: [], end: null }
    const calls = new Map<unknown, [string, string]>()
    for (const event of events) {
      const block = readObject(event, 'content_block')
      const delta = readObject(event, 'delta')
      if (block.type === 'tool_use') calls.set(event.index, [String(block.name), ''])
      verdict.text += readString(delta.text) ?? ''
      const call = calls.get(event.index)
      if (call) call[1] += readString(delta.partial_json) ?? ''
      if (event.type === 'message_delta') verdict.end = readStop(delta.stop_reason)
      if (event.type === 'error') verdict.end = 'error'
    }
    return { ...verdict, calls: [...calls.values()].map(([name, input]) => [name, input || '{}']) }
  },
}

const responses: DoorReader = {
  whole: ({ output, status, incomplete_details }) => {
    const items = readObjects(output)
    const calls = items.flatMap(({ type, name, arguments: input }): Verdict['calls'] =>
      type === 'function_call' ? [[String(name), String(input)]] : [],
    )
    const reason = isObject(incomplete_details) ? incomplete_details.reason : null
    return {
      text: items
        .flatMap(({ content }) => readObjects(content))
        .map(({ type, text }) => (type === 'output_text' ? text : ''))
        .join(''),
      calls,
      end:
        status === 'completed'
          ? calls.length > 0
            ? 'tool_calls'
            : 'stop'
          : status === 'incomplete'
            ? reason === 'max_output_tokens'
              ? 'length'
              : 'content_filter'
            : 'error',
    }
  },
  // The last event has all of it, and the events before must have said the same.
  events: events => {
    const last = responses.whole(readObject(events.at(-1) ?? {}, 'response'))
    const text = events.map(({ type, delta }) =>
      type === 'response.output_text.delta' ? delta : '',
    )
    const inputs = new Map<unknown, string>()
    for (const { type, output_index, delta } of events)
      if (type === 'response.function_call_arguments.delta')
        inputs.set(output_index, (inputs.get(output_index) ?? '') + String(delta))
    const streamed = JSON.stringify([text.join(''), [...inputs.values()]])
    const whole = JSON.stringify([last.text, last.calls.map(([, input]) => input).filter(Boolean)])
    if (streamed !== whole) throw new Error(`Streamed ${streamed}, and at the end ${whole}`)
    return last
  },
}

/** How a client of each door reads an answer. */
export const READERS: Record<Door, DoorReader> = { chat, messages, responses }

/** Each door, whole and streamed. */
export const WAYS: [door: Door, stream: boolean][] = DOORS.flatMap(door => [
  [door, false],
  [door, true],
])

const HEAD = { id: 'chatcmpl-1', created: 1_770_000_000, model: 'any' }

/** An answer in openai-chat's form: its pieces, which a whole answer has together. */
export interface ChatAnswer {
  text?: string
  /** Deltas of calls, as they stream. */
  calls?: Json[]
  finish_reason?: string | null
  /** Whether the stream ends with [DONE]; it does if absent. */
  done?: boolean
}

const USAGE = { prompt_tokens: 10, completion_tokens: 5, total_tokens: 15 }

/** Renders such an answer as its server sends it. */
export function renderChat(answer: ChatAnswer, stream: boolean): RawAnswer {
  const { text, calls = [], finish_reason = null, done = true } = answer
  if (!stream) {
    const message = { role: 'assistant', content: text ?? null, tool_calls: calls }
    const choices = [{ index: 0, message, finish_reason }]
    return { body: { ...HEAD, object: 'chat.completion', choices, usage: USAGE } }
  }
  const chunk = (delta: Json, finish: string | null = null) => ({
    ...HEAD,
    object: 'chat.completion.chunk',
    choices: [{ index: 0, delta, finish_reason: finish }],
  })
  return {
    events: [
      chunk({ role: 'assistant', content: '' }),
      ...(text ? [chunk({ content: text })] : []),
      ...calls.map(call => chunk({ tool_calls: [call] })),
      ...(finish_reason === null ? [] : [chunk({}, finish_reason)]),
      { ...HEAD, object: 'chat.completion.chunk', choices: [], usage: USAGE },
      ...(done ? ['[DONE]'] : []),
    ],
  }
}

/** A delta of a call at a place. */
export const callDelta = (
  index: number,
  id: string | null,
  name: string | null,
  input?: string,
) => ({
  index,
  ...(id === null ? {} : { id, type: 'function' }),
  function: {
    ...(name === null ? {} : { name }),
    ...(input === undefined ? {} : { arguments: input }),
  },
})
