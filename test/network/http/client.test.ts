import {
  afterAll,
  afterEach,
  beforeAll,
  beforeEach,
  describe,
  expect,
  jest,
  spyOn,
  test,
} from 'bun:test'
import { Readable } from 'node:stream'
import { createGzip, deflateSync, gzipSync, constants as zlib } from 'node:zlib'
import { toByteSource } from '../../../src/base/byte-source.ts'
import { Cancellation } from '../../../src/base/cancellation.ts'
import { GatewayError } from '../../../src/base/errors.ts'
import {
  ConnectionFailed,
  type HttpClient,
  type HttpRequest,
  openHttpClient,
} from '../../../src/network/egress.ts'
import { type IncomingResponse, MalformedResponse } from '../../../src/network/http/exchange.ts'
import { collectNow } from '../../support/collect.ts'
import { startFullListener } from '../../support/full-listener.ts'
import {
  body,
  chunk,
  chunkedEnd,
  type Headers,
  type Hit,
  head,
  refusedPort,
  type Script,
  silence,
  startUpstream,
  type Upstream,
} from '../../support/upstream.ts'
import { startRawServer, until } from './raw-server.ts'

const KIBIBYTE = 1024
const MEBIBYTE = 1024 * KIBIBYTE

let upstream: Upstream
let http: HttpClient

beforeEach(async () => {
  upstream = await startUpstream()
  http = openHttpClient({ connectMilliseconds: 600_000 })
})

afterEach(async () => {
  http.close()
  await upstream.close()
})

/** Sends a request, by default a small one to the upstream. */
async function ask(
  request: Partial<HttpRequest> = {},
  cancellation = new Cancellation(),
): Promise<IncomingResponse> {
  return http.send(
    { method: 'POST', url: upstream.url, headers: {}, body: '{}', ...request },
    cancellation,
  )
}

const textOf = async (incoming: IncomingResponse, largest = 64 * MEBIBYTE) =>
  incoming.text(largest, () => undefined)

async function said(request: Partial<HttpRequest> = {}): Promise<string> {
  return textOf(await ask(request))
}

/** A text answer whose connection stays open. */
const kept = (text: string, headers: Headers = {}) =>
  body('text/plain', text, { headers: { connection: 'keep-alive', ...headers } })

const connections = () => upstream.hits.map(hit => hit.connection)

const reasonTo = (message: string) => new GatewayError('timeout', message)

const REASON = reasonTo('The test has cancelled')

/** Returns the reason of a promise's rejection. */
async function rejection(promise: Promise<unknown>): Promise<unknown> {
  return promise.then(
    () => expect.unreachable('It was not rejected'),
    reason => reason,
  )
}

async function failureCode(promise: Promise<unknown>): Promise<string> {
  const failure = await rejection(promise)
  expect(failure).toBeInstanceOf(ConnectionFailed)
  return (failure as ConnectionFailed).code
}

// These connections expire while the other tests run.
let aged: Promise<{ age: number; again: number[] }[]>

beforeAll(() => {
  aged = Promise.all([ageOfIdle(), ageOfIdle({ address: '127.0.0.1', isRepeated: true })])
})

afterAll(() => aged)

/** Measures for how long an idle connection is kept, and counts connections before and after. */
async function ageOfIdle(more: Partial<HttpRequest> = {}) {
  await using idle = await startUpstream()
  idle.plan(kept('fine'))
  const other = openHttpClient({ connectMilliseconds: 5_000 })
  const send = () =>
    other.send(
      { method: 'POST', url: idle.url, headers: {}, body: '', ...more },
      new Cancellation(),
    )
  await textOf(await send())
  const since = performance.now()
  await idle.emptied()
  const age = performance.now() - since
  await textOf(await send())
  other.close()
  return { age, again: idle.hits.map(hit => hit.connection) }
}

describe('a request', () => {
  test('arrives unchanged, with its host and the length of its bytes', async () => {
    upstream.plan(kept('fine'))
    const headers = {
      'content-type': 'application/json',
      'x-empty': '',
      authorization: 'Bearer key',
    }
    expect(
      await said({
        url: `${upstream.url}/chat?a=b%20c#d`,
        headers,
        body: '{"name":"caf\u00e9 🌍"}',
      }),
    ).toBe('fine')
    const [hit] = upstream.hits
    expect(hit?.method).toBe('POST')
    expect(hit?.path).toBe('/v1/chat?a=b%20c')
    expect(hit?.json).toEqual({ name: 'caf\u00e9 🌍' })
    expect(hit?.headers).toEqual({
      host: new URL(upstream.url).host,
      ...headers,
      'content-length': '21',
    })
  })

  test('of 8 MiB arrives completely', async () => {
    upstream.answer(hit => kept(String(Bun.hash(hit.bytes))))
    const large = Array.from({ length: MEBIBYTE }, (_, i) => i.toString(36).padStart(8)).join('')
    expect(await said({ body: large })).toBe(String(Bun.hash(large)))
  })

  test.each(['a\r\nb: c', 'a\nb', 'a\rb', 'a\0b', '\r\n\r\nGET / HTTP/1.1'])(
    'with the header value %j is refused, and nothing is sent',
    async value => {
      expect(await rejection(ask({ headers: { x: value } }))).toBeInstanceOf(TypeError)
      upstream.plan(kept('fine'))
      expect(await said()).toBe('fine')
      expect(upstream.hits).toHaveLength(1)
    },
  )

  test.each(['nonsense', 'ftp://127.0.0.1/', 'file:///etc/hosts'])(
    'to %s is refused',
    async url => {
      expect(await rejection(ask({ url }))).toBeInstanceOf(TypeError)
    },
  )

  test('is sent once, also when its connection fails', async () => {
    upstream.plan(kept('first'), { end: 'rst' }, kept('third'))
    expect(await said()).toBe('first')
    expect(await failureCode(ask())).toBe('ECONNRESET')
    expect(upstream.hits).toHaveLength(2)
  })
})

