import { afterAll, afterEach, beforeEach, expect, test } from 'bun:test'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Json } from '../../src/base/json.ts'
import { evictRows } from '../../src/observability/retention.ts'
import { getOperator } from '../../src/resources/actor.ts'
import { createKey, deleteKey } from '../../src/resources/keys.ts'
import { deleteWorkspace } from '../../src/resources/workspaces.ts'
import { createApp } from '../../src/server/app.ts'
import { waitUntil } from '../support/chat.ts'
import { openDatabase } from '../support/database.ts'
import { createOtherWorkspace, createTestKeys, TestClock, testGateway } from '../support/gateway.ts'
import { parseEvents, type ResponseEvent } from '../support/response-events.ts'
import { buildLocalConfig } from '../support/server.ts'
import {
  completion,
  delta,
  ending,
  silence,
  silenceMidStream,
  sseHead,
  startUpstream,
  status,
  type Upstream,
} from '../support/upstream.ts'

/* Responses that are stored, apart from what official clients show (`clients/stored-responses`). */

const DAY = 86_400_000
const MODEL = 'acme/small'
const rooms: string[] = []
let upstream: Upstream
beforeEach(async () => {
  upstream = await startUpstream()
  upstream.answer(() => [completion('Hello')])
})
afterEach(() => upstream.close())
afterAll(() => {
  for (const room of rooms) rmSync(room, { recursive: true, force: true })
})

/** Opens a gateway that stores responses, and asks its app. */
async function openHouse(responses: object = {}, data = mkdtempSync(join(tmpdir(), 'gateway-r-'))) {
  rooms.push(data)
  const clock = new TestClock()
  const config = buildLocalConfig(upstream.url, { responses: { store: true, ...responses } })
  const gateway = await testGateway({ data, clock, config })
  const keys = await createTestKeys(gateway)
  const app = createApp(gateway)
  const ask = async (method: string, path: string, body?: object, key = keys.inference) => {
    const response = await app.handle(
      new Request(`http://localhost/api/v1/responses${path}`, {
        method,
        headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
        ...(body ? { body: JSON.stringify(body) } : {}),
      }),
    )
    const text = await response.text()
    return { status: response.status, json: text.startsWith('{') ? JSON.parse(text) : text }
  }
  const respond = async (body: object = {}, key?: string) => {
    const { status, json } = await ask('POST', '', { model: MODEL, input: 'Hi', ...body }, key)
    return { status, json, id: json.id as string, field: json.error?.metadata?.field }
  }
  const get = async (id: string, key?: string) =>
    (await ask('GET', `/${id}`, undefined, key)).status
  return {
    ...{ data, clock, gateway, keys, ask, respond, get },
    [Symbol.asyncDispose]: () => gateway.close(),
  }
}

/** What the provider was last told was said. */
const hear = () => JSON.parse(String(upstream.hits.at(-1)?.body)).messages

test('a call goes on from those before it, without their instructions', async () => {
  await using house = await openHouse()
  const first = await house.respond({ instructions: 'Be kind' })
  const second = await house.respond({ input: 'More', previous_response_id: first.id })
  await house.respond({ input: 'And', previous_response_id: second.id, instructions: 'Be short' })
  expect(hear()).toMatchObject([
    { role: 'system', content: 'Be short' },
    ...['Hi', 'Hello', 'More', 'Hello', 'And'].map((content, index) => ({
      role: index % 2 === 0 ? 'user' : 'assistant',
      content,
    })),
  ])
  expect((await house.ask('GET', `/${second.id}/input_items`)).json).toMatchObject({
    object: 'list',
    has_more: false,
    data: [{ type: 'message', role: 'user', content: [{ type: 'input_text', text: 'More' }] }],
  })
})

