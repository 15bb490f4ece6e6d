import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import { fetchGeneration } from '../support/chat.ts'
import { type MediaStage, openMediaStage } from '../support/media.ts'
import { type Hit, head, json, type Script } from '../support/upstream.ts'

/*
 * A job of a provider as OpenAI's client sees it: what its words mean, and the video as HTTP has it.
 */

const MODEL = 'acme/film'
const COST = 0.04
/** The head of an MP4 file, and bytes that tell where they are. */
const MP4 = Buffer.concat([
  Buffer.from('00000018667479706d703432000000006d70343269736f6d', 'hex'),
  Buffer.from(Array.from({ length: 9_000 }, (_, i) => i % 251)),
])

let stage: MediaStage
let poll: Script

const video = (): Script => [
  head(200, { 'content-type': 'video/mp4', 'content-length': String(MP4.length) }),
  MP4,
]

beforeAll(async () => {
  stage = await openMediaStage([
    {
      id: MODEL,
      output: 'video',
      providers: [{ protocol: 'openai-chat' }],
      prices: { per_second: 0.01 },
    },
  ])
})
afterAll(() => stage[Symbol.asyncDispose]())

beforeEach(() => {
  stage.upstreamOf(MODEL).hits.length = 0
  stage.upstreamOf(MODEL).answer(({ method, path }) => {
    if (method === 'POST') return json({ id: 'video-1', status: 'queued' })
    return path.endsWith('/content') ? video() : poll
  })
})

/** Begins a job, and returns it once its call is on record. */
async function film() {
  const begun = await stage.openai.videos.create({ model: MODEL, prompt: 'A cat', seconds: '4' })
  const { generation_id: id } = begun as unknown as { generation_id: string }
  const { promise, resolve } = Promise.withResolvers<void>()
  const { events, store } = stage.server.gateway
  const unlisten = events.on('generation.finished', one => one.id === id && resolve())
  if (!(await store.generations.byId(id))) await promise
  unlisten()
  const record = await fetchGeneration(stage.server, id)
  return { record, job: await stage.openai.videos.retrieve(begun.id) }
}

describe('a word of a provider', () => {
  test.each([
    ['canceled', {}, 'cancelled', 0],
    ['error', { error: { message: 'Too dark' } }, 'failed', 0],
    ['moderation_blocked', { error: 'Too dark' }, 'failed', 0],
    ['odd', {}, 'failed', 0],
    ['succeeded', {}, 'completed', COST],
    ['odd', { progress: 100 }, 'completed', COST],
  ])('%s %j: %s, for %d', async (word, more, status, cost) => {
    poll = json({ id: 'video-1', status: word, seconds: '4', ...more })
    const { record, job } = await film()
    expect([job.status as string, record.total_cost]).toEqual([status, cost])
    expect(stage.server.gateway.videos.listHolds()).toEqual([])
    expect(stage.upstreamOf(MODEL).hits.filter(({ method }) => method === 'DELETE')).toEqual([])
    if (word === 'error') expect(JSON.stringify(job)).toContain('Too dark')
  })
})