describe('an answer', () => {
  test('of 8 MiB is read completely', async () => {
    const large = Array.from({ length: MEBIBYTE }, (_, i) => i.toString(36).padStart(8)).join('')
    upstream.plan(kept(large))
    expect(Bun.hash(await said())).toBe(Bun.hash(large))
  })

  test('is read as it arrives', async () => {
    upstream.plan([
      head(200, { 'transfer-encoding': 'chunked' }),
      chunk('one'),
      { wait: 'two' },
      chunk('two'),
      chunkedEnd(),
    ])
    const answer = await ask()
    expect(await pieceOf(answer)).toBe('one')
    upstream.open('two')
    expect(await pieceOf(answer)).toBe('two')
    expect(await answer.read()).toBeNull()
    expect(await answer.read()).toBeNull()
  })

  test('has its status and its headers by lower-case name', async () => {
    upstream.plan(head(429, { 'Retry-After': '7', 'content-length': '0' }))
    const answer = await ask()
    expect(answer.status).toBe(429)
    expect(answer.header('retry-after')).toBe('7')
    expect(answer.header('x-other')).toBeNull()
    expect(await textOf(answer)).toBe('')
  })

  test('X-25 that redirects is not followed', async () => {
    upstream.plan(head(307, { location: '/elsewhere', 'content-length': '0' }), kept('elsewhere'))
    const answer = await ask()
    expect([answer.status, answer.header('location')]).toEqual([307, '/elsewhere'])
    expect(upstream.hits).toHaveLength(1)
  })

  test('past the cap is refused, whole or streamed', async () => {
    upstream.plan(kept('x'.repeat(100)), [
      head(200, { 'transfer-encoding': 'chunked' }),
      chunk('x'.repeat(60)),
      { ms: 5 },
      chunk('x'.repeat(60)),
    ])
    for (const _ of [1, 2])
      expect(await rejection(ask().then(answer => textOf(answer, 99)))).toEqual(
        new Error('An answer that is too large'),
      )
  })

  test('loses a leading byte order mark, however it was split', async () => {
    const text = '\uFEFF{}'
    upstream.plan(kept(text), [
      head(200, { 'content-length': '5' }),
      Buffer.from(text).subarray(0, 1),
      { ms: 10 },
      Buffer.from(text).subarray(1),
    ])
    expect([await said(), await said()]).toEqual(['{}', '{}'])
  })

  test('that ends with the connection is complete then', async () => {
    upstream.plan([head(200), 'all', { ms: 5 }, ' of it', { end: 'fin' }])
    expect(await said()).toBe('all of it')
  })

  const CUT: [name: string, script: Script][] = [
    ['inside its head', ['HTTP/1.1 200 OK\r\ncontent-le', { end: 'fin' }]],
    ['inside its length', [head(200, { 'content-length': '9' }), 'half', { end: 'fin' }]],
    [
      'between chunks',
      [head(200, { 'transfer-encoding': 'chunked' }), chunk('half'), { end: 'fin' }],
    ],
    [
      'inside a chunk',
      [head(200, { 'transfer-encoding': 'chunked' }), '9\r\nhalf', { end: 'fin' }],
    ],
    [
      'inside its trailer',
      [
        head(200, { 'transfer-encoding': 'chunked' }),
        chunk('half'),
        '0\r\nx: y\r\n',
        { end: 'fin' },
      ],
    ],
    ['before its first byte', { end: 'fin' }],
  ]
  test.each(CUT)('cut %s is an error', async (_, script) => {
    upstream.plan(script)
    expect(await rejection(said())).toBeInstanceOf(MalformedResponse)
  })

  test('that is reset is an error, even if a close would complete it', async () => {
    upstream.plan([head(200), 'half', { wait: 'reset' }, { end: 'rst' }])
    const answer = await ask()
    expect(await pieceOf(answer)).toBe('half')
    upstream.open('reset')
    expect(await failureCode(answer.read())).toBe('ECONNRESET')
    expect(await failureCode(answer.read())).toBe('ECONNRESET')
  })

  test('that is not HTTP is refused', async () => {
    upstream.plan('SSH-2.0-OpenSSH_9.9\r\n\r\n')
    expect(await rejection(ask())).toBeInstanceOf(MalformedResponse)
  })
})

