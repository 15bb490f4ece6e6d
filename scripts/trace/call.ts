import { countWords, MODEL, type TraceProvider, WORDS } from './provider.ts'

/** The call to trace. Without flags it is a chat call with a whole answer. */
export interface TraceOptions {
  stream?: boolean
  messages?: boolean
  keys?: boolean
  /** How many messages the conversation has. */
  turns?: number
  /** How many pieces of text the provider streams. */
  chunks?: number
}

/** A call as it is sent, with what is expected of it. */
export interface TracedCall {
  name: string
  path: string
  body: Record<string, unknown>
  /** Whether the gateway makes a plan for it. */
  plans: boolean
  /** The status of a successful answer. */
  status: number
  /** How many pieces of text the provider streams. */
  chunks: number
}

/** Creates the call for these options. */
export function createTracedCall(options: TraceOptions): TracedCall {
  const { stream = false, messages, keys, turns = 1, chunks = WORDS.length } = options
  if (keys) return { ...KEYS, name: `POST ${KEYS.path}` }
  const { path, more } = messages ? MESSAGES : CHAT
  const body = { model: MODEL, messages: createConversation(turns), ...more, stream }
  const name = `POST ${path}, ${stream ? 'streamed' : 'whole'}`
  return { name, path, body, plans: true, status: 200, chunks }
}

const createConversation = (turns: number) =>
  Array.from({ length: turns }, (_, i) => ({
    role: i % 2 === 0 ? 'user' : 'assistant',
    content: i === 0 ? 'Hello there' : `Hello there, number ${i}`,
  }))

const CHAT = { path: '/api/v1/chat/completions', more: {} }
const MESSAGES = { path: '/api/v1/messages', more: { max_tokens: 100 } }
const KEYS = {
  path: '/api/v1/keys',
  body: { name: 'traced' },
  plans: false,
  status: 201,
  chunks: 0,
}

/** The two keys of a new gateway. */
export interface FirstKeys {
  management_key: string
  inference_key: string
}

/** Picks the key that may make the call. */
export function pickKey({ plans }: TracedCall, keys: FirstKeys): string {
  return plans ? keys.inference_key : keys.management_key
}

/** The timeout of a call, in milliseconds. */
const PATIENCE = 10_000

/** Makes the call and reads its answer to the end. Throws if the answer is not the expected one. */
export async function sendCall(
  { url, key, provider }: { url: string; key: string; provider: TraceProvider },
  { path, body, status }: TracedCall,
): Promise<void> {
  const response = await fetch(url + path, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify(body),
    signal: AbortSignal.timeout(PATIENCE),
  })
  const text = await readWords(response, provider)
  if (response.status === status && (status !== 200 || text.includes('General'))) return
  throw new Error(`POST ${path} was answered with ${response.status}: ${text.slice(0, 500)}`)
}

/** Reads an answer, and tells the provider of each word of it. */
async function readWords(response: Response, provider: TraceProvider): Promise<string> {
  let text = ''
  for await (const piece of response.body?.pipeThrough(new TextDecoderStream()) ?? []) {
    text += piece
    provider.noteReceived(countWords(text))
  }
  return text
}