test('it is counted and made shorter with what was said before', async () => {
  await using house = await openHouse()
  const { id } = await house.respond({ input: 'one '.repeat(100) })
  const body = { model: MODEL, input: 'Hi', previous_response_id: id }
  const { json } = await house.ask('POST', '/input_tokens', body)
  expect(json.input_tokens).toBeGreaterThan(100)
  const made = await house.ask('POST', '/compact', body)
  expect([made.status, made.json.object]).toEqual([200, 'response.compaction'])
  expect(JSON.stringify(hear())).toContain('one one')
  expect(await house.get(made.json.id)).toBe(404)
})

test('items are named in place of themselves', async () => {
  await using house = await openHouse()
  const first = await house.respond({ input: [{ id: 'msg_mine', role: 'user', content: 'One' }] })
  const [{ id }] = first.json.output
  const input = [
    { type: 'item_reference', id: 'msg_mine' },
    { id },
    { role: 'user', content: 'Two' },
  ]
  expect((await house.respond({ input })).status).toBe(200)
  expect(hear().map(({ content }: { content: string }) => content)).toEqual(['One', 'Hello', 'Two'])
  const unknown = await house.respond({ input: [{ type: 'item_reference', id: 'none' }] })
  expect([unknown.status, unknown.field]).toEqual([400, 'input.0.id'])
})

test('an item that is named often is as large as it is sent', async () => {
  await using house = await openHouse()
  const picture = `data:image/png;base64,iVBORw0KGgoAAAANSUhEUg${'A'.repeat(1_000_000)}`
  const content = [{ type: 'input_image', image_url: picture }]
  await house.respond({ input: [{ id: 'msg_mine', role: 'user', content }] })
  const name = (times: number) =>
    house.respond({
      store: false,
      input: Array.from({ length: times }, () => ({ id: 'msg_mine' })),
    })
  const refused = await name(40)
  expect([refused.status, upstream.hits.length]).toEqual([413, 1])
  expect(refused.json.error.message).toContain('input.33.id')
  expect((await name(3)).status).toBe(200)
  expect(hear()).toHaveLength(3)
})

test('only its key goes on from a response, and only managers of its workspace see it too', async () => {
  await using house = await openHouse()
  const { gateway, keys } = house
  const { id, json } = await house.respond()
  const other = await createKey(gateway, getOperator(gateway), { name: 'other' })
  const ids = ['00000000-0000-7000-8000-0000000000aa', '00000000-0000-7000-8000-0000000000ab']
  const stranger = await createOtherWorkspace(gateway, ids[0] ?? '')
  expect([await house.get(id), await house.get(id, keys.management)]).toEqual([200, 200])
  for (const key of [other.key, stranger.key]) {
    expect(await house.get(id, key)).toBe(404)
    expect((await house.ask('GET', `/${id}/input_items`, undefined, key)).status).toBe(404)
    expect((await house.ask('DELETE', `/${id}`, undefined, key)).status).toBe(404)
    expect((await house.ask('POST', `/${id}/cancel`, {}, key)).status).toBe(404)
    const body = { previous_response_id: id, input: 'x' }
    expect((await house.respond(body, key)).field).toBe('previous_response_id')
    const reference = [{ type: 'item_reference', id: json.output[0].id }]
    expect((await house.respond({ input: reference }, key)).status).toBe(400)
  }
  expect(await house.get(id)).toBe(200)
})

test.each([
  [{ store: false, background: true }, 'background'],
  [{ previous_response_id: 'gen-none' }, 'previous_response_id'],
  [{ conversation: 'conv_1' }, 'conversation'],
  [{ store: true, provider: { zdr: true } }, 'store'],
])('%j is 400 by its field, and asks no provider', async (body, field) => {
  await using house = await openHouse()
  const refused = await house.respond(body)
  expect([refused.status, refused.field]).toEqual([400, field])
  expect(upstream.hits).toHaveLength(0)
  expect(
    await house.gateway.store.responses.computeUse(house.gateway.memory.owner.workspace_id),
  ).toBe(0)
})

test.each([{ store: false }, { model: 'sandbox/echo', provider: { zdr: true } }])(
  '%j leaves nothing behind',
  async body => {
    await using house = await openHouse()
    const { id, json } = await house.respond(body)
    expect(json).toMatchObject({ status: 'completed', store: false })
    expect(await house.get(id)).toBe(404)
  },
)

