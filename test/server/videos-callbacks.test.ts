import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import { createHmac } from 'node:crypto'
import { cpSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openGateway } from '../../src/app/gateway.ts'
import { parseConfig } from '../../src/config.ts'
import type { VideoJob } from '../../src/resources/videos.ts'
import { runCommand } from '../support/commands.ts'
import { openDatabase } from '../support/database.ts'
import { createOtherWorkspace } from '../support/gateway.ts'
import { expectAtRest } from '../support/invariants.ts'
import { type Receiver, startReceiver } from '../support/receiver.ts'
import { type LocalServer, startLocalServer } from '../support/server.ts'
import { json, type Script, startUpstream, type Upstream } from '../support/upstream.ts'

const PACE = {
  ...{ firstPause: 1, longestPause: 1, longestRetry: 1 },
  ...{ firstCallback: 1, longestCallback: 1 },
}
const DONE = json({ id: 'video-1', status: 'completed', seconds: '4' })
const MOST_ATTEMPTS = 10

let provider: Upstream
let receiver: Receiver
let server: LocalServer
let poll: Script

const buildConfig = () => ({
  security: { allow_private_urls: [receiver.host] },
  providers: { local: { protocol: 'openai-chat', base_url: provider.url, api_key: 'mock' } },
  models: [
    {
      id: 'acme/film',
      output_modalities: ['video'],
      endpoints: [
        {
          provider: 'local',
          model: 'film-1',
          usd_per_million_tokens: { prompt: 0, completion: 0, per_second: 0.01 },
        },
      ],
    },
  ],
})

beforeAll(async () => {
  ;[provider, receiver] = await Promise.all([startUpstream(), startReceiver()])
  provider.answer(({ method }) =>
    method === 'POST' ? json({ id: 'video-1', status: 'queued' }) : poll,
  )
  server = await startLocalServer(buildConfig(), { pollPace: PACE })
  await server.gateway.videos.start()
})

beforeEach(() => {
  poll = DONE
  provider.hits.length = 0
  receiver.requests.length = 0
  receiver.answer = () => ({ status: 200 })
})

afterEach(async () => {
  await server.gateway.videos.rest()
  await expectAtRest(server.gateway)
})

afterAll(async () => {
  await server[Symbol.asyncDispose]()
  await Promise.all([provider.close(), receiver.close()])
})

const url = () => `${receiver.url}/hook?token=hidden-in-a-url`

const ask = (callback_url: unknown, more: object = {}) =>
  server.fetch('/videos', {
    json: { model: 'acme/film', prompt: 'A cat', duration: 4, callback_url, ...more },
  })

async function create(): Promise<{ id: string; generation_id: string }> {
  const response = await ask(url())
  if (response.status !== 202) throw new Error(await response.text())
  return (await response.json()) as { id: string; generation_id: string }
}

/** Resolves once it is known what came of a callback, and returns the job. */
async function settled(id: string): Promise<VideoJob> {
  const { videos } = server.gateway.store
  for (;;) {
    const job = await videos.find(id)
    if (job && job.callback !== 'waiting') return job
    await Bun.sleep(1)
  }
}

const options = () => ['--data', server.data, '--json']

async function readSecret(...more: string[]): Promise<string> {
  const { stdout } = await runCommand(['videos', 'secret', ...more, ...options()])
  return JSON.parse(stdout).data.secret
}

