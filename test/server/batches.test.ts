import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openGateway } from '../../src/app/gateway.ts'
import { createApp } from '../../src/server/app.ts'
import { buildLine } from '../support/batches.ts'
import { findFaults } from '../support/books.ts'
import { runCommand } from '../support/commands.ts'
import { createTestKeys, testGateway } from '../support/gateway.ts'
import { buildFileForm } from '../support/operations.ts'
import { buildLocalConfig, type Server, startServer } from '../support/server.ts'
import { completion, startUpstream, type Upstream } from '../support/upstream.ts'

describe('over HTTP', () => {
  const body = (more: object = {}) => ({
    endpoint: '/v1/chat/completions',
    model: 'sandbox/echo',
    requests: [{ custom_id: 'a', body: { messages: [{ role: 'user', content: 'Hi' }] } }],
    ...more,
  })

  async function open(config: Record<string, unknown> = {}) {
    const gateway = await testGateway({ config })
    const keys = await createTestKeys(gateway)
    const app = createApp(gateway, () => '127.0.0.1')
    const ask = async (method: string, path: string, json?: unknown, host = 'localhost') => {
      const headers = { authorization: `Bearer ${keys.inference}`, host }
      const init = json === undefined ? {} : { body: JSON.stringify(json) }
      const request = new Request(`http://${host}/api/v1${path}`, { method, headers, ...init })
      const response = await app.handle(request)
      return { status: response.status, body: await response.json() }
    }
    return { gateway, ask, app, keys }
  }

  test('a batch is accepted, shown, listed and cancelled', async () => {
    const { gateway, ask } = await open()
    const made = await ask('POST', '/batches', body())
    expect([made.status, made.body.status]).toEqual([202, 'validating'])
    const { id } = made.body
    expect((await ask('GET', `/batches/${id}`)).body).toEqual(made.body)
    const listed = await ask('GET', '/batches?status=validating&status=completed')
    expect(listed.body.data).toEqual([made.body])
    expect((await ask('GET', '/batches?status=completed')).body.data).toEqual([])
    expect((await ask('POST', `/batches/${id}/cancel`)).body.status).toBe('cancelling')
    await gateway.close()
  })

  test.each<[string, object, string]>([
    ['an unknown endpoint', { endpoint: '/v1/images' }, 'endpoint'],
    ['another window', { completion_window: '1h' }, 'completion_window'],
    ['no requests', { requests: [] }, 'requests'],
    [
      'an id that is too long',
      { requests: [{ custom_id: 'x'.repeat(513), body: {} }] },
      'requests',
    ],
    ['a field that is unknown', { output_expire_after: { seconds: 3600 } }, 'output_expire_after'],
    [
      'an expiry of a minute',
      { output_expires_after: { anchor: 'created_at', seconds: 60 } },
      'output_expires_after.seconds',
    ],
    ['a file of no form', { requests: undefined, input_file_id: '../x' }, 'input_file_id'],
    ['metadata of numbers', { metadata: { a: 1 } }, 'metadata'],
  ])('%s is refused by name', async (_, wrong, field) => {
    const { gateway, ask } = await open()
    const { status, body: refused } = await ask('POST', '/batches', body(wrong))
    expect([status, refused.error.message]).toEqual([400, expect.stringContaining(field)])
    await gateway.close()
  })

  test.each(['limit=0', 'limit=101', 'after=x', 'status=done', 'created_after=today'])(
    'a list with %s is refused',
    async query => {
      const { gateway, ask } = await open()
      expect((await ask('GET', `/batches?${query}`)).status).toBe(400)
      await gateway.close()
    },
  )

  test('there are none at the hosts of a region', async () => {
    const { gateway, ask } = await open({
      regions: { europe: ['eu.example.com'] },
      server: { trusted_proxies: ['127.0.0.1'] },
    })
    expect((await ask('POST', '/batches', body(), 'eu.example.com')).status).toBe(403)
    await gateway.close()
  })

  test('a file of requests is checked when it arrives, if it says what it is', async () => {
    const { gateway, app, keys } = await open()
    const lines = [buildLine('a'), buildLine('b', {}, { url: '/v1/embeddings' })]
    const send = async (purpose: string) => {
      const form = buildFileForm(lines.join('\n'), 'in.jsonl')
      form.set('purpose', purpose)
      const headers = { authorization: `Bearer ${keys.inference}` }
      const url = 'http://localhost/api/v1/files'
      const response = await app.handle(new Request(url, { method: 'POST', headers, body: form }))
      return [response.status, await response.text()] as const
    }
    expect((await send('user_data'))[0]).toBe(200)
    const [status, text] = await send('batch')
    expect([status, text]).toEqual([400, expect.stringContaining('line 2: url: expected /v1/chat')])
    await gateway.close()
  })
})

