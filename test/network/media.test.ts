import { afterEach, beforeEach, describe, expect, test } from 'bun:test'
import { gzipSync } from 'node:zlib'
import type { Gateway } from '../../src/app/gateway.ts'
import { Cancellation } from '../../src/base/cancellation.ts'
import { GatewayError } from '../../src/base/errors.ts'
import { fetchMedia, type MediaRequest } from '../../src/network/media.ts'
import { testGateway } from '../support/gateway.ts'
import {
  chunk,
  chunkedEnd,
  head,
  refusedPort,
  type Script,
  silence,
  startUpstream,
  type Upstream,
} from '../support/upstream.ts'

const PNG = Buffer.from(
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg==',
  'base64',
)
const GIF = Buffer.from('R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7', 'base64')

let upstream: Upstream
let gateway: Gateway
/** The resolver's queries, and its answer: this machine, unless a test replaces it. */
let asked: string[]
let address: (host: string) => string

beforeEach(async () => {
  upstream = await startUpstream()
  asked = []
  address = () => '127.0.0.1'
  gateway = await gatewayWith(['pictures.test'])
})

afterEach(async () => {
  await gateway.close()
  await upstream.close()
})

const gatewayWith = (allow_private_urls: string[]) =>
  testGateway({
    config: { security: { allow_private_urls, allow_url_ports: [1, Number(portOf())] } },
    resolve: async host => {
      asked.push(host)
      return [address(host)]
    },
  })

const portOf = () => new URL(upstream.url).port
const urlOf = (path = '/a', host = 'pictures.test') => `http://${host}:${portOf()}${path}`

const fetched = (url = urlOf(), wanted: Partial<MediaRequest> = {}) =>
  fetchMedia(gateway, url, { kind: 'image', field: 'messages.0.content.1', ...wanted })

async function failureOf(promise: Promise<unknown>): Promise<GatewayError> {
  const failure = await promise.then(
    () => expect.unreachable('It did not fail'),
    thrown => thrown,
  )
  expect(failure).toBeInstanceOf(GatewayError)
  return failure as GatewayError
}

/** Returns a whole answer with these bytes. */
const answer = (
  bytes: Uint8Array | string,
  type = 'application/octet-stream',
  status = 200,
): Script => [
  head(status, { 'content-type': type, 'content-length': String(Buffer.byteLength(bytes)) }),
  bytes,
]

const redirect = (location: string, status = 302): Script =>
  head(status, { location, 'content-length': '0' })

