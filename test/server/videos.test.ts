import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import { cpSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Gateway, openGateway } from '../../src/app/gateway.ts'
import { systemClock } from '../../src/base/clock.ts'
import { hashSecret } from '../../src/base/credential.ts'
import { parseConfig } from '../../src/config.ts'
import { listDeadCalls, recoverCalls } from '../../src/engine/recover.ts'
import { getJobProvider } from '../../src/extensions/videos/ask.ts'
import { hashUser } from '../../src/limits/call-budgets.ts'
import { updateGuardrail } from '../../src/limits/guardrails.ts'
import type { Account, Subaccount } from '../../src/limits/ledger.ts'
import { getOperator } from '../../src/resources/actor.ts'
import { getDefaultGuardrailId } from '../../src/resources/default-guardrail.ts'
import type { Provider } from '../../src/resources/providers/provider.ts'
import type { VideoJob } from '../../src/resources/videos.ts'
import { readBooks } from '../support/books.ts'
import { createLimitedKey, fetchGeneration, fetchKeyState } from '../support/chat.ts'
import { runCommand } from '../support/commands.ts'
import { createOtherWorkspace } from '../support/gateway.ts'
import { expectAtRest } from '../support/invariants.ts'
import { type LocalServer, startLocalServer } from '../support/server.ts'
import {
  body,
  type Hit,
  head,
  htmlError,
  json,
  type Script,
  startUpstream,
  status,
  type Upstream,
} from '../support/upstream.ts'

/** The head of an MP4 file, and bytes after it. */
const MP4 = Buffer.concat([
  Buffer.from('00000018667479706d703432000000006d70343269736f6d', 'hex'),
  Buffer.alloc(9_000, 7),
])
const SECONDS = 4
/** A cent for each second. */
const COST = 0.04
const PNG = 'data:image/png;base64,iVBORw0KGgo='

let provider: Upstream
let server: LocalServer
/** What the provider answers to the call, to a question about the job, and with the video. */
let begin: Script
let poll: Script | ((hit: Hit) => Script)
let content: Script
let clock: { now(): Date; ticks(): number }
let jump: { now: number; ticks: number }

const video = (type = 'video/mp4', bytes: Uint8Array = MP4): Script => [
  head(200, { 'content-type': type, 'content-length': String(bytes.length) }),
  bytes,
]

const RUNNING = json({ id: 'video-1', status: 'in_progress' })
const DONE = json({ id: 'video-1', status: 'completed', seconds: String(SECONDS) })

const buildConfig = (more: object = {}) => ({
  providers: {
    local: { protocol: 'openai-chat', base_url: provider.url, api_key: 'mock' },
    runner: { protocol: 'runway', base_url: provider.url, api_key: 'mock' },
    veo: { protocol: 'gemini', base_url: provider.url, api_key: 'mock' },
  },
  models: [
    ['acme/film', 'local', 'film-1'],
    ['acme/run', 'runner', 'gen4.5'],
    ['acme/move', 'runner', 'gen4_turbo'],
    ['acme/veo', 'veo', 'veo-3.1-generate-preview'],
    ['acme/sora', 'local', 'sora-2'],
  ].map(([id, slug, model]) => ({
    id,
    output_modalities: ['video'],
    endpoints: [
      {
        provider: slug,
        model,
        usd_per_million_tokens: {
          prompt: 0,
          completion: 0,
          per_second: 0.01,
          per_second_1080p: 0.02,
        },
      },
    ],
  })),
  ...more,
})

const PACE = { firstPause: 1, longestPause: 1, longestRetry: 1 }

async function start(more: object = {}): Promise<void> {
  await server?.[Symbol.asyncDispose]()
  server = await startLocalServer(buildConfig(more), { pollPace: PACE, clock })
}

beforeAll(async () => {
  clock = {
    now: () => new Date(Date.now() + jump.now),
    ticks: () => systemClock.ticks() + jump.ticks,
  }
  jump = { now: 0, ticks: 0 }
  provider = await startUpstream()
  provider.answer(hit => {
    if (hit.method === 'POST') return begin
    if (hit.path.includes('content') || hit.path.includes('download')) return content
    return typeof poll === 'function' ? poll(hit) : poll
  })
  await start()
})

beforeEach(() => {
  begin = json({ id: 'video-1', status: 'queued' })
  poll = DONE
  content = video()
  jump = { now: 0, ticks: 0 }
  provider.hits.length = 0
})

