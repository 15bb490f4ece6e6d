import { STATUS_CODES } from 'node:http'
import type { Script } from './steps.ts'

/** Header names to values, as they are written. */
export type Headers = Record<string, string>

/** Token counts as a provider reports them. Unknown fields pass, since providers add their own. */
export type Usage = Record<string, unknown>

/** Builds a usage object: 10 input and 5 output tokens by default. */
export function usage(prompt = 10, completion = 5, more: Usage = {}): Usage {
  return {
    prompt_tokens: prompt,
    completion_tokens: completion,
    total_tokens: prompt + completion,
    ...more,
  }
}

/** Builds a response head with `connection: close`, unless the headers replace it. */
export function head(status: number, headers: Headers = {}): string {
  const fields = Object.entries({ connection: 'close', ...headers }).map(
    ([name, value]) => `${name}: ${value}\r\n`,
  )
  return `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? 'Unknown'}\r\n${fields.join('')}\r\n`
}

/** Builds a whole response of any type, with a correct content-length. */
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

/** The status and headers of a whole response. */
export type Answer = { status?: number; headers?: Headers }

/** Builds a whole JSON response. */
export function json(value: unknown, answer: Answer = {}): string {
  return body('application/json', JSON.stringify(value), answer)
}

/**
 * Builds an error in OpenAI's form. `text` is the message, or the whole body if it is an object.
 */
export function status(
  code: number,
  text: string | object = `Upstream says ${code}`,
  headers: Headers = {},
): string {
  return json(typeof text === 'string' ? errorBody(code, text) : text, { status: code, headers })
}

/** Builds an error object as OpenAI and its imitators send it. */
export function errorBody(code: number | string, message: string) {
  return { error: { message, type: 'server_error', param: null, code } }
}

const HEAD = { id: 'chatcmpl-upstream', created: 1_700_000_000, model: 'test-model' }

/** Builds a whole `chat.completion` answer, with `fields` applied. */
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

/** Builds the head of a chunked event stream. */
export function sseHead(headers: Headers = {}): string {
  return head(200, {
    'content-type': 'text/event-stream; charset=utf-8',
    'transfer-encoding': 'chunked',
    ...headers,
  })
}

/** Builds one HTTP chunk with these bytes. */
export function chunk(bytes: string | Uint8Array): Buffer {
  const content = Buffer.from(bytes)
  return Buffer.concat([
    Buffer.from(`${content.length.toString(16)}\r\n`),
    content,
    Buffer.from('\r\n'),
  ])
}

/** Builds the end of a chunked body. */
export function chunkedEnd(): string {
  return '0\r\n\r\n'
}

/** Builds one `data:` event in one chunk. A string is sent unchanged, anything else as JSON. */
export function event(data: unknown): Buffer {
  return chunk(eventText(data))
}

/** Builds the text of one `data:` event, without its chunk. */
export function eventText(data: unknown): string {
  return `data: ${typeof data === 'string' ? data : JSON.stringify(data)}\n\n`
}

/** Builds the object of one `chat.completion.chunk`, with `fields` applied. */
export function chunkObject(fields: Record<string, unknown> = {}) {
  return { ...HEAD, object: 'chat.completion.chunk', choices: [] as unknown[], ...fields }
}

/** Builds the object of a chunk with a delta: a text, or any delta object. */
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

/** Builds the event of one `chat.completion.chunk`, with `fields` applied. */
export function chatChunk(fields: Record<string, unknown> = {}): Buffer {
  return event(chunkObject(fields))
}

/** Builds the event of one delta: a text, or any delta object (`{ tool_calls }`). */
export function delta(content: string | object): Buffer {
  return event(deltaObject(content))
}

/** Builds the event with the finish reason, and with the usage if there is one. */
export function finish(reason = 'stop', counts?: Usage): Buffer {
  return event(deltaObject({}, reason, counts ? { usage: counts } : {}))
}

/** Builds the event with only the usage, as for `stream_options.include_usage`. */
export function usageChunk(counts: Usage = usage()): Buffer {
  return chatChunk({ usage: counts })
}

/** Builds the event that ends a stream: `[DONE]`. */
export function done(): Buffer {
  return event('[DONE]')
}

/** Builds a complete valid stream of the texts, one per delta. */
export function stream(texts: string[] = ['Hel', 'lo'], headers: Headers = {}): Script {
  return [
    sseHead(headers),
    delta({ role: 'assistant', content: '' }),
    ...texts.map(delta),
    ending(),
  ]
}

/** Builds the end of a valid stream: finish reason, usage, `[DONE]`, and the end of the body. */
export function ending(): Script {
  return [finish(), usageChunk(), done(), chunkedEnd()]
}