async function pieceOf(answer: IncomingResponse): Promise<string> {
  return Buffer.from((await answer.read()) ?? '').toString()
}

describe('a connection', () => {
  test('carries one request after the other', async () => {
    upstream.answer(hit => kept(hit.body))
    for (const text of ['one', 'two', 'three']) expect(await said({ body: text })).toBe(text)
    expect(connections()).toEqual([1, 1, 1])
  })

  test('carries a body in pieces, whole and in order, and the next one', async () => {
    upstream.answer(hit => kept(new Bun.SHA256().update(hit.body).digest('hex')))
    for (const size of [0, 1, 40_000, 700_000]) {
      const pieces = Array.from({ length: 30 }, (_, i) => Buffer.alloc(size, `piece ${i} é `))
      const expected = new Bun.SHA256().update(Buffer.concat(pieces)).digest('hex')
      expect(await said({ body: pieces })).toBe(expected)
    }
    expect(connections()).toEqual([1, 1, 1, 1])
  })

  test('carries what is read while it is sent, whole and in order, and the next one', async () => {
    upstream.answer(hit => kept(new Bun.SHA256().update(hit.body).digest('hex')))
    for (const size of [0, 1, 300_000, 3_000_000]) {
      const file = Buffer.alloc(size, 'a file of many words. ')
      const pieces = [Buffer.from('before '), toByteSource(file), Buffer.from(' after')]
      const expected = new Bun.SHA256().update(`before ${file} after`).digest('hex')
      expect(await said({ body: pieces })).toBe(expected)
    }
    expect(connections()).toEqual([1, 1, 1, 1])
  })

  test('fails, and is closed, where a file cannot be read or is shorter than it was', async () => {
    const read = async (position: number) => {
      if (position > 0) throw new Error('A disk that fails')
      return Buffer.from('half')
    }
    for (const source of [
      { size: 8, read },
      { size: 8, read: async (at: number) => Buffer.from('half').subarray(at) },
    ])
      expect(await rejection(ask({ body: [source] }))).toBeInstanceOf(Error)
    expect(upstream.hits).toEqual([])
    await upstream.emptied()
  })

  test('carries one request at a time', async () => {
    upstream.plan([{ wait: 'both' }, kept('fine')])
    const both = Promise.all([said(), said()])
    await upstream.hit(2)
    upstream.open('both')
    expect(await both).toEqual(['fine', 'fine'])
    expect(await said()).toBe('fine')
    expect(connections().slice(0, 2)).toEqual([1, 2])
    expect(upstream.live).toBe(2)
  })

  test('is kept after an error, an empty answer and chunks', async () => {
    const keep = { connection: 'keep-alive' }
    const chunks = [
      head(200, { ...keep, 'transfer-encoding': 'chunked' }),
      chunk('x'),
      '0\r\nx-trailer: y\r\n\r\n',
    ]
    upstream.plan(
      body('text/plain', 'no', { status: 500, headers: keep }),
      head(204, keep),
      chunks,
      kept('fine'),
    )
    expect([await said(), await said(), await said(), await said()]).toEqual([
      'no',
      '',
      'x',
      'fine',
    ])
    expect(connections()).toEqual([1, 1, 1, 1])
  })

  test('is closed when the answer says so, even if the server leaves it open', async () => {
    upstream.plan([body('text/plain', 'one'), silence()], kept('two'))
    expect(await said()).toBe('one')
    await (await upstream.hit()).clientLeft
    expect(await said()).toBe('two')
    expect(connections()).toEqual([1, 2])
  })

  test('U-22 with bytes after the answer is closed, and no other request gets them', async () => {
    upstream.plan([kept('one') + kept('injected'), silence()], kept('two'))
    expect(await said()).toBe('one')
    await (await upstream.hit()).clientLeft
    expect(await said()).toBe('two')
    expect(connections()).toEqual([1, 2])
  })

  test('U-22 that receives bytes while idle is closed, and no request gets them', async () => {
    upstream.plan([kept('one'), { wait: 'idle' }, kept('injected'), silence()], kept('two'))
    expect(await said()).toBe('one')
    upstream.open('idle')
    await (await upstream.hit()).clientLeft
    expect(await said()).toBe('two')
    expect(connections()).toEqual([1, 2])
  })

  test.each(['fin', 'rst'] as const)(
    'that the server closed while it was idle is not reused (%s)',
    async end => {
      upstream.plan([kept('one'), { wait: 'idle' }, { end }], kept('two'))
      expect(await said()).toBe('one')
      upstream.open('idle')
      await upstream.emptied()
      // The client notices the close in the next turn of the event loop.
      await Bun.sleep(20)
      expect(await said()).toBe('two')
      expect(connections()).toEqual([1, 2])
    },
  )

  test('U-23 whose peer is silent by now ends with its request, and the next has another', async () => {
    upstream.plan(kept('one'), silence(), kept('two'))
    expect(await said()).toBe('one')
    const cancellation = new Cancellation()
    const second = ask({}, cancellation)
    await until(() => upstream.hits.length === 2)
    cancellation.cancel(REASON)
    expect(await rejection(second)).toBe(REASON)
    expect(await said()).toBe('two')
    expect(connections()).toEqual([1, 1, 2])
  })

  test('U-24 that is reset as a request comes fails it, and the request is not sent again', async () => {
    upstream.plan(kept('one'), { end: 'rst' }, kept('two'))
    expect(await said()).toBe('one')
    expect(await failureCode(ask())).toBe('ECONNRESET')
    expect(connections()).toEqual([1, 1])
    expect(await said()).toBe('two')
    expect(connections()).toEqual([1, 1, 2])
  })

  test('is closed if the answer arrives before the whole request is sent', async () => {
    await using server = await startRawServer(socket => {
      socket.pause()
      socket.write(kept('early'))
    })
    expect(await said({ url: server.url, body: 'x'.repeat(64 * MEBIBYTE) })).toBe('early')
    expect(await said({ url: server.url })).toBe('early')
    expect(server.accepted).toBe(2)
  })

  test('is not shared between origins', async () => {
    await using other = await startUpstream()
    other.plan(kept('other'))
    upstream.plan(kept('one'))
    const sameHost = upstream.url.replace('127.0.0.1', 'localhost')
    expect([await said(), await said({ url: other.url }), await said({ url: sameHost })]).toEqual([
      'one',
      'other',
      'one',
    ])
    expect(connections()).toEqual([1, 2])
  })

  test('is closed with the client when it is idle', async () => {
    upstream.plan(kept('one'))
    await said()
    http.close()
    await upstream.emptied()
  })

  test('that becomes idle after the client was closed is closed too', async () => {
    upstream.plan(kept('one'), [{ wait: 'closed' }, kept('two'), silence()])
    expect(await said()).toBe('one')
    const answer = said()
    const hit = await upstream.hit(2)
    http.close()
    upstream.open('closed')
    expect(await answer).toBe('two')
    await hit.clientLeft
  })
})