// What a test has left open ends before the next one.
afterEach(async () => {
  poll = DONE
  const { videos, store } = server.gateway
  const open = await store.videos.listOpen()
  await videos.start()
  await Promise.all(open.map(job => recorded(server.gateway, job.generation_id)))
  await videos.stop()
  await expectAtRest(server.gateway)
})

afterAll(async () => {
  await server[Symbol.asyncDispose]()
  await provider.close()
})

interface Job {
  id: string
  generation_id: string
  status: string
  error?: string
  polling_url: string
  unsigned_urls?: string[]
  usage?: { cost: number; is_byok: boolean }
}

const ask = (more: object = {}, init: object = {}) =>
  server.fetch('/videos', {
    json: { model: 'acme/film', prompt: 'A cat', duration: SECONDS, ...more },
    ...init,
  })

async function create(more: object = {}, init: object = {}): Promise<Job> {
  const response = await ask(more, init)
  const job = (await response.json()) as Job
  if (response.status !== 202) throw new Error(`${response.status} ${JSON.stringify(job)}`)
  return job
}

const look = async (id: string, init: object = {}) => {
  const response = await server.fetch(`/videos/${id}`, init)
  return { code: response.status, ...((await response.json()) as Job) }
}

/** Resolves when the call is on record. */
async function recorded(gateway: Gateway, id: string): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>()
  const unlisten = gateway.events.on('generation.finished', one => one.id === id && resolve())
  if (!(await gateway.store.generations.byId(id))) await promise
  unlisten()
}

async function finish(job: Job): Promise<Job & { code: number }> {
  await server.gateway.videos.start()
  await recorded(server.gateway, job.generation_id)
  return look(job.id)
}

const fetchContent = (id: string, query = '') => server.fetch(`/videos/${id}/content${query}`)

/** The requests of this method. */
const hits = (method: string) => provider.hits.filter(hit => hit.method === method)

