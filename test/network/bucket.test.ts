import { afterEach, describe, expect, test } from 'bun:test'
import { toByteSource } from '../../src/base/byte-source.ts'
import { openBucket } from '../../src/network/bucket.ts'
import { BUCKET_KEYS, createBucketWorld } from '../support/bucket.ts'

type Answer = (request: Request, body: string) => Response | Promise<Response>

const servers: { stop(force: boolean): void }[] = []
afterEach(() => {
  for (const server of servers.splice(0)) server.stop(true)
})

/** Opens a bucket of a server that gives these answers in turn, and the last one again and again. */
function openAnswering(answers: Answer[], more: object = {}) {
  const seen: { method: string; path: string; headers: Headers; body: string }[] = []
  const server = Bun.serve({
    ...{ port: 0, hostname: '127.0.0.1' },
    async fetch(request) {
      const { pathname, search } = new URL(request.url)
      const body = await request.text()
      const { method, headers } = request
      const answer = answers[Math.min(seen.length, answers.length - 1)] as Answer
      seen.push({ method, path: pathname + search, headers, body })
      return answer(request, body)
    },
  })
  servers.push(server)
  const config = { bucket: 'files', prefix: '', region: 'eu-west-1', ...BUCKET_KEYS, ...more }
  const endpoint = `http://127.0.0.1:${server.port}/`
  const world = { ...createBucketWorld(), readPatience: () => 100 }
  return { bucket: openBucket(world, { endpoint, ...config }), seen }
}

const refuse = (status: number, code: string) => () =>
  new Response(`<?xml version="1.0"?><Error><Code>${code}</Code></Error>`, { status })
const list = (inner: string) => () => new Response(`<ListBucketResult>${inner}</ListBucketResult>`)
const object = (key: string, size: number) =>
  `<Contents><Key>${key}</Key><Size>${size}</Size></Contents>`
const done = () => new Response('')
const HELLO = toByteSource(Buffer.from('Hello'))
const HASH = new Bun.CryptoHasher('sha256').update('Hello').digest('hex')
const readAll = async (pieces: AsyncIterable<Uint8Array>) =>
  Buffer.concat(await Array.fromAsync(pieces)).toString()