test('nothing is stored unless the operator says so', async () => {
  await using house = await openHouse({ store: false })
  expect((await house.respond({ store: true })).field).toBe('store')
  expect((await house.respond()).json.store).toBe(false)
  const { status, json } = await house.ask('GET', '/gen-1')
  expect([status, JSON.stringify(json)]).toEqual([404, expect.stringContaining('responses.store')])
})

test('a response goes when its time is over, with what it takes', async () => {
  await using house = await openHouse({ retention_days: 2 })
  const { gateway, clock } = house
  const { id } = await house.respond()
  clock.pass(2 * DAY + 1)
  expect(await house.get(id)).toBe(404)
  expect((await house.respond({ previous_response_id: id })).status).toBe(400)
  expect(await evictRows(gateway)).toMatchObject([{ kind: 'responses', rows: 1 }])
  expect(await gateway.store.responses.computeUse(gateway.memory.owner.workspace_id)).toBe(0)
})

test('a workspace stores no more than it may, and what is paid for is kept', async () => {
  await using house = await openHouse({ quota_mib: 1 })
  upstream.answer(() => [completion('x'.repeat(2 ** 20))])
  const { id } = await house.respond()
  expect(await house.get(id)).toBe(200)
  const refused = await house.respond()
  expect([refused.status, JSON.stringify(refused.json)]).toEqual([
    403,
    expect.stringContaining('responses.quota_mib'),
  ])
  expect((await house.respond({ store: false, previous_response_id: id })).status).toBe(200)
  await house.ask('DELETE', `/${id}`)
  expect((await house.respond({ input: 'again' })).status).toBe(200)
})

test('stands nowhere in the data directory in words, and another row does not open it', async () => {
  await using house = await openHouse()
  const { id } = await house.respond({ input: 'CANARY-of-this-test' })
  for (const file of ['gateway.db', 'gateway.db-wal'])
    expect(readFileSync(join(house.data, file), 'latin1')).not.toContain('CANARY')
  const db = openDatabase(house.data)
  const other = await createKey(house.gateway, getOperator(house.gateway), { name: 'other' })
  db.run('update responses set key_hash = ? where id = ?', [other.data.hash, id])
  db.close()
  expect(await house.get(id, other.key)).toBe(404)
})

test('is gone with its workspace', async () => {
  await using house = await openHouse()
  const { gateway } = house
  const workspace_id = '00000000-0000-7000-8000-0000000000aa'
  const other = await createOtherWorkspace(gateway, workspace_id, 'inference')
  const { id } = await house.respond({}, other.key)
  expect(await gateway.store.responses.find(id)).toMatchObject({ workspace_id })
  const operator = getOperator(gateway)
  await deleteKey(gateway, operator, other.data.hash)
  await deleteWorkspace(gateway, operator, workspace_id, {})
  expect(await gateway.store.responses.find(id)).toBeUndefined()
})

test('one in the background is cancelled, and its call with it', async () => {
  await using house = await openHouse()
  upstream.answer(silence)
  const { id, json } = await house.respond({ background: true })
  expect(json).toMatchObject({ status: 'queued', background: true, store: true })
  expect((await house.ask('GET', `/${id}`)).json.status).toBe('in_progress')
  expect((await house.respond({ previous_response_id: id })).field).toBe('previous_response_id')
  await upstream.hit()
  expect((await house.ask('POST', `/${id}/cancel`)).json.status).toBe('cancelled')
  await upstream.hits[0]?.clientLeft
  await waitUntil(() => house.gateway.traffic.background.size === 0)
  expect((await house.ask('GET', `/${id}`)).json.status).toBe('cancelled')
  expect(await house.gateway.store.generations.byId(id)).toMatchObject({ cancelled: true })
})