describe('500 requests at once', () => {
  const texts = Array.from({ length: 500 }, (_, i) => `request ${i}`)
  const sayAll = (client: HttpClient) =>
    Promise.all(
      texts.map(async text =>
        textOf(
          await client.send(
            { method: 'POST', url: upstream.url, headers: {}, body: text },
            new Cancellation(),
          ),
        ),
      ),
    )

  test('each get their own answer, and the next 500 go over the same connections', async () => {
    upstream.answer(hit => [{ wait: 'all' }, kept(hit.body)])
    const answers = sayAll(http)
    await upstream.hit(500)
    upstream.open('all')
    expect(await answers).toEqual(texts)
    expect(new Set(connections()).size).toBe(500)
    expect(await sayAll(http)).toEqual(texts)
    expect(new Set(connections()).size).toBe(500)
  })

  test('leave no more idle connections than are kept in all', async () => {
    await using other = await startUpstream()
    const client = openHttpClient({ connectMilliseconds: 5_000, mostIdle: 100 })
    using set = spyOn(globalThis, 'setInterval')
    using cleared = spyOn(globalThis, 'clearInterval')
    upstream.answer(hit => [{ wait: 'all' }, kept(hit.body)])
    other.answer(() => kept('fine'))
    const answers = sayAll(client)
    await upstream.hit(500)
    upstream.open('all')
    expect(await answers).toEqual(texts)
    await until(() => upstream.live === 100)
    // They are looked after together; a slow machine may see all of them expire in between.
    const ended = new Set<unknown>(cleared.mock.calls.map(([one]) => one))
    const running = set.mock.results.filter(({ value }) => !ended.has(value))
    expect(running.length).toBeLessThanOrEqual(1)
    expect(set.mock.calls.length).toBeLessThan(10)
    // There is no place for a connection to another origin, and one more for each that is gone.
    const request = { method: 'POST', url: other.url, headers: {}, body: '' }
    await textOf(await client.send(request, new Cancellation()))
    await until(() => other.live === 0)
    expect(await sayAll(client)).toEqual(texts)
    await until(() => upstream.live === 100)
    client.close()
    await until(() => upstream.live === 0)
  })
})

