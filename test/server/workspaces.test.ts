import { afterEach, beforeEach, describe, expect, test } from 'bun:test'
import { readGenerationId, readText, sendChat, waitUntil } from '../support/chat.ts'
import { runCommand as terminal } from '../support/commands.ts'
import { openDatabase } from '../support/database.ts'
import type { Outcome } from '../support/raw-client.ts'
import { type LocalServer, type Server, startLocalServer, startServer } from '../support/server.ts'
import { readRefusedLimit } from '../support/shortage.ts'
import {
  completion,
  delta,
  done,
  finish,
  sseHead,
  startUpstream,
  type Upstream,
  usage,
} from '../support/upstream.ts'

/** A dollar per million output tokens: every call costs ten cents. */
const TOKENS = 100_000

let upstream: Upstream
let server: Server | LocalServer

beforeEach(async () => {
  upstream = await startUpstream()
  upstream.plan(completion('Hello', { usage: usage(1, TOKENS) }))
})

afterEach(async () => {
  await server[Symbol.asyncDispose]()
  await upstream.close()
})

function config() {
  const endpoint = (model: string) => ({
    provider: 'local',
    model,
    usd_per_million_tokens: { prompt: 0, completion: 1 },
  })
  return {
    limits: { strict: false, wait_seconds: 0 },
    providers: { local: { protocol: 'openai-chat', base_url: upstream.url, api_key: 'mock' } },
    models: ['acme/small', 'acme/other'].map(id => ({
      id,
      context_length: 1_000_000,
      endpoints: [endpoint(id)],
    })),
  }
}

/** Calls the API with the management key. */
async function manage(method: string, path: string, json?: object) {
  const response = await server.fetch(path, {
    method,
    key: server.management_key,
    ...(json ? { json } : {}),
  })
  if (!response.ok) throw new Error(`${method} ${path}: ${await response.text()}`)
  return (await response.json()) as { key: string; data: { id: string } }
}

const budget = (interval: string, limit_usd: number, workspace = 'default') =>
  manage('PUT', `/workspaces/${workspace}/budgets/${interval}`, { limit_usd })

async function workspaceWithKey(slug: string, more: object = {}): Promise<string> {
  const { data } = await manage('POST', '/workspaces', { name: slug, slug, ...more })
  return (await manage('POST', '/keys', { name: slug, workspace_id: data.id })).key
}

const ask = (key = server.inference_key, body: object = { max_tokens: TOKENS }) =>
  sendChat(server, body, { key }).outcome()
const told = ({ status, body }: Outcome) => [
  status,
  readRefusedLimit(JSON.parse(body).error?.message ?? ''),
]
const run = async (...args: string[]) =>
  expect((await terminal([...args, '--data', server.data])).stderr).toBe('')

describe('in one process, a workspace', () => {
  beforeEach(async () => {
    server = await startLocalServer(config())
  })

  test('has a budget that is spent by all its keys together, and then a call is 402 without a request', async () => {
    await budget('daily', 0.2)
    const { key } = await manage('POST', '/keys', { name: 'second' })
    expect([(await ask()).status, (await ask(key)).status]).toEqual([200, 200])
    for (const of of [server.inference_key, key])
      expect(told(await ask(of))).toEqual([
        402,
        'Workspace daily budget of $0.20 exceeded. Contact your org admin.',
      ])
    expect(upstream.hits).toHaveLength(2)
  })

  test('has a budget that holds for many calls at once', async () => {
    await budget('monthly', 0.5)
    const outcomes = await Promise.all(Array.from({ length: 20 }, () => ask()))
    expect(outcomes.map(({ status }) => status).toSorted()).toEqual([
      ...Array(5).fill(200),
      ...Array(15).fill(402),
    ])
    expect(upstream.hits).toHaveLength(5)
  })

  test('has a budget that is named as the broadest of several that are exceeded', async () => {
    for (const [interval, limit] of Object.entries({
      daily: 0.1,
      weekly: 0.101,
      monthly: 0.102,
      lifetime: 0.103,
    }))
      await budget(interval, limit)
    expect((await ask()).status).toBe(200)
    expect(told(await ask())).toEqual([
      402,
      'Workspace lifetime budget of $0.103 exceeded. Contact your org admin.',
    ])
    await manage('DELETE', '/workspaces/default/budgets/lifetime')
    expect(told(await ask())).toEqual([
      402,
      'Workspace monthly budget of $0.102 exceeded. Contact your org admin.',
    ])
  })

  test('has a budget that affects no other, and counts spending from before it was set', async () => {
    const other = await workspaceWithKey('other')
    expect((await ask()).status).toBe(200)
    await budget('daily', 0.1)
    expect([(await ask()).status, (await ask(other)).status]).toEqual([402, 200])
  })

  test('provides the model for a call that names none', async () => {
    const key = await workspaceWithKey('other', { default_text_model: 'acme/other' })
    await ask(key, { model: undefined, max_tokens: 5 })
    expect(upstream.hits.map(hit => (hit.json as { model: string }).model)).toEqual(['acme/other'])
  })
})

