/** The address of a call, and its key. */
export type Target = { url: string; key: string }

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

/** Renders one chat call: a prompt of about 0.3 KB, on a connection that is kept. */
export function renderRequest(target: Target, stream: boolean): Buffer {
  const messages = [{ role: 'user', content: PROMPT.repeat(2) }]
  return renderPost(target, '/api/v1/chat/completions', {
    model: MODEL,
    messages,
    temperature: 0.2,
    max_tokens: 400,
    stream,
  })
}

/** Renders one call of any route, on a connection that is kept. */
export function renderPost({ url, key }: Target, path: string, fields: object): Buffer {
  const body = Buffer.from(JSON.stringify(fields))
  const lines = [
    `POST ${path} HTTP/1.1`,
    `Host: ${new URL(url).host}`,
    `Authorization: Bearer ${key}`,
    'Content-Type: application/json',
    `Content-Length: ${body.length}`,
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