describe('a job', () => {
  test('begins, goes on, ends and is charged once', async () => {
    const key = await createLimitedKey(server, 1)
    const response = await ask({}, { key })
    const job = (await response.json()) as Job
    expect([response.status, job.status]).toEqual([202, 'pending'])
    expect(job.id).toMatch(/^job-[0-9a-f]{32}$/)
    expect(job.polling_url).toBe(`/api/v1/videos/${job.id}`)
    expect(response.headers.get('x-generation-id')).toBe(job.generation_id)
    expect(hits('POST')[0]?.json).toEqual({ model: 'film-1', prompt: 'A cat', seconds: '4' })
    expect(await look(job.id, { key })).toMatchObject({ code: 200, status: 'pending' })
    expect((await fetchKeyState(server, key)).usage).toBe(0)

    const done = await finish(job)
    expect(done).toMatchObject({ status: 'completed', usage: { cost: COST, is_byok: false } })
    const { siteUrl } = server.gateway.instance
    expect(done.unsigned_urls).toEqual([`${siteUrl}${job.polling_url}/content?index=0`])
    expect(await fetchKeyState(server, key)).toMatchObject({ usage: COST, limit_remaining: 0.96 })
    const record = await fetchGeneration(server, job.generation_id, key)
    expect(record).toMatchObject({ api_type: 'video', total_cost: COST, finish_reason: 'stop' })
    expect(server.gateway.videos.size).toBe(0)
  })

  test('keeps its money set aside until it ends', async () => {
    server.gateway.config.limits.wait_seconds = 0
    const key = await createLimitedKey(server, 1.5 * COST)
    const job = await create({}, { key })
    expect((await ask({}, { key })).status).toBe(402)
    expect(hits('POST')).toHaveLength(1)
    poll = json({ id: 'video-1', status: 'failed', error: { message: 'Too dark' } })
    await finish(job)
    expect((await ask({}, { key })).status).toBe(202)
  })

  test.each([
    ['failed', { status: 'failed', error: { message: 'Too dark' } }, 'Too dark'],
    ['cancelled', { status: 'cancelled' }, undefined],
    ['failed', { status: 'expired' }, undefined],
  ])('that is %s costs nothing', async (end, answer, error) => {
    const key = await createLimitedKey(server, 1)
    const job = await create({}, { key })
    poll = json({ id: 'video-1', ...answer })
    const ended = await finish(job)
    expect(ended).toMatchObject({ status: end, usage: { cost: 0 } })
    expect(ended.error).toBe(error)
    expect(await fetchKeyState(server, key)).toMatchObject({ usage: 0, limit_remaining: 1 })
    const record = await fetchGeneration(server, job.generation_id, key)
    expect(record).toMatchObject({ total_cost: 0, finish_reason: 'error' })
    expect((await fetchContent(job.id)).status).toBe(410)
  })

  test('costs more in a higher resolution', async () => {
    const done = await finish(await create({ size: '1920x1080' }))
    expect(done.usage?.cost).toBe(2 * COST)
    expect(hits('POST')[0]?.json).toMatchObject({ size: '1920x1080' })
  })

  test('costs what was asked for where a provider counts what cannot be', async () => {
    poll = json({ id: 'video-1', status: 'completed', seconds: '999999' })
    expect((await finish(await create())).usage?.cost).toBe(COST)
  })

  test('outlives failures of its provider', async () => {
    const answers = [status(429), status(500), htmlError(502), json({ odd: 1 }), status(404), DONE]
    poll = () => answers.shift() ?? DONE
    expect(await finish(await create())).toMatchObject({ status: 'completed' })
    expect(hits('GET').length).toBeGreaterThanOrEqual(6)
  })

  test('fails where its provider has forgotten it', async () => {
    poll = status(404)
    const ended = await finish(await create())
    expect(ended).toMatchObject({ status: 'failed', usage: { cost: 0 } })
    expect(ended.error).toBe('The provider does not know the job any more')
    expect(hits('GET')).toHaveLength(3)
  })

  test('expires where it never ends, and is ended at its provider', async () => {
    poll = hit => {
      if (hit.method === 'GET') jump.ticks += 3_600_000
      return RUNNING
    }
    const ended = await finish(await create())
    expect(ended).toMatchObject({ status: 'expired', usage: { cost: 0 } })
    expect(hits('DELETE').map(({ path }) => path)).toEqual(['/v1/videos/video-1'])
  })

  test.each([-1, 1])('is not ended by a calendar that jumps %d years', async years => {
    const answers = [RUNNING, RUNNING, DONE]
    poll = () => {
      jump.now += years * 31_536_000_000
      return answers.shift() ?? DONE
    }
    expect(await finish(await create())).toMatchObject({ status: 'completed' })
  })

  test('goes on when its client leaves, and when its key is deleted', async () => {
    begin = [{ wait: 'accept' }, json({ id: 'video-1', status: 'queued' })]
    const key = await createLimitedKey(server, 1)
    const hash = hashSecret(key)
    const controller = new AbortController()
    const call = ask({}, { key, signal: controller.signal }).catch(() => null)
    await provider.hit()
    controller.abort()
    await call
    const { events } = server.gateway
    const closed = new Promise<string>(resolve => {
      events.on('call.closed', ({ call: { id } }) => resolve(id))
    })
    provider.open('accept')
    const id = await closed
    await server.fetch(`/keys/${hash}`, { method: 'DELETE', key: server.management_key })
    await server.gateway.videos.start()
    await recorded(server.gateway, id)
    expect(readBooks(server.data, key)).toMatchObject({ ledger: 40_000_000, calls: 1 })
  })

  test('is ended by the operator, at its provider too, and costs nothing', async () => {
    poll = RUNNING
    const job = await create()
    const options = ['--data', server.data, '--json']
    const listed = await runCommand(['videos', 'list', '--status', 'pending', ...options])
    expect(JSON.parse(listed.stdout)).toMatchObject({ data: [{ id: job.id, provider: 'local' }] })
    expect((await runCommand(['videos', 'cancel', job.id, ...options])).code).toBe(0)
    await server.gateway.catchUp()
    const ended = await finish(job)
    expect(ended).toMatchObject({ status: 'cancelled', usage: { cost: 0 } })
    expect(hits('DELETE')).toHaveLength(1)
    const again = await runCommand(['videos', 'cancel', job.id, ...options])
    expect([again.code, again.stderr]).toEqual([4, expect.stringContaining('has ended')])
    const shown = await runCommand(['videos', 'get', job.id, ...options])
    expect(JSON.parse(shown.stdout)).toMatchObject({ data: { status: 'cancelled' } })
    expect((await runCommand(['videos', 'get', 'job-nothing', ...options])).code).toBe(3)
  })
})