test('one that fails in the background tells why', async () => {
  await using house = await openHouse()
  upstream.answer(() => status(400, 'No'))
  const { id } = await house.respond({ background: true })
  await waitUntil(() => house.gateway.traffic.background.size === 0)
  expect((await house.ask('GET', `/${id}`)).json).toMatchObject({
    status: 'failed',
    error: { message: expect.stringContaining('The provider') },
  })
})

test('one whose process has ended without it has failed', async () => {
  await using house = await openHouse()
  const { gateway } = house
  upstream.answer(silence)
  const { id } = await house.respond({ background: true })
  // As another process sees it.
  const making = gateway.traffic.background.get(id)
  gateway.traffic.background.delete(id)
  expect((await house.ask('GET', `/${id}`)).json.status).toBe('queued')
  house.clock.pass(2 * gateway.config.timeouts.total_seconds * 1000 + 1)
  expect((await house.ask('GET', `/${id}`)).json).toMatchObject({
    status: 'failed',
    error: { code: 'server_error' },
  })
  making?.abort()
  await upstream.hits[0]?.clientLeft
})

/** Opens a stream of a response: one that is asked for with a body, or what came after a number. */
async function openEvents(house: House, path: string, body?: object, key = house.keys.inference) {
  const leaving = new AbortController()
  const response = await createApp(house.gateway).handle(
    new Request(`http://localhost/api/v1/responses${path}`, {
      method: body ? 'POST' : 'GET',
      signal: leaving.signal,
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      ...(body ? { body: JSON.stringify({ model: MODEL, input: 'Hi', ...body }) } : {}),
    }),
  )
  const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader()
  let wire = ''
  const readOn = async (text: string) => {
    while (!wire.includes(text)) {
      const { done, value } = (await reader?.read()) ?? { done: true }
      if (done) break
      wire += value
    }
    return wire
  }
  return {
    status: response.status,
    id: response.headers.get('x-generation-id') ?? '',
    readOn,
    readAll: async () => parseEvents(await readOn('[DONE]')),
    async leave() {
      leaving.abort()
      await reader?.cancel()
    },
  }
}
type House = Awaited<ReturnType<typeof openHouse>>

const STREAMED = { background: true, stream: true }
const listTypes = (events: ResponseEvent[]) => events.map(({ type }) => type)

test('one that streams in the background goes on without its client, who comes back', async () => {
  await using house = await openHouse()
  upstream.answer(() => [sseHead(), delta('Hel'), { wait: 'rest' }, delta('lo'), ending()])
  const first = await openEvents(house, '', STREAMED)
  await first.readOn('Hel')
  await first.leave()
  const again = await openEvents(house, `/${first.id}?stream=true&starting_after=2`)
  await again.readOn('Hel')
  upstream.open('rest')
  const all = await (await openEvents(house, `/${first.id}?stream=true`)).readAll()
  expect(listTypes(all).slice(0, 3)).toEqual([
    'response.created',
    'response.queued',
    'response.in_progress',
  ])
  expect(all.map(({ response }) => (response as Json)?.status).slice(0, 3)).toEqual([
    'queued',
    'queued',
    'in_progress',
  ])
  expect(all.map(({ sequence_number }) => sequence_number)).toEqual([...all.keys()])
  expect(await again.readAll()).toEqual(all.slice(3))
  const { json } = await house.ask('GET', `/${first.id}`)
  expect(json).toMatchObject({ status: 'completed', output_text: 'Hello' })
  expect(all.at(-1)).toMatchObject({ type: 'response.completed', response: json })
  await waitUntil(() => house.gateway.traffic.background.size === 0)
})

