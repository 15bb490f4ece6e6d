import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import {
  brotliCompressSync,
  constants,
  deflateRawSync,
  deflateSync,
  gzipSync,
  zstdCompressSync,
} from 'node:zlib'
import { Type } from '@sinclair/typebox'
import { readBody } from '../../../src/server/body.ts'
import { measureBestLoopUse } from '../../support/event-loop.ts'
import { createSeededIntegers, SEED } from '../../support/random.ts'
import { type Server, startServer } from '../../support/server.ts'

const CODINGS: [coding: string, encode: (bytes: Uint8Array) => Uint8Array<ArrayBuffer>][] = [
  ['gzip', gzipSync],
  ['x-gzip', gzipSync],
  ['GZip', gzipSync],
  ['deflate', deflateSync],
  // At its best it takes a second for a bomb.
  ['br', bytes => brotliCompressSync(bytes, { params: { [constants.BROTLI_PARAM_QUALITY]: 5 } })],
  ['zstd', zstdCompressSync],
]
const MIB = 1024 * 1024

let server: Server

beforeAll(async () => {
  server = await startServer({ config: { limits: { memory: 512 } } })
})

afterAll(() => server[Symbol.asyncDispose]())

const build = (content: string) =>
  Buffer.from(
    JSON.stringify({ model: 'sandbox/echo', messages: [{ role: 'user', content }], max_tokens: 5 }),
  )

const send = (coding: string, body: BodyInit, path = '/chat/completions') =>
  server.fetch(path, {
    method: 'POST',
    headers: { 'content-encoding': coding, 'content-type': 'application/json' },
    body,
  })

async function readFailure(response: Response) {
  const { error } = (await response.json()) as { error: { code: number; message: string } }
  return [response.status, error.code, error.message] as const
}

const refusal = (coding: string) => [400, 400, `body: expected a whole body in ${coding}`] as const

describe.each(CODINGS)('L04 a body in %s', (coding, encode) => {
  test.each([0, 100, 3 * MIB])('is read, with %d characters', async length => {
    const response = await send(coding, encode(build('a'.repeat(length))))
    expect(await response.json()).toMatchObject({ object: 'chat.completion' })
  })

  test('is read in pieces, without a length', async () => {
    const bytes = encode(build('Hello'))
    const pieces = Array.from({ length: Math.ceil(bytes.length / 7) }, (_, i) =>
      bytes.slice(i * 7, i * 7 + 7),
    )
    const body = new ReadableStream({
      pull(controller) {
        const piece = pieces.shift()
        if (piece) controller.enqueue(piece)
        else controller.close()
      },
    })
    expect((await send(coding, body)).status).toBe(200)
  })

  test('is read at every door', async () => {
    const name = encode(Buffer.from(JSON.stringify({ name: coding })))
    const keys = await server.fetch('/keys', {
      method: 'POST',
      key: server.management_key,
      headers: { 'content-encoding': coding, 'content-type': 'application/json' },
      body: name,
    })
    expect(keys.status).toBe(201)
    const form = new FormData()
    form.append('file', new File(['{"a":1}'], 'a.json', { type: 'application/json' }))
    const plain = new Request('http://localhost', { method: 'POST', body: form })
    const file = await server.fetch('/files', {
      method: 'POST',
      headers: {
        'content-encoding': coding,
        'content-type': plain.headers.get('content-type') ?? '',
      },
      body: encode(await plain.bytes()),
    })
    expect(file.status).toBe(200)
  })

  test('that is none is refused', async () => {
    expect(await readFailure(await send(coding, build('Hello')))).toEqual(
      refusal(coding.toLowerCase()),
    )
  })

  test('that is cut anywhere is refused', async () => {
    const draw = createSeededIntegers(SEED)
    const text = Array.from({ length: 40_000 }, () => draw(1_000)).join()
    const bytes = encode(build(text))
    const anywhere = Array.from({ length: 20 }, () => draw(bytes.length))
    for (const end of [1, 4, bytes.length - 4, bytes.length - 1, ...anywhere]) {
      const [status, , message] = await readFailure(await send(coding, bytes.slice(0, end)))
      expect([end, status, message]).toEqual([end, 400, expect.stringContaining('whole body in')])
    }
  })

  test('with other bytes after it is refused', async () => {
    const bytes = Buffer.concat([encode(build('Hello')), Buffer.from('more')])
    expect(await readFailure(await send(coding, bytes))).toEqual(refusal(coding.toLowerCase()))
  })

  test('that lies is refused', async () => {
    for (const [other, encodeOther] of CODINGS) {
      if (encodeOther === encode) continue
      const response = await send(other, encode(build('Hello')))
      expect((await readFailure(response))[0]).toBe(400)
    }
    const raw = await send(coding, deflateRawSync(build('Hello')))
    expect((await readFailure(raw))[0]).toBe(400)
  })
})

// The decoder decides that, and not what it is called.
describe.each(CODINGS.filter(([coding]) => !/^(x-gzip|GZip)$/.test(coding)))(
  'L04 a body in %s',
  (coding, encode) => {
    test('that is a bomb is refused, takes little memory and no time of others', async () => {
      const bomb = encode(Buffer.alloc(64 * MIB, ' '))
      expect(bomb.length).toBeLessThan(MIB / 4)
      // One that finds too little memory beside the others is told to come again.
      const statuses = await Promise.all(
        Array.from({ length: 4 }, async () => (await readFailure(await send(coding, bomb)))[0]),
      )
      for (const status of statuses) expect([413, 503]).toContain(status)
      expect(statuses).toContain(413)
      const { longest, memory } = await measureBestLoopUse(250, async () => {
        const headers = { 'content-encoding': coding }
        const request = new Request('http://localhost', { method: 'POST', headers, body: bomb })
        expect(await readBody(request, Type.Unknown()).catch(({ status }) => status)).toBe(413)
      })
      expect(longest).toBeLessThan(250)
      expect(memory).toBeLessThan(4 * 32 * MIB)
    })
  },
)

test('what decodes to nothing is bounded where it comes in', async () => {
  const frame = Buffer.alloc(8 * MIB + 8)
  frame.writeUInt32LE(0x184d2a50, 0)
  frame.writeUInt32LE(8 * MIB, 4)
  let sent = 0
  const body = new ReadableStream({
    pull(controller) {
      if (sent++ < 8) controller.enqueue(frame)
      else controller.close()
    },
  })
  const status = await send('zstd', body).then(
    ({ status }) => status,
    () => 'closed',
  )
  expect([413, 'closed']).toContain(status)
})

describe('415 for a coding that is not known', () => {
  test.each(['compress', 'x-compress', 'snappy', 'gzip, gzip', 'zstd,br', 'toString', '*'])(
    '%s',
    async coding => {
      const response = await send(coding, build('Hello'))
      expect(response.headers.get('accept-encoding')).toBe('gzip, deflate, br, zstd')
      expect(await readFailure(response)).toEqual([
        415,
        415,
        'Expected a body in one of gzip, deflate, br, zstd, or as it is',
      ])
    },
  )

  test.each(['identity', 'Identity', ''])('not for "%s"', async coding => {
    expect((await send(coding, build('Hello'))).status).toBe(200)
  })
})