describe('an unread answer', () => {
  const LARGE = 64 * MEBIBYTE
  // The kernel's buffers of both ends, and the client's own limit.
  const SOME = 24 * MEBIBYTE
  const flood = (end: Script = []): Script => [
    head(200, { 'content-length': String(LARGE) }),
    { flood: LARGE },
    end,
  ]

  test('is not taken from the server until it is read further', async () => {
    upstream.plan(flood())
    const answer = await ask()
    const first = (await answer.read())?.length ?? 0
    const hit = await upstream.hit()
    await standstill(hit)
    expect(hit.sent).toBeLessThan(SOME)
    expect(first + (await drained(answer))).toBe(LARGE)
  })

  test('stays in the server while a slow reader takes small chunks', async () => {
    const tiny = Buffer.from('1\r\nx\r\n'.repeat(10 * KIBIBYTE))
    const many = Array<Buffer>((LARGE / tiny.length) | 0).fill(tiny)
    upstream.plan([head(200, { 'transfer-encoding': 'chunked' }), many, chunkedEnd()])
    const answer = await ask()
    const hit = await upstream.hit()
    for (let i = 0; i < 20; i++) {
      await answer.read()
      await Bun.sleep(0)
    }
    await standstill(hit)
    expect(hit.sent).toBeLessThan(SOME)
  })

  test.skipIf(process.platform !== 'linux')(
    'of events waits in small pieces, and its connection is not used again (on Linux)',
    async () => {
      const events = { 'content-type': 'text/event-stream', connection: 'keep-alive' }
      const whole = [head(200, { ...events, 'content-length': String(16 * MEBIBYTE) })]
      upstream.plan([...whole, { flood: 16 * MEBIBYTE }], kept('next'))
      const answer = await ask()
      const hit = await upstream.hit()
      await standstill(hit)
      let read = 0
      const take = async () => {
        const size = (await answer.read())?.length ?? 0
        read += size
        return size
      }
      // What had come before the reader was known to be slow.
      while (read < 8 * MEBIBYTE) await take()
      for (let i = 0; i < 3; i++) {
        await standstill(hit)
        expect(await take()).toBeLessThan(160 * KIBIBYTE)
      }
      expect(read + (await drained(answer))).toBe(16 * MEBIBYTE)
      expect(await said()).toBe('next')
      expect(new Set(connections()).size).toBe(2)
    },
  )

  test('can still be read when the server has closed', async () => {
    const size = 2 * MEBIBYTE
    upstream.plan([head(200), { flood: size }, { end: 'fin' }])
    const answer = await ask()
    await standstill(await upstream.hit())
    expect(await drained(answer)).toBe(size)
  })

  test('is dropped with its connection when it is cancelled', async () => {
    upstream.plan(flood())
    const cancellation = new Cancellation()
    await ask({}, cancellation)
    const hit = await upstream.hit()
    await standstill(hit)
    cancellation.cancel(REASON)
    await hit.clientLeft
  })
})

/** Waits until the server can send no more bytes. */
async function standstill(hit: Hit): Promise<void> {
  for (let before = -1; before < hit.sent; ) {
    before = hit.sent
    await Bun.sleep(100)
  }
}

async function drained(answer: IncomingResponse): Promise<number> {
  let size = 0
  for (let bytes = await answer.read(); bytes; bytes = await answer.read()) size += bytes.length
  return size
}