describe('a list of open jobs that is read', () => {
  test('while one ends does not have that one charged again', async () => {
    const key = await createLimitedKey(server, 1)
    const account: Account = `key ${hashSecret(key)}`
    const { ledger, store, videos } = server.gateway
    const { generation_id } = await create({}, { key })
    const { listOpen } = store.videos
    const [read, held] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
    store.videos.listOpen = async () => {
      const open = await listOpen()
      read.resolve()
      await held.promise
      return open
    }
    const loading = videos.load()
    await read.promise
    store.videos.listOpen = listOpen
    await videos.start()
    await recorded(server.gateway, generation_id)
    await videos.rest()
    held.resolve()
    await loading
    expect(videos.size).toBe(0)
    expect(ledger.getSpent(account, null, false)).toBe(40_000_000n)
  })

  test('before this process knows that it has stored one sets its money aside once', async () => {
    const key = await createLimitedKey(server, 1)
    const account: Account = `key ${hashSecret(key)}`
    const { ledger, store, videos } = server.gateway
    const { insert } = store.videos
    store.videos.insert = async job => {
      await insert(job)
      await videos.load()
    }
    const job = await create({}, { key }).finally(() => {
      store.videos.insert = insert
    })
    expect(ledger.getHeld(account, false)).toBe(40_000_000n)
    await finish(job)
    expect(ledger.getHeld(account, false)).toBe(0n)
    expect(ledger.getSpent(account, null, false)).toBe(40_000_000n)
  })
})

describe('a job of a caller’s own provider key', () => {
  const manage = async (method: string, path: string, body?: object) => {
    const init = { method, key: server.management_key, ...(body ? { json: body } : {}) }
    return (await (await server.fetch(path, init)).json()) as { data: { id: string } }
  }
  const credentials = () => [...new Set(provider.hits.map(({ headers }) => headers.authorization))]

  test('is begun, asked about, downloaded and ended with that key, and costs us nothing', async () => {
    const { data } = await manage('POST', '/byok', { provider: 'local', key: 'sk-mine' })
    const key = await createLimitedKey(server, 1)
    const job = await create({}, { key })
    const done = await finish(job)
    expect(done).toMatchObject({ status: 'completed', usage: { cost: 0, is_byok: true } })
    expect((await server.fetch(`/videos/${job.id}/content`, { key })).status).toBe(200)
    expect(credentials()).toEqual(['Bearer sk-mine'])
    expect(await fetchKeyState(server, key)).toMatchObject({ usage: 0, byok_usage: COST })
    expect(await fetchGeneration(server, job.generation_id, key)).toMatchObject({
      ...{ is_byok: true, total_cost: 0, upstream_inference_cost: COST },
    })
    await manage('DELETE', `/byok/${data.id}`)
    // Its videos went with the key.
    expect((await server.fetch(`/videos/${job.id}/content`, { key })).status).toBe(503)
  })

  test('whose key is gone is not asked about with another, and expires', async () => {
    const { data } = await manage('POST', '/byok', { provider: 'local', key: 'sk-mine' })
    const job = await create()
    await manage('DELETE', `/byok/${data.id}`)
    jump.ticks += 3_600_001
    const ended = await finish(job)
    expect(ended).toMatchObject({ status: 'expired', usage: { cost: 0 } })
    expect(credentials()).toEqual(['Bearer sk-mine'])
  })
})

describe('a job of a provider with several credentials', () => {
  const startPool = (names: string[]) => {
    const { local: _, ...providers } = buildConfig().providers
    const credentials = names.map((name, i) => ({ name, api_key: `sk-${name}`, weight: i }))
    const local = { protocol: 'openai-chat', base_url: provider.url, credentials }
    return start({ providers: { ...providers, local } })
  }
  afterAll(() => start())

  test('is begun with any, and asked about and downloaded with the same', async () => {
    await startPool(['first', 'second'])
    const job = await create()
    expect((await finish(job)).status).toBe('completed')
    expect((await fetchContent(job.id)).status).toBe(200)
    const used = new Set(provider.hits.map(({ headers }) => headers.authorization))
    expect([...used]).toEqual(['Bearer sk-second'])
    const kept = await server.gateway.store.videos.find(job.id)
    expect(kept?.credential).toBe('second')
  })

  test('whose credential is gone is asked about with no other', async () => {
    await startPool(['first', 'second'])
    const job = await server.gateway.store.videos.find((await create()).id)
    const gone = { ...(job as VideoJob), credential: 'third' }
    expect(() => getJobProvider(server.gateway, gone)).toThrow(
      'The provider local has no credential third any more',
    )
    const before = { ...gone, credential: null }
    const local = server.gateway.catalog.providers.get('local')
    expect(getJobProvider(server.gateway, before)).toBe(local as Provider)
  })
})

describe('whose job it is', () => {
  test('is not told to others', async () => {
    const job = await finish(await create())
    const { gateway } = server
    const { key } = await createOtherWorkspace(gateway, gateway.ids.uuid(), 'inference')
    for (const path of ['', '/content'])
      for (const [id, init, code] of [
        [job.id, { key }, 404],
        ['job-00000000000000000000000000000000', {}, 404],
        ['%2e%2e', {}, 404],
        [job.id, { key: null }, 401],
      ] as const)
        expect((await server.fetch(`/videos/${id}${path}`, init)).status).toBe(code)
    expect((await fetchContent(job.id)).status).toBe(200)
  })
})

