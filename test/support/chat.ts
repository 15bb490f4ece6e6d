import { getDefaultGuardrailId } from '../../src/resources/default-guardrail.ts'
import { type Outcome, type RawCall, request } from './raw-client.ts'
import type { Listener } from './server.ts'

/** A `chat.completion.chunk`, with the fields that tests use. */
export interface Chunk {
  id: string
  model: string
  provider: string
  choices: {
    index: number
    delta: { role?: string; content?: string | null }
    finish_reason: string | null
  }[]
  usage?: Usage
  error?: { code: number; message: string; metadata: { error_type: string } }
}

/** The counts and the cost of an answer. */
export interface Usage {
  prompt_tokens: number
  completion_tokens: number
  total_tokens: number
  cost: number
}

/** The record of a finished call, with the fields that tests use. */
export interface Generation {
  id: string
  request_id: string
  model: string
  provider_name: string | null
  provider_responses: { provider_name: string; model_permaslug: string; status: number | null }[]
  streamed: boolean
  cancelled: boolean
  finish_reason: string | null
  usage_source: 'exact' | 'estimated' | 'none'
  native_tokens_prompt: number
  native_tokens_completion: number
  native_tokens_reasoning: number
  total_cost: number
  error_type: string | null
}

/** An API key as it can read itself, with the fields that tests use. */
export interface KeyState {
  usage: number
  limit_remaining: number | null
}

/** The options of a chat request. */
export interface ChatOptions {
  key?: string
  path?: string
  headers?: Record<string, string>
}

/** Sends a chat request on a new connection: "Hi" to `acme/small`, with `body` applied. */
export function sendChat(
  server: Listener,
  body: object = {},
  { key = server.inference_key, path = '/chat/completions', headers }: ChatOptions = {},
): RawCall {
  const json = { model: 'acme/small', messages: [{ role: 'user', content: 'Hi' }], ...body }
  return request(server.base + path, {
    json,
    headers: { authorization: `Bearer ${key}`, ...headers },
  })
}

/** What a client reads from a streamed answer. */
export interface StreamedAnswer {
  /** Every event in order: a chunk, or the text `[DONE]`. */
  events: (Chunk | '[DONE]')[]
  text: string
  errors: Chunk[]
  usages: Chunk[]
  dones: number
  comments: string[]
}

/** Parses a streamed answer. Throws if an event is neither JSON nor `[DONE]`. */
export function parseStream(body: string): StreamedAnswer {
  const lines = body.split('\n')
  const events = lines
    .filter(line => line.startsWith('data: '))
    .map(line => parseEvent(line.slice(6)))
  const chunks = events.filter(event => event !== '[DONE]')
  return {
    events,
    text: chunks.map(chunk => chunk.choices[0]?.delta.content ?? '').join(''),
    errors: chunks.filter(chunk => chunk.error !== undefined),
    usages: chunks.filter(chunk => chunk.usage !== undefined),
    dones: events.length - chunks.length,
    comments: lines.filter(line => line.startsWith(':')),
  }
}

const parseEvent = (data: string): Chunk | '[DONE]' => (data === '[DONE]' ? data : JSON.parse(data))

/** Reads the text of an answer, whole or streamed. */
export function readText({ headers, body }: Outcome): string {
  return headers['content-type']?.startsWith('text/event-stream')
    ? parseStream(body).text
    : JSON.parse(body).choices[0].message.content
}

/** Tells whether an answer arrived to its end, whole or streamed. */
export function isCompleteAnswer({ status, complete, headers, body }: Outcome): boolean {
  if (status !== 200 || !complete) return false
  return headers['content-type']?.startsWith('text/event-stream')
    ? parseStream(body).dones === 1
    : JSON.parse(body).usage !== undefined
}

/** Reads the usage of an answer, whole or streamed. */
export function readUsage({ headers, body }: Outcome): Usage | undefined {
  return headers['content-type']?.startsWith('text/event-stream')
    ? parseStream(body).usages[0]?.usage
    : JSON.parse(body).usage
}

/** Reads the generation id from an answer's headers. */
export const readGenerationId = ({ headers }: Outcome): string => headers['x-generation-id'] ?? ''