describe('fetchMedia', () => {
  test('returns the bytes in base64, and their media type', async () => {
    upstream.plan(answer(PNG))
    expect(await fetched()).toEqual({ media_type: 'image/png', data: PNG.toString('base64') })
  })

  test('sends a GET without a body or any credential', async () => {
    upstream.plan(answer(PNG))
    await fetched(urlOf('/a%20b?c=d'))
    const hit = await upstream.hit()
    expect(hit).toMatchObject({ method: 'GET', path: '/a%20b?c=d', body: '' })
    expect(hit.headers).toEqual({
      host: `pictures.test:${portOf()}`,
      accept: '*/*',
      'accept-encoding': 'identity',
      'user-agent': 'gateway',
      connection: 'close',
    })
  })

  test('connects to the checked address, without resolving the host again', async () => {
    const answers = ['127.0.0.1', '10.1.1.1']
    address = () => answers.shift() ?? '10.1.1.1'
    upstream.plan(answer(PNG))
    await fetched()
    expect(asked).toEqual(['pictures.test'])
    expect(upstream.hits).toHaveLength(1)
  })

  test('detects the type from the bytes, whatever the server or the name says', async () => {
    upstream.plan(answer(GIF, 'image/png'))
    expect((await fetched(urlOf('/a.jpeg'))).media_type).toBe('image/gif')
  })

  test('detects the other kinds by their bytes, too', async () => {
    const wav = Buffer.concat([
      Buffer.from('RIFF\x24\0\0\0WAVEfmt \x10\0\0\0', 'latin1'),
      Buffer.alloc(100),
    ])
    const webm = Buffer.concat([
      Buffer.from('1a45dfa39f4286810142f7810142f2810442f381084282847765626d', 'hex'),
      Buffer.alloc(100),
    ])
    const pdf = Buffer.from('%PDF-1.7\n%EOF\n')
    const cases: [MediaRequest['kind'], Buffer, string][] = [
      ['audio', wav, 'audio/wav'],
      ['video', webm, 'video/webm'],
      ['file', pdf, 'application/pdf'],
      ['file', Buffer.from('plain words, é'), 'text/plain'],
      ['file', PNG, 'image/png'],
    ]
    for (const [kind, bytes, type] of cases) {
      upstream.plan(answer(bytes))
      expect(await fetched(urlOf(), { kind })).toEqual({
        media_type: type,
        data: bytes.toString('base64'),
      })
    }
  })

  test('an animated PNG is a PNG', async () => {
    const moving = Buffer.concat([
      PNG.subarray(0, 33),
      Buffer.from('0000000861635441', 'hex'),
      Buffer.from('4c', 'hex'),
      Buffer.alloc(20),
    ])
    upstream.plan(answer(moving))
    expect((await fetched()).media_type).toBe('image/png')
  })

  test('decompresses an answer that is compressed unasked', async () => {
    const packed = gzipSync(PNG)
    upstream.plan([
      head(200, { 'content-encoding': 'gzip', 'content-length': String(packed.length) }),
      packed,
    ])
    expect((await fetched()).data).toBe(PNG.toString('base64'))
  })

  test('leaves no connection open, whatever the outcome', async () => {
    const endings: Script[] = [
      [head(200, { connection: 'keep-alive', 'content-length': String(PNG.length) }), PNG],
      [head(404, { connection: 'keep-alive', 'content-length': '9' }), silence()],
      [
        head(302, { connection: 'keep-alive', location: 'ftp://x', 'content-length': '9' }),
        silence(),
      ],
      [head(200, { 'transfer-encoding': 'chunked' }), chunk('x'.repeat(200)), silence()],
    ]
    for (const ending of endings) {
      upstream.plan(ending)
      await fetched(urlOf(), { maxBytes: 100 }).catch(() => undefined)
      await upstream.emptied()
    }
    expect(upstream.hits).toHaveLength(4)
  })
})

describe('X-25 a redirect', () => {
  test.each([301, 302, 303, 307, 308])('with status %p is followed', async status => {
    upstream.plan(redirect('/b?c', status), answer(PNG))
    expect((await fetched()).media_type).toBe('image/png')
    expect(upstream.hits.map(hit => hit.path)).toEqual(['/a', '/b?c'])
  })

  test('is followed at most three times', async () => {
    upstream.plan(redirect('/1'), redirect('/2'), redirect('/3'), answer(PNG))
    expect((await fetched()).media_type).toBe('image/png')
    upstream.plan(redirect('/again'))
    expect(await failureOf(fetched())).toMatchObject({ type: 'image_download_failed' })
    expect(upstream.hits).toHaveLength(4 + 4)
  })

  test.each([
    () => `http://127.0.0.1:${portOf()}/secret`,
    () => `http://[::ffff:127.0.0.1]:${portOf()}/secret`,
    () => `http://2130706433:${portOf()}/secret`,
    () => `//localhost:${portOf()}/secret`,
    () => 'http://169.254.169.254/latest/meta-data',
    () => 'file:///etc/passwd',
    () => `http://user:word@pictures.test:${portOf()}/secret`,
  ])('to a forbidden URL is not followed: %p', async location => {
    upstream.plan(redirect(location()), answer(PNG))
    expect(await failureOf(fetched())).toMatchObject({
      type: 'invalid_request',
      metadata: { field: 'messages.0.content.1' },
    })
    expect(upstream.hits).toHaveLength(1)
  })

  test('to a host whose address has become private is not followed', async () => {
    await gateway.close()
    gateway = await gatewayWith([`pictures.test:${portOf()}`])
    upstream.plan(redirect('http://pictures.test:1/secret'), answer(PNG))
    expect(await failureOf(fetched())).toMatchObject({ type: 'invalid_request' })
    expect(asked).toEqual(['pictures.test', 'pictures.test'])
  })

  test('without a target is a failed download', async () => {
    upstream.plan(head(302, { 'content-length': '0' }))
    expect(await failureOf(fetched())).toMatchObject({ type: 'image_download_failed' })
  })
})