describe('cancelled', () => {
  let cancellation: Cancellation

  beforeEach(() => {
    cancellation = new Cancellation()
  })

  test('before it is sent, a request is not sent', async () => {
    cancellation.cancel(REASON)
    expect(await rejection(ask({}, cancellation))).toBe(REASON)
    upstream.plan(kept('next'))
    expect(await said()).toBe('next')
    expect(connections()).toEqual([1])
  })

  test('while it connects, a request is not sent', async () => {
    await using server = await startRawServer(() => undefined)
    const answer = ask({ url: server.url }, cancellation)
    cancellation.cancel(REASON)
    expect(await rejection(answer)).toBe(REASON)
    await until(() => server.accepted === 1 && server.open === 0)
    expect(server.received).toBe('')
  })

  test('during the TLS handshake, a request closes its connection at once', async () => {
    await using server = await startRawServer(() => undefined)
    const answer = ask({ url: `https://localhost:${server.port}/` }, cancellation)
    await until(() => server.received !== '')
    cancellation.cancel(REASON)
    expect(await rejection(answer)).toBe(REASON)
    await until(() => server.open === 0)
  })

  test('while it is sent, a request closes its connection', async () => {
    await using server = await startRawServer(socket => {
      socket.once('data', () => {
        socket.pause()
        cancellation.cancel(REASON)
        setImmediate(() => socket.resume())
      })
    })
    const large = 'x'.repeat(64 * MEBIBYTE)
    expect(await rejection(ask({ url: server.url, body: large }, cancellation))).toBe(REASON)
    await until(() => server.open === 0)
    expect(server.received.length).toBeLessThan(large.length)
  })

  test('before the head, an answer is rejected and its connection closed', async () => {
    upstream.plan(silence())
    const answer = ask({}, cancellation)
    const hit = await upstream.hit()
    cancellation.cancel(REASON)
    expect(await rejection(answer)).toBe(REASON)
    await hit.clientLeft
  })

  const half = (): Script => [head(200, { 'content-length': '10' }), 'hello', silence()]

  test('in the middle, a pending read is rejected and the connection closed', async () => {
    upstream.plan(half())
    const answer = await ask({}, cancellation)
    expect(await pieceOf(answer)).toBe('hello')
    const rest = rejection(answer.read())
    cancellation.cancel(REASON)
    expect(await rest).toBe(REASON)
    await (await upstream.hit()).clientLeft
  })

  test('in the middle, the next read is rejected and the connection closed', async () => {
    upstream.plan(half())
    const answer = await ask({}, cancellation)
    expect(await pieceOf(answer)).toBe('hello')
    cancellation.cancel(REASON)
    expect(await rejection(answer.read())).toBe(REASON)
    expect(await rejection(textOf(answer))).toBe(REASON)
    await (await upstream.hit()).clientLeft
  })

  test('in the middle, a pending text is rejected and the connection closed', async () => {
    upstream.plan(half())
    const answer = await ask({}, cancellation)
    const text = rejection(textOf(answer))
    cancellation.cancel(REASON)
    expect(await text).toBe(REASON)
    await (await upstream.hit()).clientLeft
  })

  test('in the middle, a compressed answer is rejected and the connection closed', async () => {
    const packed = gzipSync('hello')
    upstream.plan([
      head(200, { 'content-length': '1000', 'content-encoding': 'gzip' }),
      packed.subarray(0, 10),
      silence(),
    ])
    const answer = await ask({}, cancellation)
    const read = rejection(answer.read())
    cancellation.cancel(REASON)
    expect(await read).toBe(REASON)
    await (await upstream.hit()).clientLeft
  })

  test('twice, a request is rejected with the first reason', async () => {
    upstream.plan(silence())
    const answer = ask({}, cancellation)
    await upstream.hit()
    cancellation.cancel(REASON)
    cancellation.cancel(reasonTo('Too late'))
    expect(await rejection(answer)).toBe(REASON)
  })

  test('after the end, an answer stays complete and its connection is kept', async () => {
    upstream.plan(kept('whole'), [{ wait: 'cancelled' }, kept('next')])
    const answer = await ask({}, cancellation)
    const next = said()
    await upstream.hit(2)
    cancellation.cancel(REASON)
    upstream.open('cancelled')
    expect([await textOf(answer), await next]).toEqual(['whole', 'next'])
    expect(connections()).toEqual([1, 1])
  })
})

describe('a host', () => {
  test.skipIf(process.platform !== 'linux')(
    'U-09 that drops requests for connections is given up in time',
    async () => {
      using full = await startFullListener()
      const hasty = openHttpClient({ connectMilliseconds: 50 })
      const request = { method: 'POST', url: full.url, headers: {}, body: '' }
      expect(await failureCode(hasty.send(request, new Cancellation()))).toBe('ETIMEDOUT')
      hasty.close()
    },
  )

  test('U-25 that is silent for an hour and then answers is waited for', async () => {
    upstream.plan([{ wait: 'an hour' }, kept('late')])
    const late = said()
    await until(() => upstream.hits.length === 1)
    jest.useFakeTimers()
    jest.advanceTimersByTime(3_600_000)
    jest.useRealTimers()
    upstream.open('an hour')
    expect(await late).toBe('late')
  })

  test('that refuses the connection is an error with the platform’s code', async () => {
    expect(await failureCode(ask({ url: `http://127.0.0.1:${await refusedPort()}/` }))).toBe(
      'ECONNREFUSED',
    )
  })

  test('that does not exist is an error with the platform’s code', async () => {
    expect(await failureCode(ask({ url: 'http://nobody.invalid/' }))).toBe('ENOTFOUND')
  })

  test('that resets the connection at once is an error with the platform’s code', async () => {
    await using server = await startRawServer(socket => socket.resetAndDestroy())
    // The code depends on which side is faster.
    expect(['ECONNRESET', 'EPIPE']).toContain(await failureCode(ask({ url: server.url })))
  })

  test('that never answers the TLS handshake times out, and its connection is closed', async () => {
    await using server = await startRawServer(() => undefined)
    const hasty = openHttpClient({ connectMilliseconds: 50 })
    const request = {
      method: 'POST',
      url: `https://localhost:${server.port}/`,
      headers: {},
      body: '',
    }
    expect(await failureCode(hasty.send(request, new Cancellation()))).toBe('ETIMEDOUT')
    await until(() => server.accepted === 1 && server.open === 0)
    expect(server.received).not.toContain('POST')
  })

  test('that does not speak TLS is an error', async () => {
    upstream.plan(kept('plain'))
    await using server = await startRawServer(socket => socket.write(kept('plain')))
    const failure = await rejection(ask({ url: `https://localhost:${server.port}/` }))
    expect(failure).toBeInstanceOf(ConnectionFailed)
    expect(server.received).not.toContain('POST')
  })

  test('that failed is tried again by the next request', async () => {
    upstream.plan({ end: 'rst' }, kept('fine'))
    expect(await failureCode(ask())).toBe('ECONNRESET')
    expect(await said()).toBe('fine')
  })
})

