import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import type { Gateway } from '../../src/app/gateway.ts'
import type { Json } from '../../src/base/json.ts'
import { assignKeys } from '../../src/limits/assignments.ts'
import { createGuardrail } from '../../src/limits/guardrails.ts'
import { type Actor, getOperator } from '../../src/resources/actor.ts'
import { storeFile } from '../../src/resources/files.ts'
import { createWorkspace } from '../../src/resources/workspaces.ts'
import { getApp } from '../support/app.ts'
import { DOORS, type Door } from '../support/doors.ts'
import { createTestKeys, testGateway } from '../support/gateway.ts'
import { PDF, PNG } from '../support/typed-files.ts'
import { completion, startUpstream, type Upstream } from '../support/upstream.ts'

let upstream: Upstream
let gateway: Gateway
let operator: Actor
let key: { inference: string; hash: string }
const reads: string[] = []

beforeAll(async () => {
  upstream = await startUpstream()
  gateway = await testGateway({
    config: {
      providers: { local: { protocol: 'openai-chat', base_url: upstream.url, api_key: 'mock' } },
      models: [
        {
          id: 'acme/eyes',
          context_length: 100_000,
          input_modalities: ['text', 'image', 'file'],
          endpoints: [
            {
              provider: 'local',
              model: 'eyes',
              usd_per_million_tokens: { prompt: 1, completion: 2 },
            },
          ],
        },
      ],
    },
  })
  operator = getOperator(gateway)
  key = await createTestKeys(gateway)
  const { files } = gateway.store
  const find = files.find.bind(files)
  files.find = id => {
    reads.push(id)
    return find(id)
  }
})
afterAll(async () => {
  await gateway.close()
  await upstream.close()
})
beforeEach(() => {
  reads.length = 0
  upstream.hits.length = 0
  upstream.answer(() => completion('Hello'))
})

async function* pieces(content: string | Uint8Array) {
  yield typeof content === 'string' ? new TextEncoder().encode(content) : content
}
const store = async (content: string | Uint8Array, filename: string, scope: object = {}) =>
  (await storeFile(gateway, operator, { filename, ...scope }, pieces(content))).id

const PATHS: Record<Door, string> = {
  chat: '/chat/completions',
  messages: '/messages',
  responses: '/responses',
}
const user = (...content: Json[]) => [{ role: 'user', content }]

/** A body with a file by its id. */
const BODIES: Record<Door, (file_id: string) => Json> = {
  chat: file_id => ({ messages: user({ type: 'file', file: { file_id } }) }),
  messages: file_id => ({
    max_tokens: 10,
    messages: user({ type: 'document', source: { type: 'file', file_id } }),
  }),
  responses: file_id => ({ input: user({ type: 'input_file', file_id }) }),
}
/** A body with a picture by its id. */
const PICTURES: Record<Door, (file_id: string) => Json> = {
  ...BODIES,
  messages: file_id => ({
    max_tokens: 10,
    messages: user({ type: 'image', source: { type: 'file', file_id } }),
  }),
  responses: file_id => ({ input: user({ type: 'input_image', file_id, detail: 'low' }) }),
}