describe('X-27 X-36 failures', () => {
  const FIELD = { field: 'messages.0.content.1' }

  test.each<[string, Script, string, string]>([
    [
      'a missing image',
      answer('leaked-words', 'text/plain', 404),
      'image_not_found',
      'The image was not found',
    ],
    [
      'an image that is gone',
      answer('leaked-words', 'text/plain', 410),
      'image_not_found',
      'The image was not found',
    ],
    [
      'a refusal',
      answer('leaked-words', 'text/plain', 403),
      'image_download_failed',
      'The image could not be downloaded',
    ],
    [
      'a failure',
      answer('leaked-words', 'text/plain', 500),
      'image_download_failed',
      'The image could not be downloaded',
    ],
    ['no content', head(204), 'image_download_failed', 'The image could not be downloaded'],
    [
      'an answer that is not HTTP',
      'leaked-words\r\n\r\n',
      'image_download_failed',
      'The image could not be downloaded',
    ],
    [
      'a truncated answer',
      [head(200, { 'content-length': '500' }), PNG, { end: 'fin' }],
      'image_download_failed',
      'The image could not be downloaded',
    ],
    [
      'a reset',
      [head(200, { 'content-length': '500' }), { end: 'rst' }],
      'image_download_failed',
      'The image could not be downloaded',
    ],
    [
      'an empty answer',
      answer(''),
      'unsupported_image_format',
      'The image is in a format that is not supported',
    ],
    [
      'a page',
      answer('<html>leaked-words', 'image/png'),
      'unsupported_image_format',
      'The image is in a format that is not supported',
    ],
    [
      'a drawing',
      answer('<?xml version="1.0"?><svg/>', 'image/svg+xml'),
      'unsupported_image_format',
      'The image is in a format that is not supported',
    ],
    [
      'a PDF',
      answer('%PDF-1.7\n%EOF\n', 'image/png'),
      'unsupported_image_format',
      'The image is in a format that is not supported',
    ],
  ])('%s has its own type, and its content is not repeated', async (_, script, type, message) => {
    upstream.plan(script)
    const failure = await failureOf(fetched())
    expect(failure).toMatchObject({ type, message, metadata: FIELD })
    expect(Bun.inspect(failure)).not.toContain('leaked-words')
  })

  test('a host that refuses is image_download_failed', async () => {
    const port = await refusedPort()
    await gateway.close()
    gateway = await gatewayWith([`pictures.test`, `pictures.test:${port}`])
    expect(await failureOf(fetched(`http://pictures.test:${port}/`))).toMatchObject({
      type: 'image_download_failed',
      metadata: FIELD,
    })
  })

  test('a private host is refused before any connection', async () => {
    expect(await failureOf(fetched(upstream.url))).toMatchObject({
      type: 'invalid_request',
      metadata: FIELD,
    })
    expect(await failureOf(fetched(urlOf('/a', 'other.test')))).toMatchObject({
      type: 'invalid_request',
      metadata: FIELD,
    })
    expect(upstream.hits).toEqual([])
  })

  test('other kinds have no error types of their own', async () => {
    upstream.plan(answer('x', 'text/plain', 404))
    expect(await failureOf(fetched(urlOf(), { kind: 'file' }))).toMatchObject({
      type: 'invalid_request',
      message: 'The file was not found',
    })
    upstream.plan(answer(Buffer.of(0, 1, 2, 3)))
    expect(await failureOf(fetched(urlOf(), { kind: 'file' }))).toMatchObject({
      type: 'invalid_request',
      message: 'The file is in a format that is not supported',
    })
    upstream.plan(answer(PNG))
    expect(await failureOf(fetched(urlOf(), { kind: 'audio' }))).toMatchObject({
      type: 'invalid_request',
      metadata: FIELD,
    })
  })

  test('an image may be as large as the limit, and no larger', async () => {
    upstream.plan(answer(PNG))
    expect((await fetched(urlOf(), { maxBytes: PNG.length })).data).toBe(PNG.toString('base64'))
    expect(await failureOf(fetched(urlOf(), { maxBytes: PNG.length - 1 }))).toMatchObject({
      type: 'image_too_large',
      message: 'The image is too large',
    })
  })

  test('X-27 an image may have 20 MiB by default, and an endless one is abandoned', async () => {
    const large = Buffer.concat([PNG], 20 * 1024 * 1024)
    upstream.plan(answer(large))
    expect(Bun.hash(Buffer.from((await fetched()).data, 'base64'))).toBe(Bun.hash(large))
    upstream.plan([head(200), PNG, { flood: 200 * 1024 * 1024 }])
    expect(await failureOf(fetched())).toMatchObject({ type: 'image_too_large' })
    await upstream.emptied()
    expect(upstream.hits.at(-1)?.sent).toBeLessThan(60 * 1024 * 1024)
  })

  test('X-27 an image that is small only when compressed is too large', async () => {
    const packed = gzipSync(Buffer.alloc(64 * 1024 * 1024))
    upstream.plan([
      head(200, { 'content-encoding': 'gzip', 'content-length': String(packed.length) }),
      packed,
    ])
    expect(await failureOf(fetched())).toMatchObject({ type: 'image_too_large' })
  })

  test.each<[string, Script]>([
    ['sends nothing', silence()],
    ['stops within its head', ['HTTP/1.1 200 OK\r\n', silence()]],
    ['stops within its image', [head(200, { 'content-length': '500' }), PNG, silence()]],
    [
      'sends a byte at a time',
      [
        head(200, { 'transfer-encoding': 'chunked' }),
        Array.from({ length: 500 }, () => [chunk('x'), { ms: 5 }]),
      ],
    ],
  ])('a server that %s is waited for only so long', async (_, script) => {
    upstream.plan(script)
    expect(await failureOf(fetched(urlOf(), { timeoutMilliseconds: 100 }))).toMatchObject({
      type: 'image_download_failed',
      metadata: FIELD,
    })
    await upstream.emptied()
  })

  test('a host that never resolves times out', async () => {
    await gateway.close()
    gateway = await testGateway({ resolve: () => new Promise(() => undefined) })
    expect(await failureOf(fetched('http://a.test/', { timeoutMilliseconds: 50 }))).toMatchObject({
      type: 'image_download_failed',
      metadata: FIELD,
    })
  })

  test('cancelling a call cancels its download, with the call’s reason', async () => {
    upstream.plan([head(200, { 'transfer-encoding': 'chunked' }), chunk(PNG), silence()])
    const cancellation = new Cancellation()
    const reason = new GatewayError('timeout', 'The caller has left')
    const failure = failureOf(fetched(urlOf(), { cancellation }))
    await upstream.hit()
    cancellation.cancel(reason)
    expect(await failure).toBe(reason)
    await upstream.emptied()
    expect(await failureOf(fetched(urlOf(), { cancellation }))).toBe(reason)
  })

  test('an image in many small chunks is complete', async () => {
    const bytes = Buffer.concat([PNG], 200_000)
    upstream.plan([
      head(200, { 'transfer-encoding': 'chunked' }),
      Buffer.concat([...bytes].map(byte => chunk(Uint8Array.of(byte)))),
      chunkedEnd(),
    ])
    expect((await fetched()).data).toBe(bytes.toString('base64'))
  })
})