describe('U-21 a compressed answer', () => {
  const TEXT = 'Hello 🌍 '.repeat(1_000)
  const CODINGS: [coding: string, packed: Uint8Array][] = [
    ['gzip', gzipSync(TEXT)],
    ['x-gzip', gzipSync(TEXT)],
    ['GZip', gzipSync(TEXT)],
    ['deflate', deflateSync(TEXT)],
    ['identity', Buffer.from(TEXT)],
    ['Identity', Buffer.from(TEXT)],
  ]

  test.each(CODINGS)('is decompressed: %s', async (coding, packed) => {
    const headers = { connection: 'keep-alive', 'content-encoding': coding }
    const whole = [head(200, { ...headers, 'content-length': String(packed.length) }), packed]
    const bytewise = [...packed].map(byte => chunk(Uint8Array.of(byte)))
    upstream.plan(
      whole,
      [head(200, { ...headers, 'transfer-encoding': 'chunked' }), bytewise, chunkedEnd()],
      whole,
    )
    for (const _ of [1, 2, 3]) expect((await said()) === TEXT).toBe(true)
    expect(connections()).toEqual([1, 1, 1])
  })

  test('is decompressed as it arrives', async () => {
    const [one, two] = await packedInTwo('one', 'two')
    upstream.plan([
      head(200, { 'transfer-encoding': 'chunked', 'content-encoding': 'gzip' }),
      chunk(one),
      { wait: 'two' },
      chunk(two),
      chunkedEnd(),
    ])
    const answer = await ask()
    expect(await pieceOf(answer)).toBe('one')
    upstream.open('two')
    expect(await pieceOf(answer)).toBe('two')
    expect(await answer.read()).toBeNull()
  })

  test('keeps its status and its headers', async () => {
    upstream.plan(gzipped(gzipSync('no'), 500))
    const answer = await ask()
    expect([answer.status, answer.header('content-type'), await textOf(answer)]).toEqual([
      500,
      'text/plain',
      'no',
    ])
  })

  test.each(['br', 'gzip, br', 'rot13', ''])(
    'with an unknown coding is refused, and its connection closed: %j',
    async coding => {
      upstream.plan([kept('x', { 'content-encoding': coding }).slice(0, -1), silence()])
      expect(await rejection(ask())).toBeInstanceOf(Error)
      await (await upstream.hit()).clientLeft
    },
  )

  test('that ends within its coding is an error', async () => {
    upstream.plan(gzipped(gzipSync(TEXT).subarray(0, -12)))
    expect(await rejection(said())).toBeInstanceOf(Error)
  })

  test('that is not compressed at all is an error', async () => {
    upstream.plan(gzipped(Buffer.from('not packed')))
    expect(await rejection(said())).toBeInstanceOf(Error)
  })

  test('whose connection breaks is an error', async () => {
    const packed = gzipSync(TEXT)
    upstream.plan([
      head(200, { 'content-encoding': 'gzip', 'content-length': String(packed.length) }),
      packed.subarray(0, -4),
      { end: 'fin' },
    ])
    expect(await rejection(said())).toBeInstanceOf(MalformedResponse)
  })

  test('that grows to 200 MiB stops at the cap', async () => {
    const bomb = await bombOf(200)
    upstream.plan(gzipped(bomb))
    collectNow()
    const before = process.memoryUsage.rss()
    let seen = 0
    let largest = 0
    const answer = await ask()
    const text = answer.text(MEBIBYTE, () => {
      seen += 1
      largest = Math.max(largest, process.memoryUsage.rss() - before)
    })
    expect(await rejection(Promise.resolve(text))).toEqual(new Error('An answer that is too large'))
    expect(seen).toBeGreaterThan(0)
    await Bun.sleep(50)
    expect(Math.max(largest, process.memoryUsage.rss() - before)).toBeLessThan(64 * MEBIBYTE)
  })
})

const gzipped = (packed: Uint8Array, status = 200): Script => [
  head(status, {
    'content-type': 'text/plain',
    'content-encoding': 'gzip',
    'content-length': String(packed.length),
  }),
  packed,
]

/** Compresses so many MiB of zeros without holding them in memory. */
async function bombOf(mebibytes: number): Promise<Buffer> {
  const gzip = createGzip()
  const nothing = Buffer.alloc(MEBIBYTE)
  Readable.from(Array<Buffer>(mebibytes).fill(nothing)).pipe(gzip)
  return Buffer.concat(await gzip.toArray())
}

/** Compresses two texts as one stream; each is readable as soon as its part has arrived. */
async function packedInTwo(first: string, second: string): Promise<[Buffer, Buffer]> {
  const gzip = createGzip()
  const parts: Buffer[] = []
  gzip.on('data', part => parts.push(part))
  gzip.write(first)
  await new Promise<void>(resolve => gzip.flush(zlib.Z_SYNC_FLUSH, resolve))
  const one = Buffer.concat(parts.splice(0))
  await new Promise<void>(resolve => gzip.end(second, resolve))
  await until(() => parts.length > 0)
  return [one, Buffer.concat(parts)]
}

