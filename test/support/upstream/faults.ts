import { type AddressInfo, createServer } from 'node:net'
import {
  body,
  chunk,
  chunkedEnd,
  chunkObject,
  completion,
  delta,
  deltaObject,
  done,
  ending,
  errorBody,
  event,
  eventText,
  finish,
  head,
  json,
  sseHead,
  stream,
  usage,
  usageChunk,
} from './answers.ts'
import { renderBytes, type Script } from './steps.ts'

// Every stream below that has content sends "Hello", so that tests know what was delivered.
const hello = () => [sseHead(), delta('Hel'), delta('lo')]

// A reset overtakes unread bytes. A pause gives the reader time, or a gate lets the test decide.
const before = (gate?: string): Script => (gate === undefined ? { ms: 20 } : { wait: gate })

/** Returns a port without a listener: connections to it are refused. */
export async function refusedPort(): Promise<number> {
  const server = createServer()
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', () => resolve()))
  const { port } = server.address() as AddressInfo
  await new Promise(resolve => server.close(resolve))
  return port
}

/** Reads the request and never answers. */
export function silence(): Script {
  return { wait: 'never' }
}

/** Streams "Hello", then nothing more. */
export function silenceMidStream(): Script {
  return [hello(), silence()]
}

/** A proxy's or a captive portal's page instead of an answer. */
export function htmlError(code = 502): Script {
  return body(
    'text/html; charset=utf-8',
    `<!DOCTYPE html><html><body><h1>${code}</h1></body></html>`,
    { status: code },
  )
}

/** A stream whose body ends well, but without a finish reason and without `[DONE]`. */
export function truncatedStream(): Script {
  return [hello(), chunkedEnd()]
}

/**
 * A stream that is closed after the last chunk's size, before the blank line that ends the body.
 */
export function cutInsideTrailer(): Script {
  return [hello(), '0\r\n', { end: 'fin' }]
}

/** A stream that is closed in the middle of a chunk. */
export function cutInsideChunk(): Script {
  return [hello(), delta('lost').subarray(0, -10), { end: 'fin' }]
}

/** A stream with no framing, that just stops: the close is its only end. */
export function closeDelimited(): Script {
  return [
    head(200, { 'content-type': 'text/event-stream' }),
    eventText(deltaObject('Hel')),
    eventText(deltaObject('lo')),
    { end: 'fin' },
  ]
}

/** A stream that is reset after "Hello", when the gate opens or a moment later. */
export function resetMidStream(gate?: string): Script {
  return [hello(), before(gate), { end: 'rst' }]
}

/** The request is read and the connection reset, without a byte of answer. */
export function resetAtOnce(): Script {
  return { end: 'rst' }
}

/** A whole answer that promises 100 bytes more than it sends, then closes. */
export function shortContentLength(): Script {
  const text = JSON.stringify({ object: 'chat.completion', choices: [] })
  const headers = { 'content-length': String(text.length + 100) }
  return [body('application/json', text, { headers }), { end: 'fin' }]
}

/** A valid stream with everything in between that is not a chat chunk. */
export function garbageSse(): Script {
  const first = [
    '\0\0\0\n\n',
    ': a comment\n\n',
    'data: {not json\n\n',
    'retry: 5\nid: 7\n\n',
    'event: surprise\ndata: {"a":1}\n\n',
  ]
  const second = [
    'data: [1,2,3]\n\n',
    'data: "text"\n\n',
    'data: null\n\n',
    'data\n\n',
    'nonsense without a colon\n\n',
    'data: \0\n\n',
  ]
  return [sseHead(), first.map(chunk), delta('Hel'), second.map(chunk), delta('lo'), ending()]
}

/** A valid stream that starts with a byte order mark. */
export function bomSse(): Script {
  return [sseHead(), chunk('\uFEFF'), delta('Hel'), delta('lo'), ending()]
}

/** A valid stream whose lines end in CR LF, once with the pair split between two chunks. */
export function crlfSse(gate?: string): Script {
  const events = [
    deltaObject('Hel'),
    deltaObject('lo'),
    deltaObject({}, 'stop'),
    chunkObject({ usage: usage() }),
    '[DONE]',
  ]
  const [first = '', ...rest] = events.map(data => eventText(data).replaceAll('\n', '\r\n'))
  return [
    sseHead(),
    chunk(first.slice(0, -3)),
    before(gate),
    chunk(first.slice(-3)),
    rest.map(chunk),
    chunkedEnd(),
  ]
}

/** A valid stream of "Hello 🌍", with the globe's bytes split by a gate or a pause. */
export function splitUtf8(gate?: string): Script {
  const bytes = Buffer.from(eventText(deltaObject(' 🌍')))
  const middle = bytes.indexOf('🌍') + 2
  return [
    hello(),
    chunk(bytes.subarray(0, middle)),
    before(gate),
    chunk(bytes.subarray(middle)),
    ending(),
  ]
}

/** A stream with one event whose line has this many filler bytes. */
export function hugeLine(bytes: number): Script {
  const start = 'data: '
  return [
    hello(),
    `${(start.length + bytes).toString(16)}\r\n${start}`,
    { flood: bytes },
    '\r\n',
    chunkedEnd(),
  ]
}

/** A stream of "Hello", then an error event and the end of the body without `[DONE]`. */
export function midError(code: number | string = 503, message = 'The model fell over'): Script {
  return [hello(), event(errorBody(code, message)), chunkedEnd()]
}

/** A valid stream with its usage at the finish reason and again, larger, after it. */
export function usageTwice(): Script {
  return [hello(), finish('stop', usage(10, 5)), usageChunk(usage(10, 6)), done(), chunkedEnd()]
}

/** A valid stream without usage. */
export function noUsage(): Script {
  return [hello(), finish(), done(), chunkedEnd()]
}

/** An error in the body of a 200. */
export function errorInside200(code: number | string = 529, message = 'Overloaded'): Script {
  return json(errorBody(code, message))
}

/** A head that comes a byte at a time and never ends. */
export function headerDrip(ms = 50): Script {
  return ['HTTP/1.1 200 OK\r\n', { drip: `x-drip: ${'a'.repeat(100_000)}`, ms }, silence()]
}

/** A valid answer on a kept-alive connection, followed by an unrequested second answer. */
export function extraBytesAfterBody(): Script {
  const keep = { headers: { connection: 'keep-alive' } }
  return completion('Hello', {}, keep) + completion('injected', {}, keep)
}

/** A valid stream, one byte at a time. */
export function slowDrip(ms = 50): Script {
  return [sseHead(), { drip: renderBytes([delta('Hel'), delta('lo'), ending()]), ms }]
}

/** A complete valid stream in one write. */
export function inOneWrite(texts?: string[]): Script {
  return renderBytes(stream(texts))
}