describe('of a program, a workspace', () => {
  let program: Server
  beforeEach(async () => {
    program = await startServer({ config: config() })
    server = program
  })

  test('has a budget that the terminal sets or deletes for the server’s next calls', async () => {
    await run('budgets', 'set', 'daily', '--limit', '0.05')
    await waitUntil(async () => (await ask()).status === 402)
    await run('budgets', 'delete', 'daily', '--yes')
    await waitUntil(async () => (await ask()).status === 200)
  })

  test('has its budget after a restart, with its spending', async () => {
    await budget('daily', 0.1)
    expect((await ask()).status).toBe(200)
    await program.stop()
    const { management_key, inference_key, data } = server
    const again = await startServer({ config: config(), data })
    expect(
      (await sendChat(again, { max_tokens: TOKENS }, { key: inference_key }).outcome()).status,
    ).toBe(402)
    const listed = await again.fetch('/workspaces/default/budgets', { key: management_key })
    expect(((await listed.json()) as { data: object[] }).data).toMatchObject([
      { limit_usd: 0.1, reset_interval: 'daily' },
    ])
    await again.stop()
  })

  test('that the terminal creates and deletes appears and disappears at the server', async () => {
    const status = async () =>
      (await server.fetch('/workspaces/crew', { key: server.management_key })).status
    await run('workspaces', 'create', '--name', 'Crew', '--slug', 'crew')
    await waitUntil(async () => (await status()) === 200)
    await run('workspaces', 'delete', 'crew', '--yes')
    await waitUntil(async () => (await status()) === 404)
  })

  test('A-17 E13 that is deleted lets running calls finish with a record; the next is 401', async () => {
    upstream.plan([
      sseHead(),
      delta('Hel'),
      { wait: 'more' },
      delta('lo'),
      finish('stop', usage(1, TOKENS)),
      done(),
      '0\r\n\r\n',
    ])
    const running = sendChat(server, { stream: true, max_tokens: TOKENS })
    await running.sees('Hel')
    await run('workspaces', 'delete', 'default', '--confirm-default', '--yes')
    await waitUntil(async () => (await server.fetch('/key')).status === 401)
    upstream.open('more')
    const outcome = await running.outcome()
    expect([outcome.status, outcome.complete, readText(outcome)]).toEqual([200, true, 'Hello'])
    await program.stop()
    const db = openDatabase(server.data, { readonly: true })
    expect(
      db.query('select total_cost from generations where id = ?').get(readGenerationId(outcome)),
    ).toEqual({
      total_cost: 100_000_000,
    })
    db.close()
  })

  test('a member who leaves loses their keys at a running server too', async () => {
    const { stdout } = await terminal([
      'members',
      'create',
      '--email',
      'ada@acme.example',
      '--json',
      '--data',
      server.data,
    ])
    const { id } = JSON.parse(stdout).data
    const { key } = await manage('POST', '/keys', { name: 'hers', creator_user_id: id })
    expect((await ask(key)).status).toBe(200)
    await run('members', 'deactivate', id, '--yes')
    await waitUntil(async () => (await ask(key)).status === 401)
    const refused = await server.fetch('/keys', {
      key: server.management_key,
      json: { name: 'again', creator_user_id: id },
    })
    expect(refused.status).toBe(400)
    expect((await ask()).status).toBe(200)
  })
})
