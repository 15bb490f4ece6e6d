/** The address of a call, and its key. Some programs want another path, or more headers. */
export type Target = {
  url: string
  key: string
  path?: string
  headers?: Record<string, string>
}

/** The words of a client. */
export type Dialect = 'chat' | 'messages'

/** A call: its client's dialect, whether it is a stream, and the size of its prompt. */
export interface CallShape {
  stream: boolean
  dialect?: Dialect
  /** In bytes; about 300 by default. */
  promptBytes?: number
  /** Whether the prompt has what filters look for, and what looks like it. */
  hasDetails?: boolean
  /** Whether the answer is longer than its client waits for. */
  isEndless?: boolean
  model?: string
}

/** How many tokens are asked for, of an answer of the usual length and of one that goes on. */
const MAX_TOKENS = { usual: 400, endless: 100_000 }
/** Tells from the body of a call whether its answer goes on. */
export const isEndless = (body: string): boolean =>
  body.includes(`"max_tokens":${MAX_TOKENS.endless}`)

const PATHS: Record<Dialect, string> = {
  chat: '/api/v1/chat/completions',
  messages: '/api/v1/messages',
}

/** The model that every call names. */
export const MODEL = 'bench/model'

/** The usage that the mock provider reports for every call. */
export const USAGE = { prompt_tokens: 60, completion_tokens: 160, total_tokens: 220 }

/**
 * Returns the time in microseconds, the same in every process: Bun's `process.hrtime` counts from
 * the start of its own process.
 */
export function getMicroseconds(): number {
  return Math.round((performance.timeOrigin + performance.now()) * 1000)
}

/** The prompt, about 0.1 KB. */
export const PROMPT =
  'You are asked to summarise, in one paragraph, what a gateway between programs and model ' +
  'providers is good for. '

const DETAILS =
  'Order 4711-2208 of 2026-03-14 (EUR 1,249.90) for ada.lovelace@example.com is late: call ' +
  '+49 30 901820 before 17:45, and quote invoice 20260314-77. '

/** Renders one chat call: a prompt of about 0.3 KB, on a connection that is kept. */
export const renderRequest = (target: Target, stream: boolean): Buffer =>
  renderCall(target, { stream })

/** Renders one call on a connection that is kept. Both dialects have the same fields here. */
export function renderCall(
  target: Target,
  { stream, dialect = 'chat', promptBytes = 2 * PROMPT.length, ...more }: CallShape,
): Buffer {
  const text = more.hasDetails ? DETAILS : PROMPT
  const content = text.repeat(Math.ceil(promptBytes / text.length)).slice(0, promptBytes)
  return renderPost(target, target.path ?? PATHS[dialect], {
    model: more.model ?? MODEL,
    messages: [{ role: 'user', content }],
    temperature: 0.2,
    max_tokens: more.isEndless ? MAX_TOKENS.endless : MAX_TOKENS.usual,
    stream,
  })
}

/** Renders one call of any route, on a connection that is kept. */
export function renderPost(
  { url, key, headers = {} }: Target,
  path: string,
  fields: object,
): Buffer {
  const body = Buffer.from(JSON.stringify(fields))
  const lines = [
    `POST ${path} HTTP/1.1`,
    `Host: ${new URL(url).host}`,
    `Authorization: Bearer ${key}`,
    'Content-Type: application/json',
    `Content-Length: ${body.length}`,
    ...Object.entries(headers).map(([name, value]) => `${name}: ${value}`),
  ]
  return Buffer.concat([Buffer.from(`${lines.join('\r\n')}\r\n\r\n`), body])
}

/**
 * Creates a reader that assembles an answer from its chunks. It returns `undefined` until the
 * answer is complete, then whether it succeeded.
 */
export function createAnswerReader(): (bytes: Buffer) => boolean | undefined {
  let answer: Buffer | undefined
  return bytes => {
    answer = answer ? Buffer.concat([answer, bytes]) : bytes
    const headEnd = answer.indexOf('\r\n\r\n')
    if (headEnd < 0 || !isWhole(answer, headEnd)) return undefined
    const good = answer.toString('latin1', 9, 12) === '200' && answer.includes('"usage"', headEnd)
    answer = undefined
    return good
  }
}

function isWhole(answer: Buffer, headEnd: number): boolean {
  const [, length] = /content-length: *(\d+)/i.exec(answer.toString('latin1', 0, headEnd)) ?? []
  if (length !== undefined) return answer.length >= headEnd + 4 + Number(length)
  return answer.toString('latin1', answer.length - 5) === '0\r\n\r\n'
}
