import { describe, expect, spyOn, test } from 'bun:test'
import {
  MalformedResponse,
  type ResponseHead,
  ResponseParser,
  type ResponseSink,
} from '../../../src/network/http/exchange.ts'

/** Collects a parser's calls, in a form that does not depend on how the bytes were split. */
class Heard implements ResponseSink {
  readonly heads: ResponseHead[] = []
  readonly ends: boolean[] = []
  #body: Buffer[] = []

  onHead(head: ResponseHead) {
    this.heads.push(head)
  }

  onBytes(bytes: Uint8Array) {
    this.#body.push(Buffer.from(bytes))
  }

  onEnd(reusable: boolean) {
    this.ends.push(reusable)
  }

  get said() {
    const [head] = this.heads
    const headers = Object.fromEntries(head?.headers ?? [])
    return {
      heads: this.heads.length,
      status: head?.status,
      headers,
      body: Buffer.concat(this.#body).toString(),
      ends: this.ends,
    }
  }
}

interface Answer {
  wire: string
  status?: number
  headers: Record<string, string>
  body?: string
  reusable?: boolean
  /** The server closes after the last byte. */
  closes?: true
}

const OK = 'HTTP/1.1 200 OK\r\n'
const CHUNKED = `${OK}transfer-encoding: chunked\r\n\r\n`
const CHUNKED_HEADERS = { 'transfer-encoding': 'chunked' }

const ANSWERS: Record<string, Answer> = {
  'a body with a length': {
    wire: `${OK}Content-Length: 5\r\n\r\nhello`,
    headers: { 'content-length': '5' },
    body: 'hello',
  },
  'an empty body with a length': {
    wire: `${OK}content-length: 0\r\n\r\n`,
    headers: { 'content-length': '0' },
  },
  'the same length twice': {
    wire: `${OK}content-length: 2\r\nContent-Length:2\r\n\r\nhi`,
    headers: { 'content-length': '2' },
    body: 'hi',
  },
  'a body that contains line ends': {
    wire: `${OK}content-length: 6\r\n\r\n\r\n\r\n\r\n`,
    headers: { 'content-length': '6' },
    body: '\r\n\r\n\r\n',
  },
  chunks: {
    wire: `${CHUNKED}5\r\nhello\r\n1\r\n!\r\n0\r\n\r\n`,
    headers: CHUNKED_HEADERS,
    body: 'hello!',
  },
  'chunks with extensions': {
    wire: `${CHUNKED}5;a\r\nhello\r\n00002 ;b="c;d"\r\n\r\n\r\n0;last=1\r\n\r\n`,
    headers: CHUNKED_HEADERS,
    body: 'hello\r\n',
  },
  'chunks with a trailer': {
    wire: `${CHUNKED}a\r\n0123456789\r\n0\r\nx-checksum: 12\r\nx-other: 3\r\n\r\n`,
    headers: CHUNKED_HEADERS,
    body: '0123456789',
  },
  'chunks without content': { wire: `${CHUNKED}0\r\n\r\n`, headers: CHUNKED_HEADERS },
  'a coding in capitals': {
    wire: `${OK}Transfer-Encoding: Chunked\r\n\r\nA\r\n0123456789\r\n0\r\n\r\n`,
    headers: { 'transfer-encoding': 'Chunked' },
    body: '0123456789',
  },
  'a body until the close': {
    wire: `${OK}x: y\r\n\r\nall of it\r\n\r\n`,
    headers: { x: 'y' },
    body: 'all of it\r\n\r\n',
    reusable: false,
    closes: true,
  },
  'an empty body until the close': {
    wire: `${OK}\r\n`,
    headers: {},
    reusable: false,
    closes: true,
  },
  'a 204': { wire: 'HTTP/1.1 204 No Content\r\nx: y\r\n\r\n', status: 204, headers: { x: 'y' } },
  'a 304 with the length of the body that it omits': {
    wire: 'HTTP/1.1 304 Not Modified\r\ncontent-length: 10\r\n\r\n',
    status: 304,
    headers: { 'content-length': '10' },
  },
  'informational responses first': {
    wire:
      'HTTP/1.1 100 Continue\r\n\r\n' +
      'HTTP/1.1 103 Early Hints\r\ncontent-length: 9\r\nlink: x\r\n\r\n' +
      `${OK}content-length: 2\r\n\r\nok`,
    headers: { 'content-length': '2' },
    body: 'ok',
  },
  'a list in several headers': {
    wire: `${OK}Via: a\r\ncontent-length: 0\r\nvia:  b, c \r\nVIA:\td\r\n\r\n`,
    headers: { via: 'a, b, c, d', 'content-length': '0' },
  },
  'a value that is empty, with colons, or not ASCII': {
    wire: `${OK}empty:\r\ntime: 12:30:00\r\nname: caf\u00c3\u00a9\r\ncontent-length: 0\r\n\r\n`,
    headers: {
      empty: '',
      time: '12:30:00',
      name: 'caf\u00c3\u0083\u00c2\u00a9',
      'content-length': '0',
    },
  },
  'a status without a phrase': {
    wire: 'HTTP/1.1 503\r\ncontent-length: 0\r\n\r\n',
    status: 503,
    headers: { 'content-length': '0' },
  },
  'a close that is announced': {
    wire: `${OK}Connection: Close\r\ncontent-length: 2\r\n\r\nok`,
    headers: { connection: 'Close', 'content-length': '2' },
    body: 'ok',
    reusable: false,
  },
  'a close among other options': {
    wire:
      `${OK}connection: x-a\r\nconnection: close\r\n` +
      'transfer-encoding: chunked\r\n\r\n0\r\n\r\n',
    headers: { connection: 'x-a, close', ...CHUNKED_HEADERS },
    reusable: false,
  },
  'an HTTP/1.0 answer, whose connection ends with it': {
    wire: 'HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\nok',
    headers: { 'content-length': '2' },
    body: 'ok',
    reusable: false,
  },
  'an HTTP/1.0 answer that keeps its connection': {
    wire: 'HTTP/1.0 200 OK\r\nconnection: Keep-Alive\r\ncontent-length: 2\r\n\r\nok',
    headers: { connection: 'Keep-Alive', 'content-length': '2' },
    body: 'ok',
  },
}

const saidBy = ({ status = 200, headers, body = '', reusable = true }: Answer) => ({
  heads: 1,
  status,
  headers,
  body,
  ends: [reusable],
})

function hear(pieces: Buffer[], closes = false): Heard {
  const heard = new Heard()
  const parser = new ResponseParser(heard)
  for (const piece of pieces) parser.feed(piece)
  if (closes) parser.handleClose()
  return heard
}

function piecesOf(bytes: Buffer, size: number): Buffer[] {
  return Array.from({ length: Math.ceil(bytes.length / size) }, (_, i) =>
    bytes.subarray(i * size, (i + 1) * size),
  )
}

const cutAt = (bytes: Buffer, at: number) =>
  [bytes.subarray(0, at), bytes.subarray(at)].filter(piece => piece.length > 0)

const positions = (bytes: Buffer) => Array.from({ length: bytes.length + 1 }, (_, at) => at)

describe('an answer is the same wherever reads have split it:', () => {
  for (const [name, answer] of Object.entries(ANSWERS)) {
    const bytes = Buffer.from(answer.wire)

    test(`${name}, split once at every byte`, () => {
      for (const at of positions(bytes))
        expect(hear(cutAt(bytes, at), answer.closes).said).toEqual(saidBy(answer))
    })

    test(`${name}, in chunks of one to seven bytes`, () => {
      for (const size of [1, 2, 3, 4, 5, 6, 7])
        expect(hear(piecesOf(bytes, size), answer.closes).said).toEqual(saidBy(answer))
    })
  }
})

test('the answer does not change when the reader’s buffer is reused', () => {
  const heard = new Heard()
  const parser = new ResponseParser(heard)
  const buffer = Buffer.alloc(1)
  for (const byte of Buffer.from(ANSWERS['chunks with a trailer']?.wire ?? '')) {
    buffer[0] = byte
    parser.feed(buffer)
  }
  expect(heard.said.body).toBe('0123456789')
})

const LARGEST_HEAD = 64 * 1024
const filled = (size: number) => `${OK}content-length: 0\r\nx: `.padEnd(size, 'x')

test('a head of exactly 64 KiB is read', () => {
  const wire = Buffer.from(`${filled(LARGEST_HEAD)}\r\n\r\n`)
  for (const size of [wire.length, 1000, 4096])
    expect(hear(piecesOf(wire, size)).ends).toEqual([true])
})

const REFUSED: Record<string, string> = {
  'a length and chunks': `${OK}content-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n`,
  'chunks and a length': `${OK}transfer-encoding: chunked\r\ncontent-length: 0\r\n\r\n0\r\n\r\n`,
  'two lengths': `${OK}content-length: 5\r\ncontent-length: 6\r\n\r\nhello!`,
  'two lengths that are equal only as numbers': `${OK}content-length: 5\r\ncontent-length: 05\r\n\r\nhello`,
  'a list of lengths': `${OK}content-length: 5, 5\r\n\r\nhello`,
  'a negative length': `${OK}content-length: -1\r\n\r\n`,
  'a length with a sign': `${OK}content-length: +2\r\n\r\nok`,
  'a length in hexadecimal': `${OK}content-length: 0x2\r\n\r\nok`,
  'an empty length': `${OK}content-length:\r\n\r\n`,
  'a length that is too large': `${OK}content-length: 9999999999999999\r\n\r\nx`,
  'a length with white space that HTTP does not allow': `${OK}content-length: 2\v\r\n\r\nok`,
  'a header continued on the next line': `${OK}x: a\r\n b\r\ncontent-length: 0\r\n\r\n`,
  'a header continued after a tab': `${OK}x: a\r\n\tb: c\r\ncontent-length: 0\r\n\r\n`,
  'a space before the first header': `${OK} x: a\r\ncontent-length: 0\r\n\r\n`,
  'a space before the colon': `${OK}content-length : 0\r\n\r\n`,
  'a header without a name': `${OK}: a\r\ncontent-length: 0\r\n\r\n`,
  'a header without a colon': `${OK}nonsense\r\ncontent-length: 0\r\n\r\n`,
  'a name with a space': `${OK}content length: 0\r\n\r\n`,
  'a name that is not ASCII': `${OK}n\u00e9: 0\r\ncontent-length: 0\r\n\r\n`,
  'a bare line feed in a header': `${OK}x: a\ncontent-length: 5\r\ncontent-length: 0\r\n\r\n`,
  'a bare carriage return in a header': `${OK}x: a\rcontent-length: 5\r\ncontent-length: 0\r\n\r\n`,
  'a NUL in a header': `${OK}x: a\0b\r\ncontent-length: 0\r\n\r\n`,
  'a bare line feed in the status line': 'HTTP/1.1 200 OK\nx: y\r\ncontent-length: 0\r\n\r\n',
  'a status line without a status': 'HTTP/1.1 OK\r\n\r\n',
  'a status of two digits': 'HTTP/1.1 20 OK\r\n\r\n',
  'a status of four digits': 'HTTP/1.1 2000 OK\r\n\r\n',
  'a status outside of all classes': 'HTTP/1.1 600 Odd\r\n\r\n',
  'another version': 'HTTP/2.0 200 OK\r\n\r\n',
  'another protocol': 'SSH-2.0-OpenSSH_9.9\r\n\r\n',
  'an empty line before the status': `\r\n${OK}content-length: 0\r\n\r\n`,
  'an empty head': '\r\n\r\n',
  'a switch of protocols': 'HTTP/1.1 101 Switching Protocols\r\nupgrade: h2c\r\n\r\n',
  'a coding that resembles chunked': `${OK}transfer-encoding: xchunked\r\n\r\n0\r\n\r\n`,
  'a coding with white space that HTTP does not allow': `${OK}transfer-encoding: \vchunked\r\n\r\n0\r\n\r\n`,
  'a coding before the chunks': `${OK}transfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n`,
  'a coding after the chunks': `${OK}transfer-encoding: chunked\r\ntransfer-encoding: identity\r\n\r\n0\r\n\r\n`,
  'chunks twice': `${OK}transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n`,
  'an empty coding': `${OK}transfer-encoding:\r\n\r\n`,
  'chunks from HTTP/1.0': 'HTTP/1.0 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n',
  'a head past 64 KiB': `${filled(LARGEST_HEAD + 1)}\r\n\r\n`,
  'a head past 64 KiB that does not end': filled(LARGEST_HEAD + 64),
  'a chunk size that is too large': `${CHUNKED}fffffffffffff\r\n`,
  'a chunk size that is not a number': `${CHUNKED}xyz\r\n`,
  'a negative chunk size': `${CHUNKED}-1\r\n`,
  'a chunk size with a prefix': `${CHUNKED}0x5\r\nhello\r\n0\r\n\r\n`,
  'a chunk size with a space before': `${CHUNKED} 5\r\nhello\r\n0\r\n\r\n`,
  'a chunk without a size': `${CHUNKED}\r\nhello\r\n0\r\n\r\n`,
  'a chunk with an extension only': `${CHUNKED};a=b\r\nhello\r\n0\r\n\r\n`,
  'a chunk line that ends in a bare line feed': `${CHUNKED}5\nhello\r\n0\r\n\r\n`,
  'a bare line feed in an extension': `${CHUNKED}5;a\nhello\r\nhello\r\n0\r\n\r\n`,
  'a chunk line past 1 KiB': `${CHUNKED}5;${'a'.repeat(1024)}\r\nhello\r\n0\r\n\r\n`,
  'a chunk line that does not end': `${CHUNKED}5;${'a'.repeat(1100)}`,
  'a chunk longer than its size': `${CHUNKED}4\r\nhello\r\n0\r\n\r\n`,
  'a chunk shorter than its size': `${CHUNKED}6\r\nhello\r\n0\r\n\r\n`,
  'a chunk that ends in a bare line feed': `${CHUNKED}5\r\nhello\n0\r\n\r\n`,
  'a line of a trailer past 64 KiB': `${CHUNKED}0\r\nx: ${'x'.repeat(LARGEST_HEAD)}\r\n\r\n`,
}

describe('refuses', () => {
  for (const [name, wire] of Object.entries(REFUSED)) {
    test(name, () => {
      const bytes = Buffer.from(wire, 'latin1')
      for (const size of [bytes.length, 1000, ...(bytes.length < 2000 ? [1] : [])])
        expectRefused(piecesOf(bytes, size))
    })
  }

  test('an answer without a definite length, before its head is emitted', () => {
    for (const name of [
      'a length and chunks',
      'two lengths',
      'a coding that resembles chunked',
      'an empty length',
    ]) {
      const heard = new Heard()
      expect(() => new ResponseParser(heard).feed(Buffer.from(REFUSED[name] ?? ''))).toThrow(
        MalformedResponse,
      )
      expect(heard.heads).toEqual([])
    }
  })
})

function expectRefused(pieces: Buffer[]) {
  const heard = new Heard()
  const parser = new ResponseParser(heard)
  expect(() => {
    for (const piece of pieces) parser.feed(piece)
  }).toThrow(MalformedResponse)
  expect(heard.ends).toEqual([])
}

describe('an answer that is cut short is never complete:', () => {
  for (const [name, answer] of Object.entries(ANSWERS)) {
    const bytes = Buffer.from(answer.wire)
    // An answer that ends with the connection can be cut short only inside its head.
    const whole = answer.closes ? bytes.indexOf('\r\n\r\n') + 4 : bytes.length

    test(`${name}, closed after each byte but the last`, () => {
      for (let at = 0; at < whole; at++) expectCut(bytes.subarray(0, at))
    })
  }
})

function expectCut(bytes: Buffer) {
  const heard = new Heard()
  const parser = new ResponseParser(heard)
  if (bytes.length > 0) parser.feed(bytes)
  expect(() => parser.handleClose()).toThrow(MalformedResponse)
  expect(heard.ends).toEqual([])
}

describe('U-22 bytes after the end', () => {
  const kept = Object.entries(ANSWERS).filter(
    ([, { closes, reusable = true }]) => !closes && reusable,
  )
  const injected = Buffer.from(`${OK}content-length: 0\r\n\r\n`)

  for (const [name, answer] of kept) {
    const bytes = Buffer.from(answer.wire)

    test(`make the connection unfit for another answer, however they are split: ${name}`, () => {
      for (let at = 0; at < bytes.length; at++) {
        const { said } = hear(cutAt(Buffer.concat([bytes, injected]), at))
        expect(said).toEqual({ ...saidBy(answer), ends: [false] })
      }
    })

    test(`are refused in a separate read: ${name}`, () => {
      const heard = new Heard()
      const parser = new ResponseParser(heard)
      parser.feed(bytes)
      expect(() => parser.feed(injected)).toThrow(MalformedResponse)
      expect(heard.said).toEqual(saidBy(answer))
    })
  }

  test('are not caused by a close', () => {
    const heard = new Heard()
    const parser = new ResponseParser(heard)
    parser.feed(Buffer.from(ANSWERS['a body with a length']?.wire ?? ''))
    parser.handleClose()
    expect(heard.ends).toEqual([true])
  })
})

const MEBIBYTE = 1024 * 1024

describe('parsing takes linear time:', () => {
  const framings: [name: string, wireOf: (size: number) => Buffer, mebibytes: number][] = [
    [
      'of a length',
      size =>
        Buffer.concat([
          Buffer.from(`${OK}content-length: ${size}\r\n\r\n`),
          Buffer.alloc(size, 'x'),
        ]),
      16,
    ],
    ['in chunks of 16 KiB', size => chunked(size, 16 * 1024), 16],
    ['in chunks of 7 bytes', size => chunked(size, 7), 2],
    ['in one chunk', size => chunked(size, size), 16],
  ]
  for (const [name, wireOf, mebibytes] of framings) {
    test(`${mebibytes} MiB ${name}, in reads of 1 KiB`, () =>
      expectLinear(wireOf, 1024, mebibytes * MEBIBYTE))

    test(`${mebibytes} MiB ${name}, in reads of 64 KiB`, () =>
      expectLinear(wireOf, 64 * 1024, mebibytes * MEBIBYTE))

    test(`1 MiB ${name}, byte by byte`, () => expectLinear(wireOf, 1, MEBIBYTE))
  }
})

/** The rest of one read is prepended to the next. Only that is copied; parsed bytes never are. */
function expectLinear(wireOf: (size: number) => Buffer, read: number, size: number) {
  const wire = wireOf(size)
  expect(copiedFor(wire, read)).toBeLessThan(2 * wire.length + 64 * 1024)
}

/** Counts the bytes that the parser concatenates: its only work that could grow superlinearly. */
function copiedFor(wire: Buffer, read: number): number {
  let ends = 0
  const parser = new ResponseParser({
    onHead: () => undefined,
    onBytes: () => undefined,
    onEnd: () => ends++,
  })
  const concat = spyOn(Buffer, 'concat')
  try {
    for (let at = 0; at < wire.length; at += read) parser.feed(wire.subarray(at, at + read))
    expect(ends).toBe(1)
    return concat.mock.results.reduce((sum, { value }) => sum + (value as Buffer).length, 0)
  } finally {
    concat.mockRestore()
  }
}

function chunked(size: number, each: number): Buffer {
  const chunk = Buffer.concat([
    Buffer.from(`${each.toString(16)}\r\n`),
    Buffer.alloc(each, 'x'),
    Buffer.from('\r\n'),
  ])
  return Buffer.concat([
    Buffer.from(CHUNKED),
    ...Array<Buffer>(Math.ceil(size / each)).fill(chunk),
    Buffer.from('0\r\n\r\n'),
  ])
}

describe('a provider that floods', () => {
  const feedUntilRefused = (head: string, piece: string, most: number): number => {
    const parser = new ResponseParser(new Heard())
    parser.feed(Buffer.from(head))
    for (let fed = 0; fed < most; fed++)
      try {
        parser.feed(Buffer.from(piece))
      } catch (error) {
        expect(error).toBeInstanceOf(MalformedResponse)
        return fed
      }
    return most
  }

  test('with responses before the final one is refused after eight', () => {
    const interim = 'HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n'
    expect(feedUntilRefused('', interim, 100)).toBe(8)
  })

  test('with trailers is refused after 64 KiB, like a head', () => {
    const trailer = `x: ${'a'.repeat(995)}\r\n`
    expect(feedUntilRefused(`${CHUNKED}0\r\n`, trailer, 1_000)).toBe(65)
  })

  test('with chunks of one byte passes on one piece for each read', () => {
    let pieces = 0
    let size = 0
    const parser = new ResponseParser({
      onHead: () => undefined,
      onEnd: () => undefined,
      onBytes(bytes) {
        pieces += 1
        size += bytes.length
      },
    })
    parser.feed(Buffer.from(CHUNKED))
    for (let read = 0; read < 10; read++) parser.feed(Buffer.from('1\r\na\r\n'.repeat(10_000)))
    expect([pieces, size]).toEqual([10, 100_000])
  })
})
