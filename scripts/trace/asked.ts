import { MODEL } from './provider.ts'

/** Which call is wanted: a chat call that is answered whole, unless something else is said. */
export interface Wanted {
  stream: boolean
  messages: boolean
  keys: boolean
}

/** A call as it is sent, and what is known of it. */
export interface Asked {
  name: string
  path: string
  body: Record<string, unknown>
  /** Whether it is one for which a plan is made. */
  plans: boolean
  /** What its answer says when all went well. */
  status: number
}

/** The call that is wanted. */
export function askedFor({ stream, messages, keys }: Wanted): Asked {
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

/** The key with which such a call may be made. */
export function keyFor({ plans }: Asked, keys: FirstKeys): string {
  return plans ? keys.inference_key : keys.management_key
}

/** The milliseconds after which a call is not waited for any longer. */
const PATIENCE = 10_000

/** Makes the call and reads its answer to the end. Throws where that is not what it should be. */
export async function send(url: string, key: string, { path, body, status }: Asked): Promise<void> {
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
