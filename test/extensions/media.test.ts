import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import type { Gateway } from '../../src/app/gateway.ts'
import { kinds } from '../../src/engine/kinds.ts'
import { createPlan } from '../../src/engine/run.ts'
import { inlineMedia } from '../../src/extensions/media.ts'
import type { TextCall } from '../../src/language/call.ts'
import type { Block } from '../../src/language/message.ts'
import { getOperator } from '../../src/resources/actor.ts'
import type { Media } from '../../src/translation/protocols/protocol.ts'
import { buildEndpoint, buildTextCall } from '../support/call.ts'
import { testGateway } from '../support/gateway.ts'
import { beginStep } from '../support/run.ts'

const PNG =
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=='
const DATA = `data:image/png;base64,${PNG}`

/** Of 17 MiB: four of it are more than one call may refer to. */
const LARGE = Buffer.concat([Buffer.from(PNG, 'base64'), Buffer.alloc(17 * 1024 * 1024)])

let host: Bun.Server<undefined>
let gateway: Gateway
let visits: string[] = []

beforeAll(async () => {
  host = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    fetch(request) {
      const { pathname } = new URL(request.url)
      visits.push(pathname)
      if (pathname === '/slow') return new Promise<Response>(() => undefined)
      if (pathname === '/large') return new Response(LARGE)
      return pathname === '/none'
        ? new Response('', { status: 404 })
        : new Response(Buffer.from(PNG, 'base64'))
    },
  })
  gateway = await testGateway({
    config: { security: { allow_private_urls: [`127.0.0.1:${host.port}`] } },
  })
})

afterAll(async () => {
  await gateway.close()
  await host.stop(true)
})

beforeEach(() => {
  visits = []
})

const at = (path: string) => `http://127.0.0.1:${host.port}${path}`
const image = (url: string): Block => ({ type: 'image', url, detail: 'low' })
const callOf = (...blocks: Block[]) => buildTextCall({ messages: [{ role: 'user', blocks }] })

function runningOf(call: TextCall, client = new AbortController()) {
  return beginStep(
    gateway,
    getOperator(gateway),
    'text',
    call,
    createPlan([buildEndpoint()]),
    client.signal,
  )
}

const prepared = (
  call: TextCall,
  takesUrls: Media[],
  running = runningOf(call),
  fetchesUrls = true,
) =>
  inlineMedia(gateway, call, {
    kind: kinds.text,
    takesUrls,
    fetchesUrls,
    media: running.run.media,
    run: running.run,
    cancellation: running.run.cancellation,
  })

