import { MODEL } from './provider.ts'

/** The call to trace. Without flags it is a chat call with a whole answer. */
export interface TraceOptions {
  stream: boolean
  messages: boolean
  keys: boolean
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
}

/** Creates the call for these options. */
export function createTracedCall({ stream, messages, keys }: TraceOptions): TracedCall {
  if (keys) return { ...KEYS, name: `POST ${KEYS.path}` }
  const { path, more } = messages ? MESSAGES : CHAT
  const body = { model: MODEL, messages: [GREETING], ...more, stream }
  const name = `POST ${path}, ${stream ? 'streamed' : 'whole'}`
  return { name, path, body, plans: true, status: 200 }
}

const GREETING = { role: 'user', content: 'Hello there' }
const CHAT = { path: '/api/v1/chat/completions', more: {} }
const MESSAGES = { path: '/api/v1/messages', more: { max_tokens: 100 } }
const KEYS = { path: '/api/v1/keys', body: { name: 'traced' }, plans: false, status: 201 }

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
  url: string,
  key: string,
  { path, body, status }: TracedCall,
): Promise<void> {
  const response = await fetch(url + path, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify(body),
    signal: AbortSignal.timeout(PATIENCE),
  })
  const text = await response.text()
  if (response.status === status && (status !== 200 || text.includes('General'))) return
  throw new Error(`POST ${path} was answered with ${response.status}: ${text.slice(0, 500)}`)
}
