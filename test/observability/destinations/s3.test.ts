import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import S3rver from 's3rver'
import { passesTest } from '../../../src/observability/destinations/judge.ts'
import type { DeliveryRequest } from '../../../src/observability/destinations/kind.ts'
import { findKind } from '../../../src/observability/destinations/registry.ts'
import type { Trace } from '../../../src/observability/destinations/trace.ts'
import { WORLD } from '../../support/destination-samples.ts'
import {
  buildHostileTrace,
  EXTENDED_TRACE,
  HOSTILE_TEXTS,
  TRACE,
} from '../../support/trace-samples.ts'

const kind = findKind('s3')
const KEYS = { accessKeyId: 'S3RVER', secretAccessKey: 'S3RVER' }
const BUCKET = { bucketName: 'traces', ...KEYS }

const render = (trace: Trace, config: object = BUCKET) =>
  kind.render(WORLD, { ...BUCKET, ...config } as never, [trace])

const findPath = (trace: Trace, config: object = {}) =>
  decodeURIComponent(new URL(render(trace, config).url).pathname)

describe('the URL of an object', () => {
  test.each([
    [{}, 'https://traces.s3.us-east-1.amazonaws.com/'],
    [{ region: 'eu-central-1' }, 'https://traces.s3.eu-central-1.amazonaws.com/'],
    [{ bucketName: 'my.traces' }, 'https://s3.us-east-1.amazonaws.com/my.traces/'],
    [{ endpoint: 'https://r2.example.com/' }, 'https://r2.example.com/traces/'],
  ])('%j is %s', (config, url) => {
    expect(render(TRACE, config).url).toStartWith(`${url}openrouter-traces/2026-11-22/`)
  })

  test.each([
    [{ pathTemplate: '' }, /^\/5b8a[0-9a-f]+-\d+\.json$/],
    [{ prefix: '' }, /^\/2026-11-22\/5b8a/],
    [{ prefix: '/a//b/' }, /^\/a\/b\/2026-11-22\/5b8a/],
    [{ pathTemplate: '{year}-{month}/{day}/{apiKeyName}' }, /^\/2026-11\/22\/production\/5b8a/],
  ])('of %j is %p', (config, path) => {
    expect(findPath(TRACE, config)).toMatch(path)
  })

  test.each([
    ['..', /^\/openrouter-traces\/5b8a/],
    ['../../etc', /^\/openrouter-traces\/\.\._\.\._etc\/5b8a/],
    ['a/b\\c\nd', /^\/openrouter-traces\/a_b_c_d\/5b8a/],
    ['{prefix}', /^\/openrouter-traces\/_prefix_\/5b8a/],
    ['lone \ud800', /^\/openrouter-traces\/lone \ufffd\/5b8a/],
    ['', /^\/openrouter-traces\/none\/5b8a/],
    [null, /^\/openrouter-traces\/none\/5b8a/],
  ])('of a key named %j stays in its folder', (apiKeyName, path) => {
    const trace = { ...TRACE, facts: { ...TRACE.facts, apiKeyName } }
    expect(findPath(trace, { pathTemplate: '{prefix}/{apiKeyName}' })).toMatch(path)
  })

  test('is another for each call of a trace, also in the same millisecond', () => {
    const urls = ['a', 'b', 'c'].map(id => render({ ...TRACE, id }).url)
    expect(new Set(urls).size).toBe(3)
  })
})

describe('the path of an object', () => {
  test.each(HOSTILE_TEXTS.filter(text => text.isWellFormed()))('is Bun’s own for %j', text => {
    const config = { pathTemplate: "{prefix}/{apiKeyName}/a+b c=d&e~(f)!*'ü", prefix: 'x y' }
    const endpoint = 'https://s3.example.com'
    const { pathname } = new URL(render(buildHostileTrace(text), { ...config, endpoint }).url)
    const key = decodeURIComponent(pathname).slice('/traces/'.length)
    const client = new Bun.S3Client({ ...BUCKET, bucket: 'traces', endpoint })
    expect(new URL(client.file(key).presign()).pathname).toBe(pathname)
  })
})

// It knows the ids of keys and no signatures: those are tested with Amazon's example (sigv4.test.ts).
describe('an S3 server', () => {
  let server: S3rver
  let endpoint: string
  let directory: string
  beforeAll(async () => {
    directory = mkdtempSync(join(tmpdir(), 'gateway-s3-'))
    server = new S3rver({
      ...{ address: '127.0.0.1', port: 0, silent: true, directory, resetOnClose: true },
      configureBuckets: [{ name: 'traces', configs: [] }],
    })
    const { port } = await server.run()
    endpoint = `http://127.0.0.1:${port}`
  })
  afterAll(async () => {
    await server.close()
    rmSync(directory, { recursive: true, force: true })
  })

  const send = async ({ method, url, headers, body }: DeliveryRequest) => {
    const response = await fetch(url, { method, headers, body: Buffer.from(body) })
    return { status: response.status, text: await response.text() }
  }
  // The server compares the time of the signature with its own.
  const now = () => ({ ...WORLD, now: Date.now() })
  const put = (trace: Trace, config: object = {}) =>
    send(kind.render(now(), { ...BUCKET, endpoint, ...config } as never, [trace]))

  test('takes the object of a trace as it is', async () => {
    expect(await put(EXTENDED_TRACE)).toEqual({ status: 200, text: '' })
    const { url } = render(EXTENDED_TRACE, { endpoint })
    const stored = await new Bun.S3Client({ ...BUCKET, bucket: 'traces', endpoint })
      .file(new URL(url).pathname.slice('/traces/'.length))
      .json()
    expect(stored).toMatchObject({
      id: TRACE.id,
      traceId: TRACE.traceId,
      name: 'Invoice check',
      timestamp: '2026-11-22T10:00:00.250Z',
      model: 'anthropic/claude-sonnet-4.5',
      totalCost: 0.00081,
      input: TRACE.input,
      output: TRACE.output,
      metadata: TRACE.metadata,
      openrouter_generation: EXTENDED_TRACE.extra,
    })
    expect(stored.spans).toHaveLength(3)
  })

  test.each(HOSTILE_TEXTS.filter(text => text !== ''))('takes keys with %j', async text => {
    const config = { pathTemplate: "{prefix}/{apiKeyName}/a+b c=d&e~(f)!*'ü", prefix: 'x y' }
    expect((await put(buildHostileTrace(text), config)).status).toBe(200)
  })

  test('takes a custom header under the signature', async () => {
    const headers = { 'x-amz-meta-team': 'two  words', 'X-Amz-Storage-Class': 'STANDARD' }
    expect((await put(TRACE, { headers })).status).toBe(200)
  })

  test('passes a test, and fails one with an unknown key', async () => {
    const config = { ...BUCKET, endpoint }
    expect(passesTest(kind, await send(kind.renderTest(now(), config as never)))).toBe(true)
    const wrong = { ...config, accessKeyId: 'unknown' }
    expect(passesTest(kind, await send(kind.renderTest(now(), wrong as never)))).toBe(false)
  })
})