describe('a video keeps what HTTP says of its bytes', () => {
  const TYPE = { 'content-type': 'video/mp4' }
  const ETAG = { etag: '"v1"', 'last-modified': 'Fri, 27 Nov 2026 00:00:00 GMT' }
  const length = { 'content-length': String(MP4.length) }

  /** Providers: one that cuts out a range, one that does not, and one that says no length. */
  const PROVIDERS: Record<string, (hit: Hit) => Script> = {
    'a provider with ranges': ({ headers }) => {
      const [, first = '', last = ''] = /^bytes=(\d*)-(\d*)$/.exec(headers.range ?? '') ?? []
      const isSame = headers['if-range'] === undefined || headers['if-range'] === ETAG.etag
      if (headers.range === undefined || !isSame)
        return [head(200, { ...TYPE, ...ETAG, ...length }), MP4]
      const start = first === '' ? MP4.length - Number(last) : Number(first)
      if (start >= MP4.length)
        return head(416, { 'content-range': `bytes */${MP4.length}`, 'content-length': '0' })
      const end = first === '' || last === '' ? MP4.length : Number(last) + 1
      const bytes = MP4.subarray(start, end)
      const content = `bytes ${start}-${start + bytes.length - 1}/${MP4.length}`
      return [
        head(206, {
          ...{ ...TYPE, ...ETAG, 'content-range': content },
          'content-length': String(bytes.length),
        }),
        bytes,
      ]
    },
    'a provider without ranges': () => [head(200, { ...TYPE, ...ETAG, ...length }), MP4],
  }

  async function download(answer: (hit: Hit) => Script, headers: Record<string, string>) {
    poll = json({ id: 'video-1', status: 'completed', seconds: '4' })
    const { job } = await film()
    const usual = stage.upstreamOf(MODEL)
    usual.answer(answer)
    const response = await stage.openai.videos.downloadContent(job.id, {}, { headers })
    const bytes = Buffer.from(await response.arrayBuffer())
    return { status: response.status, headers: response.headers, bytes }
  }

  describe.each(Object.entries(PROVIDERS))('%s', (_, answer) => {
    test('whole, with its length', async () => {
      const { status, headers, bytes } = await download(answer, {})
      expect([status, bytes.equals(MP4)]).toEqual([200, true])
      expect(headers.get('content-length')).toBe(String(MP4.length))
      expect(headers.get('accept-ranges')).toBe('bytes')
      expect([headers.get('etag'), headers.get('last-modified')]).toEqual(Object.values(ETAG))
      expect(headers.get('content-range')).toBeNull()
    })

    test.each([
      ['bytes=0-1', 0, 2],
      ['bytes=0-8999', 0, 9_000],
      ['bytes=100-199', 100, 200],
      ['bytes=9000-', 9_000, MP4.length],
      ['bytes=-10', MP4.length - 10, MP4.length],
      [`bytes=0-${MP4.length + 5}`, 0, MP4.length],
    ])('%s', async (range, start, end) => {
      const { status, headers, bytes } = await download(answer, { range })
      expect([status, bytes.equals(MP4.subarray(start, end))]).toEqual([206, true])
      expect(headers.get('content-range')).toBe(`bytes ${start}-${end - 1}/${MP4.length}`)
      expect(headers.get('content-length')).toBe(String(end - start))
      expect(headers.get('content-type')).toBe('video/mp4')
    })

    test('a range that it does not have', async () => {
      const failed = await download(answer, { range: 'bytes=99999-' }).catch(thrown => thrown)
      expect(failed.status).toBe(416)
      expect(failed.headers.get('content-range')).toBe(`bytes */${MP4.length}`)
    })

    test.each([
      ['of another video', { range: 'bytes=0-1', 'if-range': '"v0"' }],
      ['in other units', { range: 'lines=0-1' }],
      ['of several parts', { range: 'bytes=0-1,3-4' }],
    ])('a range %s is the whole', async (_, headers) => {
      const { status, bytes } = await download(answer, headers)
      expect([status, bytes.equals(MP4)]).toEqual([200, true])
    })

    test('a range of the same video', async () => {
      const asked = { range: 'bytes=0-1', 'if-range': ETAG.etag }
      expect((await download(answer, asked)).status).toBe(206)
    })
  })

  test('a provider that tells no length: the whole, as it comes', async () => {
    const answer = (): Script => [head(200, TYPE), MP4, { end: 'fin' }]
    const { status, headers, bytes } = await download(answer, { range: 'bytes=0-1' })
    expect([status, bytes.equals(MP4)]).toEqual([200, true])
    expect(headers.get('content-length')).toBeNull()
  })

  test('a page is no video, whatever part of it is asked for', async () => {
    const page = '<html>'.repeat(2_000)
    const answer = (): Script => [
      head(200, { 'content-type': 'text/html', 'content-length': String(page.length) }),
      page,
    ]
    const failed = await download(answer, { range: 'bytes=100-200' }).catch(thrown => thrown)
    expect(failed.status).toBe(502)
  })
})
