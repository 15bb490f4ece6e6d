import { afterAll, describe, expect, test } from 'bun:test'
import { updateGuardrail } from '../../src/limits/guardrails.ts'
import { getOperator } from '../../src/resources/actor.ts'
import { createByokKey } from '../../src/resources/byok.ts'
import { getDefaultGuardrailId } from '../../src/resources/default-guardrail.ts'
import { createApp } from '../../src/server/app.ts'
import { type FilesApis, openFilesApis } from '../support/files-api.ts'
import { createTestKeys, testGateway } from '../support/gateway.ts'
import { buildFileForm } from '../support/operations.ts'

const opened: FilesApis[] = []
afterAll(() => {
  for (const one of opened) one.close()
})

async function openHouse({
  refuse,
  keys: named = ['openai', 'anthropic'],
}: {
  refuse?: (path: string) => Response | undefined
  keys?: string[]
} = {}) {
  const upstream = openFilesApis(refuse)
  opened.push(upstream)
  const providers = Object.fromEntries(
    ['openai', 'anthropic'].map(name => [
      name,
      { base_url: `${upstream.url}/${name}`, api_key: 'sk-of-the-gateway-itself' },
    ]),
  )
  const gateway = await testGateway({
    config: {
      providers,
      regions: { europe: ['eu.example.com'] },
      server: { trusted_proxies: ['127.0.0.1'] },
    },
  })
  const operator = getOperator(gateway)
  const { workspace_id } = gateway.memory.owner
  for (const provider of named)
    await createByokKey(gateway, operator, {
      ...{ provider, key: `sk-${provider}-own-key`, workspace_id },
    })
  const keys = await createTestKeys(gateway)
  const app = createApp(gateway, () => '127.0.0.1')
  const handle = (request: Request) => app.handle(request)
  const ask = async (path: string, init: RequestInit = {}, host = 'localhost') => {
    const headers = { host, ...init.headers, authorization: `Bearer ${keys.inference}` }
    const answer = await handle(
      new Request(`http://localhost/api/v1${path}`, { ...init, headers } as RequestInit),
    )
    const text = await answer.text()
    const isJson = answer.headers.get('content-type')?.includes('json')
    return {
      status: answer.status,
      body: isJson ? JSON.parse(text) : text,
      headers: answer.headers,
    }
  }
  const upload = (provider: string, content = 'Hello', name = 'notes.txt') =>
    ask(`/files?provider=${provider}`, { method: 'POST', body: buildFileForm(content, name) })
  return { ...upstream, gateway, operator, ask, upload, keys, handle }
}

