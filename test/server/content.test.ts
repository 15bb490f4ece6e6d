import { afterAll, describe, expect, test } from 'bun:test'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describeEvictions, examineGateway } from '../../src/app/doctor.ts'
import { assignKeys } from '../../src/limits/assignments.ts'
import { createGuardrail } from '../../src/limits/guardrails.ts'
import { openMetrics } from '../../src/observability/metrics.ts'
import { evictRows } from '../../src/observability/retention.ts'
import { getGenerationContent } from '../../src/observability/transcripts.ts'
import { summarizeUsage } from '../../src/observability/usage.ts'
import { getOperator } from '../../src/resources/actor.ts'
import { createKey, deleteKey } from '../../src/resources/keys.ts'
import {
  createWorkspace,
  deleteWorkspace,
  updateWorkspace,
} from '../../src/resources/workspaces.ts'
import { createApp } from '../../src/server/app.ts'
import { runCommand } from '../support/commands.ts'
import { openDatabase } from '../support/database.ts'
import { createOtherWorkspace, createTestKeys, TestClock, testGateway } from '../support/gateway.ts'
import { buildLocalConfig } from '../support/server.ts'
import { completion, startUpstream, status } from '../support/upstream.ts'

const DAY = 86_400_000
const rooms: string[] = []
afterAll(() => {
  for (const room of rooms) rmSync(room, { recursive: true, force: true })
})

/** Opens a gateway whose default workspace keeps content, and asks its app. */
async function openHouse(
  config: Record<string, unknown> = {},
  { random = () => 0, at }: { random?: () => number; at?: string } = {},
) {
  const data = mkdtempSync(join(tmpdir(), 'gateway-content-'))
  rooms.push(data)
  const clock = new TestClock(at)
  const gateway = await testGateway({ data, clock, config, random })
  const keys = await createTestKeys(gateway)
  const app = createApp(gateway)
  const operator = getOperator(gateway)
  const { workspace_id } = gateway.memory.owner
  await updateWorkspace(gateway, operator, workspace_id, {
    is_observability_io_logging_enabled: true,
  })
  const ask = async (path: string, body?: object, key = keys.inference, headers: object = {}) => {
    const response = await app.handle(
      new Request(`http://localhost/api/v1${path}`, {
        method: body ? 'POST' : 'GET',
        headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json', ...headers },
        ...(body ? { body: JSON.stringify(body) } : {}),
      }),
    )
    const text = await response.text()
    const isJson = response.headers.get('content-type')?.includes('json')
    const id = response.headers.get('x-generation-id') ?? ''
    return { status: response.status, id, json: isJson ? JSON.parse(text) : text }
  }
  const chat = (content: string, more: object = {}, key?: string, headers?: object) =>
    ask(
      '/chat/completions',
      { model: 'sandbox/echo', messages: [{ role: 'user', content }], ...more },
      key,
      headers,
    )
  const read = (id: string, key?: string) => ask(`/generation/content?id=${id}`, undefined, key)
  return {
    ...{ data, clock, gateway, keys, operator, workspace_id, ask, chat, read },
    [Symbol.asyncDispose]: () => gateway.close(),
  }
}