describe('the end of a job', () => {
  test.each<[string, () => Script]>([
    ['completed', () => DONE],
    ['failed', () => json({ id: 'video-1', status: 'failed', error: { message: 'Too dark' } })],
    ['cancelled', () => json({ id: 'video-1', status: 'cancelled' })],
  ])('that is %s is told once, signed, as the API shows it', async (status, answer) => {
    poll = answer()
    const { id, generation_id } = await create()
    await receiver.waitFor(1)
    const { method, path, headers, body } = receiver.requests[0] ?? {}
    expect([method, path]).toEqual(['POST', '/hook?token=hidden-in-a-url'])
    const told = JSON.parse(body ?? '')
    const shown = (await (await server.fetch(`/videos/${id}`)).json()) as object
    expect(told).toEqual({
      type: `video.generation.${status}`,
      created_at: expect.stringMatching(/^20.*Z$/),
      data: { ...shown, model: 'acme/film' },
    })
    expect(told.data).toMatchObject({ id, generation_id, status })
    expect(headers).toMatchObject({
      'content-type': 'application/json',
      'x-openrouter-idempotency-key': `${id}-${status}`,
    })
    const { t, v1 } = Object.fromEntries(
      (headers?.['x-openrouter-signature'] ?? '').split(',').map(part => part.split('=')),
    )
    expect(Math.abs(Number(t) - Date.now() / 1000)).toBeLessThan(300)
    const hmac = createHmac('sha256', await readSecret())
    expect(v1).toBe(hmac.update(`${t},${body}`).digest('hex'))
    expect(await settled(id)).toMatchObject({
      ...{ callback: 'delivered', callback_url: null, callback_attempts: 1, callback_error: null },
    })
    expect(receiver.requests).toHaveLength(1)
  })

  test('is told again until its receiver has it, always the same', async () => {
    const answers = [{ status: 500 }, 'reset', { status: 302 }, { status: 204 }] as const
    receiver.answer = (_, i) => answers[i] ?? { status: 200 }
    const { id } = await create()
    expect(await settled(id)).toMatchObject({ callback: 'delivered', callback_attempts: 4 })
    const keys = receiver.requests.map(({ headers }) => headers['x-openrouter-idempotency-key'])
    expect(keys).toEqual(Array(4).fill(`${id}-completed`))
    expect(new Set(receiver.requests.map(({ body }) => body)).size).toBe(1)
  })

  test('is given up after ten failures, which the operator sees', async () => {
    receiver.answer = () => ({ status: 503 })
    const { id } = await create()
    expect(await settled(id)).toMatchObject({ callback: 'failed', callback_url: null })
    expect(receiver.requests).toHaveLength(MOST_ATTEMPTS)
    const shown = await runCommand(['videos', 'get', id, ...options()])
    expect(JSON.parse(shown.stdout).data.callback).toEqual({
      ...{ status: 'failed', attempts: MOST_ATTEMPTS, error: 'It answered 503' },
    })
    const public_ = (await (await server.fetch(`/videos/${id}`)).json()) as object
    expect(public_).not.toHaveProperty('callback')
  })

  test('is told by the next process, where this one could not', async () => {
    receiver.answer = () => ({ status: 503, headers: { 'retry-after': '3600' } })
    const { id } = await create()
    await receiver.waitFor(1)
    await server.gateway.videos.rest()
    const data = mkdtempSync(join(tmpdir(), 'gateway-callbacks-'))
    cpSync(server.data, data, { recursive: true })
    const db = openDatabase(data)
    db.run("update videos set callback_at = '2026-01-01T00:00:00.000Z' where id = ?", [id])
    db.close()
    receiver.answer = () => ({ status: 200 })
    const config = parseConfig(JSON.stringify(buildConfig()), {})
    const next = await openGateway({ data, config, pollPace: PACE })
    await next.videos.start()
    await receiver.waitFor(2)
    await next.videos.rest()
    expect(await next.store.videos.find(id)).toMatchObject({
      ...{ callback: 'delivered', callback_attempts: 2 },
    })
    await next.close()
    rmSync(data, { recursive: true, force: true })
    await server.gateway.videos.stop()
    await server.gateway.videos.start()
    // What was asked for is kept: an hour later it would be told here too.
    expect(await server.gateway.store.videos.find(id)).toMatchObject({ callback: 'waiting' })
  })

  test('leaves its URL in no file', async () => {
    receiver.answer = () => ({ status: 503, headers: { 'retry-after': '3600' } })
    await create()
    await receiver.waitFor(1)
    await server.gateway.videos.rest()
    const db = openDatabase(server.data)
    const rows = db.query('select * from videos').all()
    db.close()
    expect(JSON.stringify(rows)).not.toContain('hidden-in-a-url')
  })

  test('is signed with another secret in another workspace', async () => {
    const { gateway } = server
    const id = gateway.ids.uuid()
    await createOtherWorkspace(gateway, id, 'inference')
    const secrets = [await readSecret(), await readSecret('--workspace', id)]
    expect(new Set(secrets).size).toBe(2)
    for (const secret of secrets) expect(secret).toMatch(/^whsec_[\w-]{43}$/)
  })
})

test.each<[string, unknown]>([
  ['nothing', ''],
  ['no text', 7],
  ['no URL', 'example.com/hook'],
  ['http', 'http://1.1.1.1/hook'],
  ['another scheme', 'ftp://1.1.1.1/hook'],
  ['a file', 'file:///etc/passwd'],
  ['credentials', 'https://a:b@1.1.1.1/hook'],
  ['a port of databases', 'https://1.1.1.1:5432/hook'],
  ['this machine', 'https://127.0.0.1/hook'],
  ['this machine by name', 'https://localhost/hook'],
  ['this machine in hex', 'https://0x7f000001/hook'],
  ['this machine in IPv6', 'https://[::1]/hook'],
  ['a private network', 'https://10.0.0.1/hook'],
  ['the metadata of a cloud', 'https://169.254.169.254/latest'],
  ['a host that does not exist', 'https://host.invalid/hook'],
  ['more than a URL has', `https://1.1.1.1/${'a'.repeat(8_192)}`],
])('a callback to %s is a 400, and nothing is sent', async (_, callback_url) => {
  const response = await ask(callback_url)
  const { error } = (await response.json()) as { error: { metadata: { field?: string } } }
  expect([response.status, error.metadata?.field]).toEqual([400, 'callback_url'])
  expect(provider.hits).toEqual([])
  const dry = await ask(callback_url, { debug: { dry_run: true } })
  expect(dry.status).not.toBe(200)
})