describe.each(['openai', 'anthropic'])('files at %s', provider => {
  test('are stored, listed, read and deleted with the workspace’s own key', async () => {
    const { ask, upload, kept, gateway, seen } = await openHouse()
    const made = await upload(provider)
    expect(made).toMatchObject({
      status: 200,
      body: { _shape: 'openrouter', id: 'file-0', filename: 'notes.txt', size_bytes: 5 },
    })
    expect(kept[0]).toMatchObject({
      filename: 'notes.txt',
      type: expect.stringMatching('text/plain'),
    })
    expect(Buffer.from(kept[0]?.bytes ?? []).toString()).toBe('Hello')
    expect(await gateway.store.files.all()).toEqual([])
    await upload(provider, '{"a":1}', 'a.json')
    const query = `provider=${provider}`
    const first = await ask(`/files?${query}&limit=1`)
    expect(first.body).toMatchObject({ data: [{ id: 'file-0' }], has_more: true, cursor: 'file-0' })
    const next = await ask(`/files?${query}&limit=1&cursor=file-0`)
    expect(next.body).toMatchObject({ data: [{ id: 'file-1' }], has_more: false, cursor: null })
    expect((await ask(`/files/file-1?${query}`)).body).toMatchObject({ filename: 'a.json' })
    const bytes = await ask(`/files/file-0/content?${query}`)
    expect([bytes.status, bytes.body, bytes.headers.get('content-length')]).toEqual([
      ...[200, 'Hello', '5'],
    ])
    expect(bytes.headers.get('content-disposition')).toContain('notes.txt')
    expect((await ask(`/files/file-0?${query}`, { method: 'DELETE' })).body).toEqual({
      ...{ _shape: 'openrouter', id: 'file-0', type: 'file_deleted' },
    })
    expect((await ask(`/files/file-0?${query}`)).status).toBe(404)
    for (const { headers } of seen)
      expect(JSON.stringify([...headers])).not.toContain('sk-of-the-gateway-itself')
  })

  test('need a key of the workspace, and a host of no region', async () => {
    const { ask, upload, seen } = await openHouse({ keys: [] })
    for (const answer of [
      await ask(`/files?provider=${provider}`),
      await upload(provider),
      await ask(`/files/file-0?provider=${provider}`),
      await ask(`/files/file-0/content?provider=${provider}`),
      await ask(`/files/file-0?provider=${provider}`, { method: 'DELETE' }),
    ]) {
      expect(answer.status).toBe(400)
      expect(answer.body.error.message).toContain(`has a key for, found ${provider}`)
    }
    const region = await ask(`/files?provider=${provider}`, {}, 'eu.example.com')
    expect(region.status).toBe(403)
    expect(seen).toEqual([])
  })

  test.each(['..%2Fkeys', 'a%2Fb', 'a%00', `${'a'.repeat(129)}`, '%2e%2e', 'a?x=1', 'ä'])(
    'have no id %s',
    async id => {
      const { ask, seen } = await openHouse()
      const path = `/files/${id}${id.includes('?') ? '&' : '?'}provider=${provider}`
      if (id.includes('?')) return expect((await ask(path)).status).toBe(400)
      expect((await ask(path)).status).toBe(404)
      expect((await ask(path, { method: 'DELETE' })).status).toBe(404)
      expect(seen).toEqual([])
    },
  )

  test.each([
    ['limit=0', 'limit'],
    ['limit=1.5', 'limit'],
    ['after=a%2Fb', 'after'],
    ['after=file-0&cursor=file-1', 'cursor'],
    ['order=up', 'order'],
    ['purpose=vision', 'purpose'],
    provider === 'openai' ? ['before_id=file-1', 'before_id'] : ['order=asc', 'order'],
  ])('cannot be listed with %s', async (query, field) => {
    const { ask, seen } = await openHouse()
    const { status, body } = await ask(`/files?provider=${provider}&${query}`)
    expect([status, body.error.metadata?.field]).toEqual([400, field])
    expect(seen).toEqual([])
  })

  test.each([
    [400, 400, 'bad purpose'],
    [401, 502, 'refuses the key'],
    [403, 502, 'refuses the key'],
    [404, 404, 'File not found'],
    [413, 413, 'bad purpose'],
    [429, 429, 'no more requests'],
    [500, 502, 'answers with 500'],
    [307, 502, 'answers with 307'],
  ])('whose provider answers %d answer %d', async (theirs, ours, message) => {
    const { upload, gateway } = await openHouse({
      refuse: () =>
        Response.json(
          { error: { message: `bad purpose, key sk-${provider}-own-key` } },
          { status: theirs, headers: { location: 'http://127.0.0.1:1/' } },
        ),
    })
    const { status, body } = await upload(provider)
    expect([status, body.error.message]).toEqual([ours, expect.stringContaining(message)])
    expect(JSON.stringify(body)).not.toContain('own-key')
    expect(await Array.fromAsync(gateway.blobs.list())).toEqual([])
  })

  test.each(['', '[]', 'null', '{"id": 5}', '<html>'])('that are %j answer 502', async text => {
    const { upload, ask } = await openHouse({ refuse: () => new Response(text) })
    expect((await upload(provider)).status).toBe(502)
    expect((await ask(`/files/file-0?provider=${provider}`)).status).toBe(502)
  })

  test.each([
    [{ ignored_providers: [provider] }, 'A guardrail keeps files'],
    [{ allowed_providers: ['mistral'] }, 'A guardrail keeps files'],
    [{ [`enforce_zdr_${provider}`]: true }, 'A guardrail keeps files'],
    [{ content_filter_builtins: [{ slug: 'email', action: 'block' }] }, 'Content filters apply'],
  ])('are kept away by a guardrail with %j', async (fields, message) => {
    const { gateway, operator, upload, seen } = await openHouse()
    const id = getDefaultGuardrailId(gateway.memory.owner.workspace_id)
    await updateGuardrail(gateway, operator, id, fields as never)
    const { status, body } = await upload(provider)
    expect([status, body.error.message]).toEqual([403, expect.stringContaining(message)])
    expect(seen).toEqual([])
  })

  test.each([
    ['', 'a.txt', 400],
    ['x', '../a', 400],
    ['x', 'a\u0001', 400],
  ])('refuse %j named %j', async (content, name, status) => {
    const { upload, seen, gateway } = await openHouse()
    expect((await upload(provider, content, name)).status).toBe(status)
    expect(seen).toEqual([])
    expect(await Array.fromAsync(gateway.blobs.list())).toEqual([])
  })
})