describe('a request', () => {
  test.each<[string, object, string]>([
    ['nothing to go by', { prompt: '' }, 'prompt'],
    ['a size of another resolution', { size: '1280x720', resolution: '1080p' }, 'size'],
    ['a size of another ratio', { size: '1280x720', aspect_ratio: '9:16' }, 'size'],
    ['a size beyond all', { size: '9000x720' }, 'size'],
    [
      'a frame by another scheme',
      frames('ftp://example.com/a.png'),
      'frame_images.0.image_url.url',
    ],
    ['a frame twice', frames(PNG, PNG), 'frame_images.1.frame_type'],
    [
      'a frame in the private network',
      frames('http://127.0.0.1/a.png'),
      'frame_images.0.image_url.url',
    ],
    [
      'a sound in itself',
      { input_references: [{ type: 'audio_url', audio_url: { url: 'data:audio/wav;base64,AA' } }] },
      'input_references.0.audio_url.url',
    ],
    ['a callback in the private network', { callback_url: 'https://10.0.0.1/' }, 'callback_url'],
    [
      'a parameter of nobody',
      { provider: { options: { local: { x: 1 } } } },
      'provider.options.local.x',
    ],
  ])('with %s is a 400 that names the field', async (_, more, field) => {
    const response = await ask(more)
    expect(response.status).toBe(400)
    const { error } = (await response.json()) as { error: { metadata: { field?: string } } }
    expect(error.metadata.field).toBe(field)
    expect(provider.hits).toEqual([])
  })

  test.each<[object, string, object]>([
    [{ duration: 5 }, 'duration', { durationSeconds: 4 }],
    [{ duration: 600 }, 'duration', { durationSeconds: 8 }],
    [{ resolution: '2K' }, 'resolution', { resolution: '1080p' }],
    [{ aspect_ratio: '1:1' }, 'aspect_ratio', { aspectRatio: '16:9' }],
    [{ generate_audio: false }, 'generate_audio', {}],
    [{ upscale_factor: 2, creativity: 5 }, 'upscale_factor, creativity', {}],
    [
      { input_references: [{ type: 'audio_url', audio_url: { url: 'https://example.com/a' } }] },
      'input_references',
      {},
    ],
  ])('of which no endpoint does %j gets the nearest, and is told %s', async (more, field, sent) => {
    begin = json({ name: 'models/veo/operations/1' })
    poll = json({ done: true, error: { message: 'No' } })
    const response = await ask({ model: 'acme/veo', ...more })
    expect([response.status, response.headers.get('x-gateway-ignored')]).toEqual([202, field])
    expect(hits('POST')[0]?.json).toMatchObject({ parameters: sent })
    await finish((await response.json()) as Job)
  })

  test('costs the length that the provider was asked for', async () => {
    poll = json({ id: 'video-1', status: 'completed' })
    const job = await finish(await create({ model: 'acme/sora', duration: 600 }))
    expect(hits('POST')[0]?.json).toMatchObject({ seconds: '12' })
    expect(job.usage?.cost).toBeCloseTo(12 * 0.01)
  })

  test('without a picture is a 404 that says so where a model only moves one', async () => {
    const response = await ask({ model: 'acme/move', duration: 5 })
    const { error } = (await response.json()) as { error: { message: string } }
    expect([response.status, error.message]).toEqual([404, expect.stringContaining('frame_images')])
    begin = json({ id: 'video-1' })
    poll = json({ status: 'FAILED' })
    const moved = await finish(await create({ model: 'acme/move', duration: 5, ...frames(PNG) }))
    expect(moved.status).toBe('failed')
  })

  test('takes its first frame along as a file', async () => {
    expect((await ask(frames(PNG))).status).toBe(202)
    const { headers, body: form } = hits('POST')[0] as Hit
    expect(headers['content-type']).toStartWith('multipart/form-data')
    expect(form).toContain('name="input_reference"')
  })
})