describe('what was asked and answered', () => {
  test.each([false, true])('is kept as the client saw it, streamed: %p', async stream => {
    await using house = await openHouse()
    const { id, status: code } = await house.chat('Say “𝄞”', { stream })
    expect(code).toBe(200)
    const { json } = await house.read(id)
    expect(json.data.input).toEqual({ messages: [{ role: 'user', content: 'Say “𝄞”' }] })
    expect(json.data.output.completion).toContain('“𝄞”')
    expect(json.data).toMatchObject({ output: { reasoning: null }, error: null })
  })

  test('of embeddings is the prompt', async () => {
    await using house = await openHouse()
    const { id } = await house.ask('/embeddings', { model: 'sandbox/embed', input: 'Hello' })
    expect((await house.read(id)).json.data).toEqual({
      input: { prompt: 'Hello' },
      output: { completion: null, reasoning: null },
      error: null,
    })
  })

  test('stands nowhere in the data directory in words, and only the secret opens it', async () => {
    await using house = await openHouse()
    const { id } = await house.chat('CANARY-of-this-test')
    expect((await house.read(id)).status).toBe(200)
    for (const file of ['gateway.db', 'gateway.db-wal'])
      expect(readFileSync(join(house.data, file), 'latin1')).not.toContain('CANARY')
    const db = openDatabase(house.data)
    db.run('update transcripts set generation_id = ? where generation_id = ?', ['gen-x', id])
    db.run(`insert into generations select * from generations where 0`)
    db.close()
    expect((await house.read(id)).status).toBe(404)
  })

  test('is found by the request id that the caller chose, as is the call', async () => {
    await using house = await openHouse()
    const { id } = await house.chat('Hi', {}, undefined, { 'x-request-id': 'mine-1' })
    expect((await house.ask('/generation?id=mine-1')).json.data.id).toBe(id)
    expect((await house.read('mine-1')).status).toBe(200)
    expect((await house.read('mine-2')).status).toBe(404)
    // However many calls of others have it.
    const { store } = house.gateway
    const own = await store.generations.byId(id)
    if (!own) throw new Error('no call')
    const copies = Array.from({ length: 101 }, (_, i) => ({
      generation: { ...own, id: `gen-other-${i}`, workspace_id: 'ws-other', user_id: 'other' },
      charge: null,
    }))
    await store.generations.record(copies)
    expect((await house.ask('/generation?id=mine-1')).json.data.id).toBe(id)
  })

  test('of another key is for managers, and of another workspace for nobody', async () => {
    await using house = await openHouse()
    const { id } = await house.chat('Hi', {}, undefined, { 'x-request-id': 'mine-1' })
    const other = await createKey(house.gateway, house.operator, { name: 'other' })
    const ids = ['00000000-0000-7000-8000-0000000000aa', '00000000-0000-7000-8000-0000000000ab']
    const stranger = await createOtherWorkspace(house.gateway, ids[0] ?? '')
    const statuses = [house.keys.inference, house.keys.management, other.key, stranger.key].map(
      async key => [(await house.read(id, key)).status, (await house.read('mine-1', key)).status],
    )
    expect(await Promise.all(statuses)).toEqual([
      [200, 200],
      [200, 200],
      [403, 403],
      [404, 404],
    ])
  })

  test('is not kept where logging is off, for zero retention, and beyond the share', async () => {
    await using house = await openHouse({}, { random: () => 0.5 })
    const { gateway, operator, workspace_id } = house
    const isKept = async (more: object = {}, key?: string) => {
      const { id, status: code } = await house.chat('Hi', more, key)
      expect(code).toBe(200)
      return (await house.read(id, key)).status === 200
    }
    const set = (change: object) => updateWorkspace(gateway, operator, workspace_id, change)
    expect(await isKept()).toBe(true)
    expect(await isKept({ provider: { zdr: true } })).toBe(false)
    await set({ io_logging_sampling_rate: 0.5 })
    expect(await isKept()).toBe(false)
    await set({ io_logging_sampling_rate: 0.6 })
    expect(await isKept()).toBe(true)
    const private_ = await createKey(gateway, operator, { name: 'private' })
    const { data } = await createGuardrail(gateway, operator, {
      name: 'ZDR',
      enforce_zdr_other: true,
    })
    await assignKeys(gateway, operator, data.id, { key_hashes: [private_.data.hash] })
    expect(await isKept({}, private_.key)).toBe(false)
    await set({ is_observability_io_logging_enabled: false })
    expect(await isKept()).toBe(false)
  })

  test('of a call that fails has the error, in the provider’s words for the operator only', async () => {
    await using upstream = await startUpstream()
    upstream.answer(() => status(500, { error: { message: 'too odd', code: 'odd' } }))
    await using house = await openHouse(buildLocalConfig(upstream.url))
    const { id } = await house.chat('Hi', { model: 'acme/small' })
    const { json } = await house.read(id)
    expect(json.data).toMatchObject({
      input: { messages: [{ role: 'user', content: 'Hi' }] },
      output: { completion: null, reasoning: null },
      error: { status: 502, provider_name: 'local', raw: null },
    })
    expect(json.data.error.message).not.toContain('too odd')
    const { data } = await getGenerationContent(house.gateway, house.operator, id)
    expect(data.error?.message).toContain('too odd')
  })

  test('is gone when its time is over, before anything is removed', async () => {
    await using house = await openHouse({ retention: { content_days: 2 } })
    const { id } = await house.chat('Hi')
    house.clock.pass(2 * DAY)
    expect((await house.read(id)).status).toBe(200)
    house.clock.pass(1)
    expect((await house.read(id)).status).toBe(404)
    expect(await house.gateway.store.transcripts.computeUse()).toBeGreaterThan(0)
    const metrics = openMetrics(house.gateway)
    expect(await evictRows(house.gateway)).toEqual([{ kind: 'content', reason: 'age', rows: 1 }])
    expect(await house.gateway.store.transcripts.computeUse()).toBe(0)
    expect(metrics.renderText()).toContain(
      'gateway_rows_evicted_total{kind="content",reason="age"} 1',
    )
  })

  test('takes no more room than it may: the oldest goes first', async () => {
    await using house = await openHouse({ retention: { content_mib: 1 } })
    const text = 'x'.repeat(250_000)
    const ids: string[] = []
    for (let i = 0; i < 4; i++) ids.push((await house.chat(text)).id)
    const [eviction] = await evictRows(house.gateway)
    expect(eviction).toMatchObject({ kind: 'content', reason: 'size' })
    expect(await house.gateway.store.transcripts.computeUse()).toBeLessThanOrEqual(1024 * 1024)
    expect((await house.read(ids[0] ?? '')).status).toBe(404)
    expect((await house.read(ids[3] ?? '')).status).toBe(200)
  })

  test('is gone when it is deleted, with its workspace too', async () => {
    // A command has the clock of the system.
    await using house = await openHouse({}, { at: new Date().toISOString() })
    const { gateway, operator, data } = house
    const { id } = await house.chat('Hi')
    const shown = await runCommand(['generations', 'content', id, '--data', data])
    expect(shown.stdout).toContain('[user]\nHi\n')
    const args = ['generations', 'delete', id, '--yes', '--data', data]
    expect((await runCommand(args)).stdout).toContain('Deleted the content')
    expect((await runCommand(args)).code).not.toBe(0)
    expect((await house.read(id)).status).toBe(404)
    const team = (await createWorkspace(gateway, operator, { name: 'Team', slug: 'team' })).data
    await updateWorkspace(gateway, operator, team.id, { is_observability_io_logging_enabled: true })
    const member = await createKey(gateway, operator, { name: 'm', workspace_id: team.id })
    await house.chat('Hi', {}, member.key)
    expect(await gateway.store.transcripts.computeUse()).toBeGreaterThan(0)
    await deleteKey(gateway, operator, member.data.hash)
    await deleteWorkspace(gateway, operator, team.id, {})
    expect(await gateway.store.transcripts.computeUse()).toBe(0)
  })
})