/** Fetches the record of a finished call. Throws if there is none. */
export async function fetchGeneration(
  server: Listener,
  id: string,
  key = server.inference_key,
): Promise<Generation> {
  const response = await server.fetch(`/generation?id=${id}`, { key })
  if (response.status !== 200) throw new Error(`No generation ${id}: ${await response.text()}`)
  return ((await response.json()) as { data: Generation }).data
}

/** Fetches what a key has spent and may still spend. */
export async function fetchKeyState(
  server: Listener,
  key = server.inference_key,
): Promise<KeyState> {
  return ((await (await server.fetch('/key', { key })).json()) as { data: KeyState }).data
}

/** Creates a key with a limit in dollars. */
export async function createLimitedKey(
  server: Listener,
  limit = 1,
  management = server.management_key,
): Promise<string> {
  const created = await server.fetch('/keys', { key: management, json: { name: 'limited', limit } })
  return ((await created.json()) as { key: string }).key
}

/** Limits what each end user of the default workspace may cost in a month. */
export async function limitEachUser(server: Listener, limit_usd: number): Promise<void> {
  const { management_key: key } = server
  const keys = await (await server.fetch('/keys', { key })).json()
  const [{ workspace_id }] = (keys as { data: [{ workspace_id: string }] }).data
  const budgets = [{ by: 'end_user', limit_usd, reset_interval: 'monthly' }]
  const path = `/guardrails/${getDefaultGuardrailId(workspace_id)}`
  const { status } = await server.fetch(path, { method: 'PATCH', key, json: { budgets } })
  if (status !== 200) throw new Error(`${path} answered ${status}`)
}

/** Reads the value of a line of `/metrics`, by its name and labels; 0 if there is none. */
export async function readMetric(server: Listener, line: string): Promise<number> {
  const text = await (await fetch(`${server.url}/metrics`, { keepalive: false })).text()
  const found = text.split('\n').find(one => one.startsWith(`${line} `))
  return Number(found?.slice(line.length + 1) ?? 0)
}

/** In milliseconds: what takes long is asked for less often, since to ask may be work. */
const [FIRST_PAUSE, LONGEST_PAUSE] = [5, 40]

/** Polls until the condition is true. Throws after `seconds`, which no machine should need. */
export async function waitUntil(
  isSo: () => boolean | Promise<boolean>,
  seconds = 45,
): Promise<void> {
  const limit = performance.now() + seconds * 1000
  for (let pause = FIRST_PAUSE; !(await isSo()); pause = Math.min(pause * 1.2, LONGEST_PAUSE)) {
    if (performance.now() > limit) throw new Error(`Not so after ${seconds} seconds: ${isSo}`)
    await Bun.sleep(pause)
  }
}

export const PRICES = { prompt: 0.15, completion: 0.6 }

/**
 * Builds a config from models, providers and base URLs: `{ 'acme/small': { first: url } }`. All
 * endpoints have the same price, are tried as listed, and never cool down, so that tests do not
 * affect each other.
 */
export function buildRoutesConfig(
  routes: Record<string, Record<string, string>>,
  more: Record<string, unknown> = {},
) {
  const providers = Object.assign({}, ...Object.values(routes))
  return {
    providers: mapValues<string, object>(providers, base_url => ({
      protocol: 'openai-chat',
      base_url,
      api_key: 'mock',
    })),
    models: Object.entries(routes).map(([id, endpoints]) => ({
      id,
      context_length: 128_000,
      endpoints: Object.keys(endpoints).map(provider => ({
        provider,
        model: 'test-model',
        usd_per_million_tokens: PRICES,
      })),
    })),
    routing: { choice: 'listed', failures: 0 },
    ...more,
  }
}

const mapValues = <From, To>(
  object: Record<string, From>,
  change: (value: From) => To,
): Record<string, To> =>
  Object.fromEntries(Object.entries(object).map(([name, value]) => [name, change(value)]))

/** The cost of 10 input tokens and 5 output tokens at those prices. */
export const COST = (10 * PRICES.prompt + 5 * PRICES.completion) / 1_000_000