describe('a form, as OpenAI’s clients send it', () => {
  const send = (fields: Record<string, string | Blob>) => {
    const form = new FormData()
    for (const [name, value] of Object.entries(fields)) form.append(name, value)
    const headers = { authorization: `Bearer ${server.inference_key}` }
    return fetch(`${server.base}/videos`, { method: 'POST', body: form, headers })
  }
  const file = (text: string | Uint8Array<ArrayBuffer>) => new File([text], 'a.png')
  const fields = { model: 'acme/film', prompt: 'A cat', seconds: '4' }

  test('is the same as JSON, and needs no file', async () => {
    expect((await send({ ...fields, size: '1280x720' })).status).toBe(202)
    expect(hits('POST')[0]?.json).toEqual({
      ...{ model: 'film-1', prompt: 'A cat', seconds: '4', size: '1280x720' },
    })
  })

  test.each<[string, Record<string, string>]>([
    ['prompt', { prompt: 'ö'.repeat(100_000) }],
    ['picture', { 'input_reference[image_url]': `${PNG.slice(0, -4)}${'A'.repeat(1024 * 1024)}` }],
  ])('takes the largest %s', async (_, more) => {
    expect((await send({ ...fields, ...more })).status).toBe(202)
  })

  test.each<[string, Record<string, string | Blob>, number, string | null]>([
    ['no length', { ...fields, seconds: 'long' }, 400, 'seconds'],
    ['half a second', { ...fields, seconds: '0.5' }, 400, 'seconds'],
    ['a negative length', { ...fields, seconds: '-4' }, 400, 'seconds'],
    ['a field of JSON', { ...fields, duration: '4' }, 400, 'duration'],
    ['no model', { prompt: 'A cat' }, 400, 'model'],
    ['a page as a picture', { ...fields, input_reference: file('<html>') }, 400, 'input_reference'],
    ['an empty picture', { ...fields, input_reference: file('') }, 400, 'input_reference'],
    ['a text as a file', { ...fields, input_reference: 'abc' }, 400, 'input_reference'],
    [
      'a stored file',
      { ...fields, 'input_reference[file_id]': 'file-1' },
      ...([400, 'input_reference[file_id]'] as const),
    ],
    [
      'two pictures',
      {
        ...fields,
        input_reference: file(Buffer.from('iVBORw0KGgo=', 'base64')),
        'input_reference[image_url]': PNG,
      },
      ...([400, 'input_reference'] as const),
    ],
    [
      'a picture at a private address',
      { ...fields, 'input_reference[image_url]': 'http://10.0.0.1/a.png' },
      ...([400, 'frame_images.0.image_url.url'] as const),
    ],
    [
      '20 MiB and a byte',
      { ...fields, input_reference: file(new Uint8Array(20_971_521)) },
      ...([413, null] as const),
    ],
  ])('with %s is refused, and leaves nothing', async (_, form, code, field) => {
    const response = await send(form)
    const { error } = (await response.json()) as { error: { metadata?: { field?: string } } }
    expect(response.status).toBe(code)
    expect(error.metadata?.field ?? null).toBe(field)
    expect(provider.hits).toEqual([])
  })
})

function frames(...urls: string[]) {
  return {
    frame_images: urls.map(url => ({
      ...{ type: 'image_url', image_url: { url } },
      frame_type: 'first_frame',
    })),
  }
}

