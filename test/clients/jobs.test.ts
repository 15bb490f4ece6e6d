import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import { fetchGeneration } from '../support/chat.ts'
import { type MediaStage, openMediaStage } from '../support/media.ts'
import { head, json, type Script } from '../support/upstream.ts'

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