describe('media that a call refers to by URL', () => {
  test('is fetched if the provider does not fetch it itself, for a copy of the call', async () => {
    const call = callOf({ type: 'text', text: 'Look' }, image(at('/a.png')), {
      type: 'file',
      file: { filename: 'a', file_data: at('/b') },
    })
    const before = structuredClone(call.messages)
    expect((await prepared(call, [])).messages[0]?.blocks).toEqual([
      { type: 'text', text: 'Look' },
      { type: 'image', url: DATA, detail: 'low' },
      { type: 'file', file: { filename: 'a', file_data: DATA } },
    ])
    expect(call.messages).toEqual(before)
  })

  test('is left alone if the provider fetches it or it is inline, synchronously', () => {
    const call = callOf(image(at('/a.png')), image(DATA), {
      type: 'file',
      file: { file_id: 'file-1' },
    })
    expect(prepared(call, ['image'])).toBe(call)
    expect(visits).toEqual([])
  })

  test('is fetched once, for all references and all endpoints', async () => {
    const call = callOf(image(at('/a.png')), image(at('/a.png')))
    const running = runningOf(call)
    await prepared(call, [], running)
    await prepared(call, [], running)
    expect(visits).toEqual(['/a.png'])
  })

  test('counts wherever it is referred to, as the provider gets it so often', async () => {
    const refer = (count: number) =>
      callOf(...Array.from({ length: count }, () => image(at('/large'))))
    const { messages } = await prepared(refer(3), [])
    expect(
      messages[0]?.blocks.map(block => 'url' in block && block.url.length > 20_000_000),
    ).toEqual([true, true, true])
    await expect(Promise.resolve(prepared(refer(4), []))).rejects.toMatchObject({
      status: 400,
      message: expect.stringContaining('at most 67108864 bytes of media'),
    })
  })

  test('is a clear error if it is missing, and the other downloads are cancelled', async () => {
    await expect(
      prepared(callOf(image(at('/slow')), image(at('/none'))), []),
    ).rejects.toMatchObject({
      type: 'image_not_found',
      status: 404,
    })
  })

  test('is not fetched from a private host that is not allowed', async () => {
    expect(() => prepared(callOf(image('http://127.0.0.1:1/a.png')), [])).toThrow('public host')
  })

  test('is not fetched for a client that has left', async () => {
    const client = new AbortController()
    const call = callOf(image(at('/slow')))
    const fetching = prepared(call, [], runningOf(call, client))
    setTimeout(() => client.abort(), 20)
    await expect(fetching).rejects.toMatchObject({ status: 499 })
  })

  test('is limited in number', async () => {
    const many = Array.from({ length: 33 }, (_, i) => image(at(`/${i}.png`)))
    await expect(prepared(callOf(...many), [])).rejects.toMatchObject({ type: 'invalid_request' })
    expect(visits).toEqual([])
  })

  test('goes on to a self-hosted provider as bytes only', async () => {
    const file: Block = { type: 'file', file: { file_data: at('/b') } }
    const call = callOf(image(at('/a.png')), file)
    expect((await prepared(call, ALL, undefined, false)).messages[0]?.blocks).toEqual([
      image(DATA),
      { type: 'file', file: { file_data: DATA } },
    ])
  })

  test.each<[name: string, block: Block]>([
    ['another port', image('http://8.8.8.8:1/a.png')],
    ['a file', image('file:///etc/passwd')],
    ['a file of a host', { type: 'video', url: 'FILE://localhost/etc/passwd' }],
    ['a path', image('/etc/passwd')],
    ['a path up', image('../../etc/passwd')],
    ['another scheme', image('ftp://10.0.0.1/a.png')],
    ['a bucket', image('s3://secrets/a.png')],
    ['nothing', image('')],
    ['a file as a document', { type: 'file', file: { file_data: 'file:///etc/passwd' } }],
    ['a field of a file', { type: 'file', file: { file_url: 'http://10.0.0.1/' } as object }],
    ['a field of a picture', { ...image(DATA), extra: { thumbnail: 'http://10.0.0.1/' } } as Block],
    [
      'a part without a type here',
      { type: 'other', dialect: 'chat', value: { audio_url: { url: 'file:///etc/passwd' } } },
    ],
    [
      'a part with a space before its URL',
      { type: 'other', dialect: 'chat', value: [{ a: [' http://10.0.0.1/'] }] },
    ],
  ])('%s is refused for a self-hosted provider, and not for others', async (_, block) => {
    const call = callOf({ type: 'text', text: 'http://10.0.0.1 is fine in a text' }, block)
    const promise = (async () => prepared(call, ALL, undefined, false))()
    await expect(promise).rejects.toMatchObject({ type: 'invalid_request', status: 400 })
    expect(prepared(call, ALL)).toBe(call)
    expect(visits).toEqual([])
  })
})

describe('an address of a private network is refused for every provider', () => {
  test.each([
    'http://169.254.169.254/latest/meta-data',
    'http://10.0.0.1/a.png',
    'http://0x7f.1/a.png',
    'https://[::1]/a.png',
    'http://localhost/a.png',
    'HTTP://files.localhost./a.png',
  ])('%s', url => {
    const media: Block[] = [
      image(url),
      { type: 'video', url },
      { type: 'file', file: { file_data: url } },
    ]
    for (const block of media)
      for (const fetchesUrls of [true, false]) {
        const named = { ...block, field: 'input.3.content.0' } as Block
        const prepare = () => prepared(callOf(named), ALL, undefined, fetchesUrls)
        expect(prepare).toThrow('input.3.content.0: expected the URL of a public host')
        expect(() => prepared(callOf(block), ALL, undefined, fetchesUrls)).toThrow('The URL')
      }
    expect(visits).toEqual([])
  })

  test('names that are public, and hosts that the config allows, pass', () => {
    const call = callOf(image('https://localhost.example/a.png'), image(at('/a.png')))
    expect(prepared(call, ALL)).toBe(call)
  })
})

const ALL: Media[] = ['image', 'audio', 'video', 'file']
