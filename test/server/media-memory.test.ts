import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { readFileSync, writeFileSync } from 'node:fs'
import { LONG } from '../support/random.ts'
import { buildWav } from '../support/recording.ts'
import { type Server, startServer } from '../support/server.ts'
import { json, type Script, startUpstream, type Upstream } from '../support/upstream.ts'

/*
 * What large pictures and recordings take of the server's memory, at its highest. Measured in the
 * long form only, on the program under test: RSS is only what it is where nothing else runs in the
 * process.
 */

const MEBIBYTE = 1024 * 1024
const PICTURES = 50
const PICTURE_BYTES = 4_000_000
const RECORDING_BYTES = 100_000_000

let server: Server
let upstream: Upstream

const prices = { prompt: 0, completion: 0 }
const model = (id: string, output: string, provider = 'local') => ({
  id,
  output_modalities: [output],
  endpoints: [{ provider, model: 'm', usd_per_million_tokens: prices }],
})

beforeAll(async () => {
  upstream = await startUpstream()
  const local = { protocol: 'openai-chat', base_url: upstream.url, api_key: 'mock' }
  server = await startServer({
    config: {
      security: { allow_private_urls: [new URL(upstream.url).host] },
      providers: { local },
      models: [model('acme/draw', 'image'), model('acme/listen', 'transcription')],
    },
  })
})

afterAll(async () => {
  await server[Symbol.asyncDispose]()
  await upstream.close()
})

/** Reads the most memory that the server has had since `forgetPeak`, in MiB. */
const readPeak = (): number =>
  Number(/^VmHWM:\s+(\d+)/m.exec(readFileSync(`/proc/${server.process.pid}/status`, 'utf8'))?.[1]) /
  1024

const forgetPeak = (): void => writeFileSync(`/proc/${server.process.pid}/clear_refs`, '5')

/** A picture of one pixel, with as many bytes beside it as it needs. */
function createPicture(): Buffer {
  const pixel = Buffer.from(
    'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg==',
    'base64',
  )
  const end = pixel.length - 12
  const text = Buffer.alloc(PICTURE_BYTES - pixel.length - 12, 'x')
  const head = Buffer.alloc(4)
  head.writeUInt32BE(text.length)
  const chunk = Buffer.concat([Buffer.from('tEXt'), text])
  const sum = Buffer.alloc(4)
  sum.writeUInt32BE(Bun.hash.crc32(chunk))
  return Buffer.concat([pixel.subarray(0, end), head, chunk, sum, pixel.subarray(end)])
}

const picture = createPicture()

async function draw(): Promise<number> {
  const response = await server.fetch('/images', { json: { model: 'acme/draw', prompt: 'A cat' } })
  expect(response.status).toBe(200)
  let bytes = 0
  for await (const piece of response.body ?? []) bytes += piece.length
  return bytes
}

const bytesOf = (media: Buffer): Script => [
  `HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-type: image/png\r\ncontent-length: ${media.length}\r\n\r\n`,
  media,
]

describe.skipIf(!LONG)('the memory of the server', () => {
  test('grows by less than 80 MiB for a recording of 100 MB', async () => {
    upstream.plan(json({ text: 'Hi', duration: 1 }))
    const wav = buildWav(1)
    forgetPeak()
    const idle = readPeak()
    const recording = new Blob([new Uint8Array(wav), new Uint8Array(RECORDING_BYTES - wav.length)])
    const form = new FormData()
    form.append('model', 'acme/listen')
    form.append('file', recording, 'speech.wav')
    const headers = { authorization: `Bearer ${server.inference_key}` }
    const response = await fetch(`${server.url}/api/v1/audio/transcriptions`, {
      method: 'POST',
      body: form,
      headers,
    })
    expect([response.status, await response.json()]).toEqual([200, expect.anything()])
    expect(upstream.hits.at(-1)?.bytes.length).toBeGreaterThan(RECORDING_BYTES)
    const grown = readPeak() - idle
    process.stderr.write(`A recording of 100 MB: ${Math.round(grown)} MiB above idle\n`)
    expect(grown).toBeLessThan(80)
  })

  test.each<[string, () => void]>([
    [
      'in base64',
      () => upstream.plan(json({ created: 1, data: [{ b64_json: picture.toString('base64') }] })),
    ],
    [
      'by URL',
      () =>
        upstream.answer(({ method }) =>
          method === 'GET'
            ? bytesOf(picture)
            : json({ created: 1, data: [{ url: `${upstream.url}/a.png` }] }),
        ),
    ],
  ])('stays under 400 MiB with 50 pictures of 4 MB at once, %s', async (_, answer) => {
    answer()
    await draw()
    forgetPeak()
    const sizes = await Promise.all(Array.from({ length: PICTURES }, draw))
    expect(Math.min(...sizes)).toBeGreaterThan((PICTURE_BYTES * 4) / 3)
    const peak = readPeak()
    process.stderr.write(`${PICTURES} pictures: ${Math.round(peak)} MiB\n`)
    expect(peak).toBeLessThan(400)
  })
})

test('pictures are as large as the test says', () => {
  expect(picture.length).toBe(PICTURE_BYTES)
  expect(RECORDING_BYTES).toBeLessThanOrEqual(100 * MEBIBYTE)
})