async function ask(door: Door, body: Json, secret = key.inference) {
  const response = await getApp(gateway).handle(
    new Request(`http://localhost/api/v1${PATHS[door]}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', authorization: `Bearer ${secret}` },
      body: JSON.stringify({ model: 'acme/eyes', ...body }),
    }),
  )
  const answer = (await response.json()) as { error?: { message: string; metadata?: Json } }
  return { status: response.status, error: answer.error }
}
const sent = () => upstream.hits.map(({ body }) => body).join('\n')
const toBase64 = (content: string | Uint8Array) => Buffer.from(content).toString('base64')

describe.each(DOORS)('%s', door => {
  test('a stored file goes to the provider as one that the client sends', async () => {
    const id = await store(PDF, 'report.pdf')
    expect((await ask(door, BODIES[door](id))).status).toBe(200)
    expect(sent()).toContain(`data:application/pdf;base64,${toBase64(PDF)}`)
    expect(sent()).toContain('report.pdf')
    expect(sent()).not.toContain(id)
  })

  test('a stored picture is a picture', async () => {
    const id = await store(PNG, 'dot.png')
    expect((await ask(door, PICTURES[door](id))).status).toBe(200)
    const [hit] = upstream.hits
    const { messages = [] } = (hit?.json ?? {}) as { messages?: { content: Json[] }[] }
    expect(messages.at(-1)?.content).toMatchObject([
      { type: 'image_url', image_url: { url: `data:image/png;base64,${toBase64(PNG)}` } },
    ])
  })

  test('a missing file, one whose time is over and one of another workspace are a 400 that names it', async () => {
    const other = await createWorkspace(gateway, operator, { name: door, slug: `other-${door}` })
    const foreign = await store('Secret', 'a.txt', { workspace_id: other.data.id })
    const over = await store('Gone', 'a.txt', { expires_after: 0 })
    for (const id of [foreign, over, `or_file_${'0'.repeat(32)}`, 'or_file_']) {
      const { status, error } = await ask(door, BODIES[door](id))
      expect([status, error?.message]).toEqual([400, expect.stringContaining(`no file ${id}`)])
    }
    expect(upstream.hits).toEqual([])
  })

  test('no file is looked for where a call names none that is kept here', async () => {
    const messages = [{ role: 'user', content: 'Hi' }]
    const body = door === 'responses' ? { input: 'Hi' } : { messages, max_tokens: 10 }
    expect((await ask(door, body)).status).toBe(200)
    expect(reads).toEqual([])
  })

  test('content filters read a stored text', async () => {
    const keys = await createTestKeys(gateway)
    const { data } = await createGuardrail(gateway, operator, {
      name: `filter-${door}`,
      content_filters: [{ pattern: 'harvest', action: 'block' }],
    })
    await assignKeys(gateway, operator, data.id, { key_hashes: [keys.hash] })
    const id = await store('The harvest is small.', 'notes.txt')
    expect((await ask(door, BODIES[door](id), keys.inference)).status).toBe(403)
    expect(upstream.hits).toEqual([])
  })
})

test('one file in many places is read once', async () => {
  const id = await store('Hello there', 'notes.txt')
  const part = { type: 'file', file: { file_id: id } }
  expect((await ask('chat', { messages: user(part, part, part) })).status).toBe(200)
  expect(reads).toEqual([id])
})

test('files of more bytes than a body may have are a 400, before any is sent', async () => {
  const large = 'x'.repeat(12 * 1024 * 1024)
  const ids = await Promise.all(['a', 'b', 'c'].map(name => store(large, name)))
  const parts = ids.map(file_id => ({ type: 'input_file', file_id }))
  const { status, error } = await ask('responses', { input: user(...parts) })
  expect([status, error?.metadata]).toMatchObject([400, { field: 'input.0.content.2.file_id' }])
  expect(upstream.hits).toEqual([])
})

test('a file counts wherever it is named, as the provider gets it so often', async () => {
  const id = await store('x'.repeat(12 * 1024 * 1024), 'large.txt')
  const part = { type: 'input_file', file_id: id }
  const { status, error } = await ask('responses', { input: user(part, part, part) })
  expect([status, error?.metadata]).toMatchObject([400, { field: 'input.0.content.2.file_id' }])
  expect([upstream.hits, reads]).toEqual([[], [id]])
})

test('contents beside an id, and a picture that is none, are a 400 that names the part', async () => {
  const id = await store('Hello', 'notes.txt')
  const file = { type: 'input_file', file_id: id, file_data: 'data:text/plain;base64,SGk=' }
  const picture = { type: 'input_image', file_id: id }
  for (const part of [file, picture]) {
    const { status, error } = await ask('responses', { input: user(part) })
    expect([status, error?.metadata]).toMatchObject([400, { field: 'input.0.content.0.file_id' }])
  }
})

describe('/messages/count_tokens', () => {
  const count = async (content: Json, secret = key.inference) => {
    const response = await getApp(gateway).handle(
      new Request('http://localhost/api/v1/messages/count_tokens', {
        method: 'POST',
        headers: { 'content-type': 'application/json', 'x-api-key': secret },
        body: JSON.stringify({ model: 'acme/eyes', messages: user(content), max_tokens: 10 }),
      }),
    )
    return { status: response.status, body: (await response.json()) as Record<string, unknown> }
  }
  const document = (source: Json): Json => ({ type: 'document', source })

  test('counts a stored file as one that is sent', async () => {
    const text = 'The quick brown fox jumps over the lazy dog. '.repeat(100)
    const id = await store(text, 'long.txt')
    const stored = await count(document({ type: 'file', file_id: id }))
    const data = Buffer.from(text).toString('base64')
    const sent = await count(document({ type: 'base64', media_type: 'text/plain', data }))
    expect(stored).toMatchObject({ status: 200 })
    expect(stored.body).toEqual(sent.body)
    const less = await count({ type: 'text', text: 'Hi' })
    expect(Number(less.body.input_tokens)).toBeLessThan(Number(stored.body.input_tokens))
  })

  test.each(['0'.repeat(32), 'nope', '../../etc/passwd'])('X-37 refuses or_file_%s', async end => {
    const { status, body } = await count(document({ type: 'file', file_id: `or_file_${end}` }))
    expect([status, JSON.stringify(body)]).toEqual([
      400,
      expect.stringContaining('there is no file'),
    ])
  })
})