describe('feedback', () => {
  test('is noted by managers, and shown at the terminal', async () => {
    await using house = await openHouse()
    const { id } = await house.chat('Hi')
    const send = (body: object, key = house.keys.management) =>
      house.ask('/generation/feedback', body, key)
    const good = { generation_id: id, category: 'incorrect_response', comment: 'Paris' }
    expect(await send(good)).toMatchObject({ status: 200, json: { data: { success: true } } })
    const refused = [
      { ...good, category: 'rude' },
      { ...good, comment: 'x'.repeat(1_001) },
      { ...good, generation_id: '' },
      { category: 'other' },
    ].map(async body => (await send(body)).status)
    expect(await Promise.all(refused)).toEqual([400, 400, 400, 400])
    expect((await send({ ...good, generation_id: 'gen-none' })).status).toBe(404)
    expect((await send(good, house.keys.inference)).status).toBe(403)
    const { data } = house
    const own = ['generations', 'feedback', id, '--category', 'latency', '--data', data]
    expect((await runCommand(own)).stdout).toContain('Noted')
    const { stdout } = await runCommand(['generations', 'get', id, '--data', data])
    expect(stdout).toMatch(/incorrect_response +Paris/)
    expect(stdout).toContain('latency')
  })
})

describe('calls whose time is over', () => {
  test('leave their sums and a ledger that adds up; one removed by hand is found', async () => {
    await using upstream = await startUpstream()
    upstream.answer(() => completion('Hello'))
    const retention = { generations_days: 1 }
    await using house = await openHouse(buildLocalConfig(upstream.url, { retention }))
    const { gateway, clock } = house
    const call = async () => (await house.chat('Hi', { model: 'acme/small' })).id
    const id = await call()
    const before = await summarizeUsage(gateway, { by: ['model'] })
    clock.pass(DAY)
    expect(await evictRows(gateway)).toEqual([])
    expect((await describeEvictions(gateway)).found).toBe('no row was removed')
    clock.pass(DAY)
    const kept = await call()
    expect(await evictRows(gateway)).toMatchObject([{ kind: 'generations', rows: 1 }])
    expect(await describeEvictions(gateway)).toMatchObject({
      ok: true,
      found: `removed: 1 of generations by age, last at ${clock.now().toISOString()}`,
    })
    expect((await house.ask(`/generation?id=${id}`)).status).toBe(404)
    expect((await house.ask(`/generation?id=${kept}`)).status).toBe(200)
    const after = await summarizeUsage(gateway, { by: ['model'] })
    expect(before.total.cost).toBeGreaterThan(0)
    expect([after.total.calls, after.total.cost]).toEqual([2, before.total.cost * 2])
    const listProblems = async () => (await examineGateway(gateway)).data.filter(({ ok }) => !ok)
    expect(await listProblems()).toEqual([])
    const db = openDatabase(house.data)
    db.run('update evicted_days set charged = charged - 1')
    db.close()
    expect(await listProblems()).toMatchObject([
      { check: 'calls', found: expect.stringContaining('calls that are no longer kept') },
    ])
  })
})