test('X-28 the environment’s proxies are not used', async () => {
  upstream.plan(kept('direct'))
  const proxy = `http://127.0.0.1:${await refusedPort()}`
  const names = ['HTTP_PROXY', 'HTTPS_PROXY', 'ALL_PROXY'].flatMap(name => [
    name,
    name.toLowerCase(),
  ])
  const env = {
    ...process.env,
    ...Object.fromEntries(names.map(name => [name, proxy])),
    NO_PROXY: '',
    no_proxy: '',
  }
  const asking = Bun.spawn([process.execPath, '-e', ASKING], {
    env: { ...env, TARGET: upstream.url },
    cwd: import.meta.dir,
  })
  expect(await new Response(asking.stdout).text()).toBe('direct')
})

const CORE = `${import.meta.dir}/../../../src`

const ASKING = `
  const { openHttpClient } = await import('${CORE}/network/egress.ts')
  const { Cancellation } = await import('${CORE}/base/cancellation.ts')
  const http = openHttpClient({ connectMilliseconds: 1000 })
  const request = { method: 'POST', url: process.env.TARGET, headers: {}, body: '' }
  const answer = await http.send(request, new Cancellation())
  process.stdout.write(await answer.text(1000, () => undefined))
  http.close()
`

describe('an idle connection', () => {
  const LONGEST_IDLE = 4_000

  test('is closed after four seconds, at an address too', async () => {
    for (const { age, again } of await aged) {
      expect(age).toBeGreaterThan(LONGEST_IDLE - 50)
      expect(again).toEqual([1, 2])
    }
  })
})

describe('a request to an address', () => {
  const at = (address: string, more: Partial<HttpRequest> = {}) =>
    ask({ url: upstream.url.replace('127.0.0.1', 'nowhere.invalid'), address, ...more })

  test('goes there without resolving the host, and still sends the host’s name', async () => {
    upstream.plan(kept('there'))
    expect(await textOf(await at('127.0.0.1'))).toBe('there')
    expect(upstream.hits[0]?.headers.host).toBe(`nowhere.invalid:${new URL(upstream.url).port}`)
  })

  test('has a connection of its own, which no other request uses', async () => {
    upstream.plan(kept('fine'))
    await said()
    await textOf(await at('127.0.0.1', { url: upstream.url }))
    await textOf(await at('127.0.0.1', { url: upstream.url }))
    await said()
    expect(connections()).toEqual([1, 2, 3, 1])
    await until(() => upstream.live === 1)
  })

  test('that is repeated has the connection of the last one to the same host there', async () => {
    upstream.plan(kept('fine'))
    const ask = (more: Partial<HttpRequest> = {}) =>
      at('127.0.0.1', { isRepeated: true, ...more }).then(textOf)
    await ask()
    await ask()
    // Neither another host at the address, nor a request without one, nor one of its own.
    await ask({ url: upstream.url.replace('127.0.0.1', 'elsewhere.invalid') })
    await said()
    await ask({ isRepeated: false })
    await ask()
    expect(connections()).toEqual([1, 1, 2, 3, 4, 1])
  })

  test('that is repeated at another address has another connection', async () => {
    upstream.plan(kept('fine'))
    await textOf(await at('127.0.0.1', { isRepeated: true }))
    const failed = await failureCode(at('127.0.0.2', { isRepeated: true }))
    await textOf(await at('127.0.0.1', { isRepeated: true }))
    expect([failed, ...connections()]).toEqual(['ECONNREFUSED', 1, 1])
  })

  test('leaves half of the idle connections to those without one', async () => {
    upstream.plan(kept('fine'))
    const client = openHttpClient({ connectMilliseconds: 5_000, mostIdle: 2 })
    const send = (more: Partial<HttpRequest> = {}) =>
      client
        .send(
          { method: 'POST', url: upstream.url, headers: {}, body: '', ...more },
          new Cancellation(),
        )
        .then(textOf)
    const repeat = (host: string) =>
      send({
        url: upstream.url.replace('127.0.0.1', host),
        ...{ address: '127.0.0.1', isRepeated: true },
      })
    await repeat('one.invalid')
    await repeat('two.invalid')
    await send()
    await send()
    await repeat('one.invalid')
    expect(connections()).toEqual([1, 2, 3, 3, 1])
    client.close()
    await until(() => upstream.live === 0)
  })

  test('that is a GET sends no length', async () => {
    upstream.plan(kept('fine'))
    await textOf(await at('127.0.0.1', { method: 'GET', body: '' }))
    expect(upstream.hits[0]).toMatchObject({ method: 'GET', body: '' })
    expect(upstream.hits[0]?.headers).not.toHaveProperty('content-length')
  })

  test('where nothing listens fails', async () => {
    const port = await refusedPort()
    expect(
      await failureCode(ask({ url: `http://nowhere.invalid:${port}/`, address: '127.0.0.1' })),
    ).toBe('ECONNREFUSED')
  })
})
