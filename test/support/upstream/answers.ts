import { STATUS_CODES } from 'node:http'
import type { Script } from './steps.ts'

/** Header names to values, as they are written. */
export type Headers = Record<string, string>

/** Token counts as a provider reports them. Unknown fields pass, since providers add their own. */
export type Usage = Record<string, unknown>

/** A usage object: 10 tokens in and 5 out unless told. */
export function usage(prompt = 10, completion = 5, more: Usage = {}): Usage {
  return {
    prompt_tokens: prompt,
    completion_tokens: completion,
    total_tokens: prompt + completion,
    ...more,
  }
}

/** A response head. It says `connection: close` unless the headers say otherwise; `keep-alive` keeps the connection after the script. */
export function head(status: number, headers: Headers = {}): string {
  const fields = Object.entries({ connection: 'close', ...headers }).map(
    ([name, value]) => `${name}: ${value}\r\n`,
  )
  return `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? 'Unknown'}\r\n${fields.join('')}\r\n`
}

/** A whole response of any type, with a true content-length. */
export function body(
  type: string,
  text: string,
  { status = 200, headers = {} }: Answer = {},
): string {
  return (
    head(status, {
      'content-type': type,
      'content-length': String(Buffer.byteLength(text)),
      ...headers,
    }) + text
  )
}

/** What a whole response may say besides its body. */
export type Answer = { status?: number; headers?: Headers }

/** A whole JSON response. */
export function json(value: unknown, answer: Answer = {}): string {
  return body('application/json', JSON.stringify(value), answer)
}

/** A failure as OpenAI words it; `text` is the message, or the whole body when it is an object. */
export function status(
  code: number,
  text: string | object = `Upstream says ${code}`,
  headers: Headers = {},
): string {
  return json(typeof text === 'string' ? errorBody(code, text) : text, { status: code, headers })
}

/** An error object as OpenAI and its imitators send it. */
export function errorBody(code: number | string, message: string) {
  return { error: { message, type: 'server_error', param: null, code } }
}

const HEAD = { id: 'chatcmpl-upstream', created: 1_700_000_000, model: 'test-model' }

/** A whole `chat.completion` answer; `fields` replaces what it names. */
export function completion(
  text = 'Hello',
  fields: Record<string, unknown> = {},
  answer: Answer = {},
): string {
  const choices = [
    {
      index: 0,
      message: { role: 'assistant', content: text, refusal: null },
      logprobs: null,
      finish_reason: 'stop',
    },
  ]
  return json({ ...HEAD, object: 'chat.completion', choices, usage: usage(), ...fields }, answer)
}

/** The head of a chunked event stream. */
export function sseHead(headers: Headers = {}): string {
  return head(200, {
    'content-type': 'text/event-stream; charset=utf-8',
    'transfer-encoding': 'chunked',
    ...headers,
  })
}

/** One HTTP chunk with these bytes. */
export function chunk(bytes: string | Uint8Array): Buffer {
  const content = Buffer.from(bytes)
  return Buffer.concat([
    Buffer.from(`${content.length.toString(16)}\r\n`),
    content,
    Buffer.from('\r\n'),
  ])
}

/** The end of a chunked body. */
export function chunkedEnd(): string {
  return '0\r\n\r\n'
}

/** One `data:` event in one chunk. A string is sent as it is, anything else as JSON. */
export function event(data: unknown): Buffer {
  return chunk(eventText(data))
}

/** The text of one `data:` event, without the chunk around it. */
export function eventText(data: unknown): string {
  return `data: ${typeof data === 'string' ? data : JSON.stringify(data)}\n\n`
}

/** The object of one `chat.completion.chunk`; `fields` replaces what it names. */
export function chunkObject(fields: Record<string, unknown> = {}) {
  return { ...HEAD, object: 'chat.completion.chunk', choices: [] as unknown[], ...fields }
}

/** The object of a chunk that carries a delta: a text, or any delta object. */
export function deltaObject(
  delta: string | object,
  finish_reason: string | null = null,
  fields: Record<string, unknown> = {},
) {
  const content = typeof delta === 'string' ? { content: delta } : delta
  return chunkObject({
    choices: [{ index: 0, delta: content, logprobs: null, finish_reason }],
    ...fields,
  })
}

/** The event of one `chat.completion.chunk`; `fields` replaces what it names. */
export function chatChunk(fields: Record<string, unknown> = {}): Buffer {
  return event(chunkObject(fields))
}

/** The event of one delta: a text, or any delta object (`{ tool_calls }`, `{ reasoning }`). */
export function delta(content: string | object): Buffer {
  return event(deltaObject(content))
}

/** The event that gives the finish reason, with the usage in the same chunk when there is one. */
export function finish(reason = 'stop', counts?: Usage): Buffer {
  return event(deltaObject({}, reason, counts ? { usage: counts } : {}))
}

/** The event that gives only the usage, with no choices, as `stream_options.include_usage` asks for. */
export function usageChunk(counts: Usage = usage()): Buffer {
  return chatChunk({ usage: counts })
}

/** The event that ends a stream: `[DONE]`. */
export function done(): Buffer {
  return event('[DONE]')
}

/** A whole good stream that says the texts, one per delta. */
export function stream(texts: string[] = ['Hel', 'lo'], headers: Headers = {}): Script {
  return [
    sseHead(headers),
    delta({ role: 'assistant', content: '' }),
    ...texts.map(delta),
    ending(),
  ]
}

/** What ends a good stream: finish reason, usage, `[DONE]`, and the end of the body. */
export function ending(): Script {
  return [finish(), usageChunk(), done(), chunkedEnd()]
}