test.each(['whole', 'streamed'])(
  'one in the background that is %s is not lost where the store is away as it ends',
  async how => {
    await using house = await openHouse()
    const { responses } = house.gateway.store
    const end = responses.end.bind(responses)
    let failures = 0
    responses.end = (...change) =>
      failures++ === 0 ? Promise.reject(new Error('away')) : end(...change)
    const isStreamed = how === 'streamed'
    if (isStreamed) upstream.answer(() => [sseHead(), delta('Hello'), ending()])
    const { id } = isStreamed
      ? await openEvents(house, '', STREAMED)
      : await house.respond({ background: true })
    await waitUntil(() => house.gateway.traffic.background.size === 0)
    const { json } = await house.ask('GET', `/${id}`)
    expect(json).toMatchObject({ status: 'completed', error: null, output_text: 'Hello' })
    expect(await house.gateway.store.generations.byId(id)).toBeDefined()
  },
)

test('a stream in the background ends with its cancelling, and waits under its last number', async () => {
  await using house = await openHouse()
  house.gateway.config.timeouts.keep_alive_seconds = 0.05
  upstream.answer(silence)
  const { id, readOn } = await openEvents(house, '', STREAMED)
  const again = await openEvents(house, `/${id}?stream=true&starting_after=1`)
  await again.readOn('"sequence_number":2}')
  await upstream.hit()
  await house.ask('POST', `/${id}/cancel`)
  const events = parseEvents(await readOn('[DONE]'))
  expect(events.at(-1)).toMatchObject({
    type: 'response.cancelled',
    sequence_number: 3,
    response: { id, status: 'cancelled' },
  })
  const waiting = events.slice(2, -1)
  expect(new Set(listTypes(waiting))).toEqual(new Set(['response.in_progress']))
  expect(waiting.every(({ sequence_number }) => sequence_number === 2)).toBe(true)
  await waitUntil(() => house.gateway.traffic.background.size === 0)
  expect((await openEvents(house, `/${id}?stream=true`)).status).toBe(200)
})

test('a stream in the background that fails says so, and its response too', async () => {
  await using house = await openHouse()
  upstream.answer(() => status(400, 'No'))
  const { id, readAll } = await openEvents(house, '', STREAMED)
  expect(listTypes(await readAll())).toContain('response.failed')
  expect((await house.ask('GET', `/${id}`)).json.status).toBe('failed')
})

test('events are for those who may read the response, and 400 where none are kept', async () => {
  await using house = await openHouse()
  const { gateway, keys } = house
  const stranger = await createOtherWorkspace(gateway, '00000000-0000-7000-8000-0000000000ab')
  const { id, readAll } = await openEvents(house, '', STREAMED)
  await readAll()
  const ask = async (response = id, key?: string) =>
    (await openEvents(house, `/${response}?stream=true`, undefined, key)).status
  expect(await ask(id, stranger.key)).toBe(404)
  expect(await ask(id, keys.management)).toBe(200)
  const whole = await house.respond({ background: true })
  expect(await ask(whole.id)).toBe(400)
  // As after a restart.
  gateway.traffic.eventLogs.delete(id)
  const { status, json } = await house.ask('GET', `/${id}?stream=true`)
  expect([status, json.error.message]).toEqual([400, expect.stringContaining('poll it')])
  const second = await openEvents(house, '', STREAMED)
  await second.readAll()
  await house.ask('DELETE', `/${second.id}`)
  expect(await ask(second.id)).toBe(404)
  expect(gateway.traffic.eventLogs.get(second.id)).toBeUndefined()
})

test('a client that leaves in the middle of a stream leaves no response', async () => {
  await using house = await openHouse()
  upstream.answer(silenceMidStream)
  const app = createApp(house.gateway)
  const leaving = new AbortController()
  const response = await app.handle(
    new Request('http://localhost/api/v1/responses', {
      method: 'POST',
      signal: leaving.signal,
      headers: {
        authorization: `Bearer ${house.keys.inference}`,
        'content-type': 'application/json',
      },
      body: JSON.stringify({ model: MODEL, input: 'Hi', stream: true }),
    }),
  )
  const reader = response.body?.getReader()
  await reader?.read()
  leaving.abort()
  await reader?.cancel()
  const id = response.headers.get('x-generation-id') ?? ''
  await upstream.hits[0]?.clientLeft
  expect(await house.get(id)).toBe(404)
})