describe('a video', () => {
  test('comes from its provider, with the credential', async () => {
    const job = await create()
    expect((await fetchContent(job.id)).status).toBe(409)
    await finish(job)
    const response = await fetchContent(job.id, '?index=0')
    expect([response.status, response.headers.get('content-type')]).toEqual([200, 'video/mp4'])
    expect(response.headers.get('x-content-type-options')).toBe('nosniff')
    expect(Buffer.from(await response.arrayBuffer()).equals(MP4)).toBe(true)
    const { path, headers } = hits('GET').at(-1) as Hit
    expect([path, headers.authorization]).toEqual(['/v1/videos/video-1/content', 'Bearer mock'])
  })

  test.each([
    ['?index=1', 404],
    ['?index=-1', 400],
    ['?index=0.5', 400],
    ['?index=x', 400],
    ['?other=1', 400],
  ])('at %s is a %d', async (query, code) => {
    const job = await finish(await create())
    expect((await fetchContent(job.id, query)).status).toBe(code)
  })

  test.each<[string, Script, number]>([
    ['a page', htmlError(200), 502],
    ['a page as a video', body('video/mp4', '<html><title>Sign in</title></html>'), 502],
    ['nothing', body('video/mp4', ''), 502],
    ['JSON', json({ error: 'no' }), 502],
    ['a failure', status(500), 502],
    ['a refusal', status(403), 502],
    ['that it is gone', status(404), 410],
    ['that it is gone for good', status(410), 410],
    ['a redirect to the private network', head(302, { location: 'http://127.0.0.1/a' }), 502],
    ['a redirect to nowhere', head(302, { location: 'http://[/' }), 502],
  ])('of which the provider sends %s is none', async (_, answer, code) => {
    const job = await finish(await create())
    content = answer
    const response = await fetchContent(job.id)
    expect([response.status, response.headers.get('content-type')]).toEqual([
      code,
      'application/json;charset=utf-8',
    ])
  })

  test('that breaks off breaks the response off', async () => {
    const job = await finish(await create())
    content = [
      head(200, { 'content-type': 'video/mp4', 'content-length': '99999' }),
      MP4,
      { end: 'fin' },
    ]
    const reading = (await fetchContent(job.id)).arrayBuffer()
    expect(
      await reading.then(
        () => 'whole',
        () => 'broken',
      ),
    ).toBe('broken')
  })

  test('at a URL of the private network is not fetched, unless the operator allows it', async () => {
    const host = new URL(provider.url).host
    begin = json({ id: 'video-1' })
    poll = json({ status: 'SUCCEEDED', output: [`http://${host}/a/content`] })
    const job = await finish(await create({ model: 'acme/run', duration: 5 }))
    expect((await fetchContent(job.id)).status).toBe(502)
    expect(provider.hits.some(({ path }) => path === '/a/content')).toBe(false)
    await server.gateway.videos.stop()
    await start({ security: { allow_private_urls: [host] } })
    const allowed = await finish(await create({ model: 'acme/run', duration: 5 }))
    const response = await fetchContent(allowed.id)
    expect([response.status, (await response.arrayBuffer()).byteLength]).toEqual([200, MP4.length])
    const { headers } = provider.hits.find(({ path }) => path === '/a/content') as Hit
    expect(headers.authorization).toBeUndefined()
    await start()
  })

  test('of Google’s comes from its file, with the key', async () => {
    const name = 'models/veo-3.1-generate-preview/operations/1'
    begin = json({ name })
    const samples = [{ video: { uri: `${provider.url}/files/1:download?alt=media` } }]
    poll = json({
      name,
      done: true,
      response: { generateVideoResponse: { generatedSamples: samples } },
    })
    const job = await finish(await create({ model: 'acme/veo', resolution: '1080p' }))
    expect(hits('POST')[0]).toMatchObject({
      path: '/v1/models/veo-3.1-generate-preview:predictLongRunning',
      json: {
        instances: [{ prompt: 'A cat' }],
        parameters: { durationSeconds: 4, resolution: '1080p', aspectRatio: '16:9' },
      },
    })
    expect((await fetchContent(job.id)).status).toBe(200)
    const { path, headers } = hits('GET').at(-1) as Hit
    expect([path, headers['x-goog-api-key']]).toEqual(['/v1/files/1:download?alt=media', 'mock'])
  })
})