describe('a server that is killed', () => {
  let upstream: Upstream
  let data: string
  beforeAll(async () => {
    upstream = await startUpstream()
    data = mkdtempSync(join(tmpdir(), 'gateway-batches-'))
  })
  afterAll(async () => {
    await upstream.close()
    rmSync(data, { recursive: true, force: true })
  })

  const LINES = 24
  const upload = async (server: Server) => {
    const lines = Array.from({ length: LINES }, (_, i) =>
      buildLine(`line-${i + 1}`, { model: 'acme/small' }),
    )
    const form = buildFileForm(lines.join('\n'), 'in.jsonl')
    form.set('purpose', 'batch')
    const file = await (await server.fetch('/files', { method: 'POST', body: form })).json()
    const made = await server.fetch('/batches', {
      json: { endpoint: '/v1/chat/completions', input_file_id: file.id },
    })
    return ((await made.json()) as { id: string }).id
  }

  test('goes on where it was, no line is paid twice, and what was answered is there', async () => {
    let reached = Promise.withResolvers<void>()
    let most = 0
    upstream.answer(() => {
      if (upstream.hits.length >= most) reached.resolve()
      return completion('Done')
    })
    const config = buildLocalConfig(upstream.url)
    let id = ''
    for (const share of [0.25, 0.5, 0.75]) {
      reached = Promise.withResolvers<void>()
      most = Math.floor(LINES * share)
      const killed = await startServer({ data, config })
      id ||= await upload(killed)
      await reached.promise
      await killed.kill()
    }
    const second = await startServer({ data, config })
    let ended = false
    while (!ended) {
      await Bun.sleep(20)
      const shown = await runCommand(['batches', 'get', id, '--json', '--data', data])
      ended = JSON.parse(shown.stdout).completed_at !== null
    }
    await second.stop()
    const gateway = await openGateway({ data })
    const batch = await gateway.store.batches.find(id)
    expect((batch?.completed ?? 0) + (batch?.failed ?? 0)).toBe(LINES)
    const calls = await gateway.store.generations.list({}, 1_000)
    const paid = calls.filter(({ total_cost }) => (total_cost ?? 0n) > 0n)
    expect(new Set(paid.map(({ request_id }) => request_id)).size).toBe(paid.length)
    // What an answer costs is counted by its provider; what was killed before it is estimated.
    const answered = paid.filter(({ usageSource }) => usageSource === 'exact')
    expect(answered).toHaveLength(batch?.completed ?? LINES)
    expect(calls.every(({ batch_id }) => batch_id === id)).toBe(true)
    await gateway.close()
    expect(await findFaults(data)).toBeNull()
  })
})

describe('at the terminal', () => {
  test('a batch is made for a key, listed, shown, cancelled and deleted only at its end', async () => {
    await using server = await startServer({ config: { batches: { enabled: true } } })
    const { data } = server
    await server.stop()
    const run = (...args: string[]) => runCommand([...args, '--data', data])
    const path = join(data, 'in.jsonl')
    await Bun.write(path, `${buildLine('a')}\n${buildLine('b')}\n`)
    await run('keys', 'create', '--name', 'payer')
    const made = await run('batches', 'create', path, '--key', 'payer', '--json')
    expect(made).toMatchObject({ code: 0, stderr: '' })
    const { id } = JSON.parse(made.stdout)
    expect((await run('batches', 'list')).stdout).toContain(id)
    expect((await run('batches', 'get', id)).stdout).toContain('validating')
    expect(await run('batches', 'delete', id, '--yes')).toMatchObject({ code: 4 })
    expect((await run('batches', 'cancel', id)).stdout).toBe(`${id} is cancelling\n`)
    await Bun.write(path, `${buildLine('a')}\nno`)
    const refused = await run('batches', 'create', path, '--key', 'payer')
    expect(refused).toMatchObject({ code: 2, stderr: expect.stringContaining('line 2') })
    expect(await run('batches', 'create', path)).toMatchObject({ code: 2 })
    expect(await run('batches', 'create', 'none', '--key', 'payer')).toMatchObject({ code: 3 })
    expect(await run('batches', 'get', 'batch_none')).toMatchObject({ code: 3 })
  })
})