describe('a request', () => {
  test('is signed for its region, with the hash of its body and the token of the session', async () => {
    const { bucket, seen } = openAnswering([done], { session_token: 'token' })
    await bucket.put('a/b', HELLO, HASH)
    expect(seen[0]).toMatchObject({ method: 'PUT', path: '/files/a/b', body: 'Hello' })
    const headers = seen[0]?.headers
    expect(headers?.get('x-amz-content-sha256')).toBe(HASH)
    expect(headers?.get('x-amz-security-token')).toBe('token')
    expect(headers?.get('content-length')).toBe('5')
    expect(headers?.get('authorization')).toMatch(/Credential=S3RVER\/\d{8}\/eu-west-1\/s3\//)
  })

  test('takes no token from the environment', async () => {
    const { bucket, seen } = openAnswering([done])
    process.env.AWS_SESSION_TOKEN = 'stray'
    await bucket.remove('a').finally(() => delete process.env.AWS_SESSION_TOKEN)
    expect(seen[0]?.headers.get('x-amz-security-token')).toBeNull()
  })

  test('S-18 is repeated when the service fails, with the whole body', async () => {
    const { bucket, seen } = openAnswering([refuse(503, 'SlowDown'), refuse(500, 'Internal'), done])
    await bucket.put('a', HELLO, HASH)
    expect(seen.map(({ body }) => body)).toEqual(['Hello', 'Hello', 'Hello'])
  })

  test.each([
    ['fails again and again', refuse(503, 'SlowDown'), 3, 'refuses: SlowDown (503)'],
    ['is refused', refuse(403, 'AccessDenied'), 1, 'refuses: AccessDenied (403)'],
    ['has no bucket', refuse(404, 'NoSuchBucket'), 1, 'refuses: NoSuchBucket (404)'],
    ['gets a text for a code', refuse(400, 'a b'), 1, 'refuses: no code (400)'],
    [
      'is sent elsewhere',
      () => new Response('', { status: 307, headers: { location: 'http://127.0.0.1:9/' } }),
      1,
      'refuses: no code (307)',
    ],
  ])('that %s is a 503', async (_, answer, times, message) => {
    const { bucket, seen } = openAnswering([answer])
    const failure = bucket.put('a', HELLO, HASH)
    await expect(failure).rejects.toMatchObject({
      status: 503,
      message: `The storage of files ${message}`,
    })
    expect(seen).toHaveLength(times)
  })

  test('S-18 that nobody takes is a 503', async () => {
    const { bucket } = openAnswering([done], { endpoint: 'http://127.0.0.1:1' })
    await expect(bucket.remove('a')).rejects.toMatchObject({
      status: 503,
      message: 'The storage of files cannot be reached: ECONNREFUSED',
    })
  })

  test('S-18 that gets no answer is given up', async () => {
    const { bucket } = openAnswering([() => new Promise<Response>(() => undefined)])
    await expect(bucket.remove('a')).rejects.toMatchObject({
      status: 503,
      message: 'The storage of files does not answer',
    })
  })
})

describe('a list', () => {
  test('goes on where it was cut', async () => {
    const next =
      '<IsTruncated>true</IsTruncated><NextContinuationToken>a+/=</NextContinuationToken>'
    const { bucket, seen } = openAnswering([
      list(object('x/1', 1) + object('x/2', 2) + next),
      list(object('x/3', 3)),
    ])
    expect(await Array.fromAsync(bucket.list('x/'))).toEqual([
      { key: 'x/1', size: 1 },
      { key: 'x/2', size: 2 },
      { key: 'x/3', size: 3 },
    ])
    expect(seen[1]?.path).toBe('/files?list-type=2&prefix=x%2F&continuation-token=a%2B%2F%3D')
  })

  test.each(['', '<html>', '<A/>', '{"Contents": []}'])('that is %j is a 503', async text => {
    const { bucket } = openAnswering([() => new Response(text)])
    await expect(bucket.find('x')).rejects.toMatchObject({ status: 503 })
  })
})

describe('an object', () => {
  const partial = (text: string) => () => new Response(text, { status: 206 })

  test('is read by its range', async () => {
    const { bucket, seen } = openAnswering([partial('llo')])
    expect(await readAll(bucket.read('a', { start: 2, length: 3 }))).toBe('llo')
    expect(seen[0]?.headers.get('range')).toBe('bytes=2-4')
  })

  test('is read from a service that knows no ranges', async () => {
    const { bucket } = openAnswering([() => new Response('Hello, world')])
    expect(await readAll(bucket.read('a', { start: 7, length: 3 }))).toBe('wor')
  })

  test('that is empty is not asked for', async () => {
    const { bucket, seen } = openAnswering([partial('')])
    expect(await readAll(bucket.read('a', { start: 0, length: 0 }))).toBe('')
    expect(seen).toHaveLength(0)
  })

  test.each([
    ['is shorter than it was', partial('He'), 'shorter'],
    ['is gone', refuse(404, 'NoSuchKey'), 'no such object'],
    ['is refused', refuse(403, 'AccessDenied'), 'AccessDenied'],
  ])('that %s cannot be read', async (_, answer, message) => {
    const { bucket } = openAnswering([answer])
    await expect(readAll(bucket.read('a', { start: 0, length: 5 }))).rejects.toThrow(message)
  })

  test('whose reader leaves is not read on', async () => {
    const gone = Promise.withResolvers<void>()
    const { bucket } = openAnswering([
      () =>
        new Response(
          new ReadableStream({
            pull: async controller => {
              controller.enqueue(Buffer.alloc(65_536))
              await Bun.sleep(0)
            },
            cancel: () => gone.resolve(),
          }),
          { status: 206 },
        ),
    ])
    for await (const _ of bucket.read('a', { start: 0, length: 1e12 })) break
    await gone.promise
  })
})