describe('a killed process', () => {
  beforeEach(() => start())

  /** Opens a gateway on what a killed one would leave at this moment, and recovers its calls. */
  async function reopen(data: string): Promise<{ gateway: Gateway; dead: number; data: string }> {
    const copy = mkdtempSync(join(tmpdir(), 'gateway-videos-'))
    cpSync(data, copy, { recursive: true })
    const config = parseConfig(JSON.stringify(buildConfig()), {})
    const gateway = await openGateway({ data: copy, config, pollPace: PACE })
    const { calls: dead } = await recoverCalls(gateway)
    return { gateway, dead, data: copy }
  }

  async function closeAll({ gateway, data }: { gateway: Gateway; data: string }): Promise<void> {
    await gateway.close()
    rmSync(data, { recursive: true, force: true })
  }

  test('before the job is known has lost a call that costs nothing', async () => {
    begin = [{ wait: 'never' }]
    const key = await createLimitedKey(server, 1)
    const call = ask({}, { key }).catch(() => null)
    await provider.hit()
    const next = await reopen(server.data)
    expect(next.dead).toBe(1)
    expect(next.gateway.videos.size).toBe(0)
    expect(readBooks(next.data, key)).toEqual({
      ...{ ledger: 0, counted: 0, recorded: 0, calls: 1, held: 0 },
    })
    await closeAll(next)
    await server.gateway.traffic.calls.drain(0)
    await call
  })

  test('after that goes on with the job and its money, and charges it once', async () => {
    const key = await createLimitedKey(server, 1)
    const hash = hashSecret(key)
    const { id, generation_id } = await create({}, { key })
    const next = await reopen(server.data)
    const { gateway } = next
    expect([next.dead, await listDeadCalls(gateway)]).toEqual([0, []])
    expect(gateway.ledger.getHeld(`key ${hash}`, false)).toBe(0n)
    await gateway.videos.load()
    expect(gateway.ledger.getHeld(`key ${hash}`, false)).toBe(40_000_000n)
    await gateway.videos.start()
    await recorded(gateway, generation_id)
    expect(gateway.ledger.getHeld(`key ${hash}`, false)).toBe(0n)
    expect(gateway.ledger.getSpent(`key ${hash}`, null, false)).toBe(40_000_000n)
    expect(await gateway.store.videos.find(id)).toMatchObject({ status: 'completed' })
    expect(readBooks(next.data, key)).toMatchObject({ ledger: 40_000_000, counted: 40_000_000 })
    await closeAll(next)
  })

  test('goes on within the budget of its end user, and charges that once', async () => {
    const { workspace_id } = server.gateway.memory.owner
    const actor = getOperator(server.gateway)
    const rule = getDefaultGuardrailId(workspace_id)
    const each = { by: 'end_user' as const, limit_usd: 1, reset_interval: 'monthly' as const }
    await updateGuardrail(server.gateway, actor, rule, { budgets: [each] })
    const key = await createLimitedKey(server, 1)
    const { generation_id } = await create({ user: 'ada' }, { key })
    const account: Subaccount = `end_user workspace ${workspace_id} ${hashUser(workspace_id, 'ada')}`
    expect(server.gateway.ledger.getHeld(account, false)).toBe(40_000_000n)
    const next = await reopen(server.data)
    const { ledger, videos } = next.gateway
    await videos.load()
    expect(ledger.getHeld(account, false)).toBe(40_000_000n)
    // A database that is away for a moment has the job asked about again, and ended then.
    const { ledger: days } = next.gateway.store
    const list = days.listSubaccountDays.bind(days)
    let failures = 0
    days.listSubaccountDays = (...range) =>
      failures++ === 0 ? Promise.reject(new Error('away')) : list(...range)
    await videos.start()
    await recorded(next.gateway, generation_id)
    expect(ledger.getHeld(account, false)).toBe(0n)
    expect(ledger.getSpent(account, 'monthly', false)).toBe(40_000_000n)
    expect(await next.gateway.store.ledger.listSubaccountDays([account], 0)).toMatchObject([
      { nanos: 40_000_000n },
    ])
    await closeAll(next)
    await updateGuardrail(server.gateway, actor, rule, { budgets: null })
  })

  test('between the provider’s answer and the record asks again, and charges once', async () => {
    const key = await createLimitedKey(server, 1)
    const { gateway } = server
    const { generation_id } = await create({}, { key })
    const held = Promise.withResolvers<void>()
    const reached = Promise.withResolvers<void>()
    const { record } = gateway.store.generations
    gateway.store.generations.record = async batch => {
      reached.resolve()
      await held.promise
      return record(batch)
    }
    await gateway.videos.start()
    await reached.promise
    const next = await reopen(server.data)
    await next.gateway.videos.start()
    await recorded(next.gateway, generation_id)
    expect(readBooks(next.data, key)).toMatchObject({ ledger: 40_000_000, calls: 1 })
    held.resolve()
    await recorded(gateway, generation_id)
    const after = await reopen(server.data)
    await after.gateway.videos.start()
    expect([after.dead, after.gateway.videos.size]).toEqual([0, 0])
    expect(readBooks(after.data, key)).toMatchObject({ ledger: 40_000_000, calls: 1 })
    await Promise.all([closeAll(next), closeAll(after)])
  })

  test('a job that cannot be stored is an error, costs nothing and sets nothing aside', async () => {
    const key = await createLimitedKey(server, 1)
    server.gateway.store.videos.insert = async () => {
      throw new Error('disk full')
    }
    expect((await ask({}, { key })).status).toBe(503)
    expect(server.gateway.ledger.getHeld(`key ${hashSecret(key)}`, false)).toBe(0n)
    expect(readBooks(server.data, key)).toMatchObject({ ledger: 0, calls: 1 })
  })
})

test('models that make videos are listed with what they can be asked for', async () => {
  const { data } = (await (await server.fetch('/videos/models')).json()) as {
    data: { id: string }[]
  }
  expect(data.find(({ id }) => id === 'acme/veo')).toMatchObject({
    supported_durations: [4, 6, 8],
    supported_resolutions: ['720p', '1080p', '4K'],
    supported_frame_images: ['first_frame', 'last_frame'],
    generate_audio: true,
    pricing_skus: { per_second: '0.01', per_second_1080p: '0.02' },
  })
})
