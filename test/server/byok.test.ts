import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import {
  buildRoutesConfig,
  COST,
  createLimitedKey,
  fetchGeneration,
  readGenerationId,
  readText,
  readUsage,
  sendChat,
  waitUntil,
} from '../support/chat.ts'
import { openDatabase } from '../support/database.ts'
import type { Outcome } from '../support/raw-client.ts'
import { type Server, startServer } from '../support/server.ts'
import {
  completion,
  errorBody,
  resetAtOnce,
  type Script,
  startUpstream,
  status,
  stream,
  type Upstream,
} from '../support/upstream.ts'

const OTHER = '019aa000-0000-7000-8000-0000000000aa'
/** A marker in every caller's key that may appear nowhere. */
const CANARY = 'canary-73ae'
const MINE = `sk-${CANARY}-mine`
const THEIRS = `sk-${CANARY}-theirs`

let server: Server
let upstream: Upstream
let otherKey: string
let heard: string[]

beforeAll(async () => {
  upstream = await startUpstream()
  server = await startServer({
    config: buildRoutesConfig({ 'acme/small': { local: upstream.url } }),
  })
  const db = openDatabase(server.data)
  db.run(
    `insert into workspaces (id, name, slug, is_default, created_by, created_at)
       values (?, 'Other', 'other', 0, 'u', '2026-01-01T00:00:00Z')`,
    [OTHER],
  )
  db.close()
  const made = async () =>
    server.fetch('/keys', {
      key: server.management_key,
      json: { name: 'other', workspace_id: OTHER },
    })
  await waitUntil(async () => (await made()).status === 201)
  otherKey = ((await (await made()).json()) as { key: string }).key
})

afterAll(async () => {
  const { stderr } = await server.stop()
  const files = readdirSync(server.data).map(file =>
    readFileSync(join(server.data, file)).toString('latin1'),
  )
  await server[Symbol.asyncDispose]()
  await upstream.close()
  // Everything in the log and the data directory, from all tests above.
  expect(stderr).toContain('attempt.failed')
  expect(stderr).not.toContain(CANARY)
  expect(files.filter(text => text.includes(CANARY))).toEqual([])
})

beforeEach(() => {
  heard = []
  upstream.hits.length = 0
})

afterEach(async () => {
  expect(heard.filter(body => body.includes(CANARY))).toEqual([])
  for (const workspace of ['', `?workspace_id=${OTHER}`]) {
    const { data } = await manage('GET', `/byok${workspace}`)
    for (const { id } of data) await manage('DELETE', `/byok/${id}`)
  }
})

async function manage(method: string, path: string, json?: object) {
  const init = { method, key: server.management_key, ...(json ? { json } : {}) }
  const text = await (await server.fetch(path, init)).text()
  heard.push(text)
  return JSON.parse(text)
}

const add = async (more: object = {}): Promise<string> =>
  (await manage('POST', '/byok', { provider: 'local', key: MINE, ...more })).data.id

async function ask(body: object = {}, key?: string): Promise<Outcome> {
  const outcome = await sendChat(server, body, key ? { key } : {}).outcome()
  heard.push(outcome.body)
  return outcome
}

/** The keys that arrived, in order. */
const arrived = () => upstream.hits.map(hit => hit.headers.authorization?.replace('Bearer ', ''))

/** Answers the gateway's own credential, and plays the script for any other. */
const failing = (script: Script) =>
  upstream.answer(hit =>
    hit.headers.authorization === 'Bearer mock' ? completion('Hello') : script,
  )

describe('a call', () => {
  beforeEach(() =>
    upstream.answer(({ json }) =>
      (json as { stream?: boolean }).stream ? stream(['Hel', 'lo']) : completion('Hello'),
    ),
  )

  test('uses the key of its workspace, or the gateway’s where it has none', async () => {
    await ask()
    await add()
    await ask()
    await ask({}, otherKey)
    await add({ key: THEIRS, workspace_id: OTHER })
    await ask({}, otherKey)
    await ask()
    expect(arrived()).toEqual(['mock', MINE, 'mock', THEIRS, MINE])
  })

  test.each([false, true])(
    'costs nothing here; the provider’s price is counted separately (streamed: %p)',
    async streamed => {
      await add()
      const key = await createLimitedKey(server)
      const answer = await ask({ stream: streamed }, key)
      expect(readText(answer)).toBe('Hello')
      const usage = readUsage(answer)
      expect(usage).toMatchObject({
        cost: 0,
        is_byok: true,
        cost_details: { upstream_inference_cost: COST },
      })
      expect(await fetchGeneration(server, readGenerationId(answer), key)).toMatchObject({
        ...{ is_byok: true, total_cost: 0, usage: 0, upstream_inference_cost: COST },
        provider_responses: [{ provider_name: 'local', is_byok: true, status: 200 }],
      })
      const { data } = (await (await server.fetch('/key', { key })).json()) as { data: object }
      expect(data).toMatchObject({
        usage: 0,
        usage_daily: 0,
        byok_usage: COST,
        byok_usage_monthly: COST,
        limit_remaining: 1,
      })
    },
  )

  test('is signed with a caller’s AWS credentials', async () => {
    const aws = { access_key_id: 'AKID', secret_access_key: MINE, region: 'eu-west-1' }
    await add({ key: JSON.stringify(aws) })
    await ask()
    expect(arrived()).toEqual([
      expect.stringMatching(
        /^AWS4-HMAC-SHA256 Credential=AKID\/\d{8}\/eu-west-1\/bedrock\/aws4_request/,
      ),
    ])
  })

  test('counts in a limit that includes it', async () => {
    await add()
    const json = { name: 'strict', limit: 1, include_byok_in_limit: true }
    const { key } = (await (
      await server.fetch('/keys', { key: server.management_key, json })
    ).json()) as { key: string }
    await ask({}, key)
    const { data } = (await (await server.fetch('/key', { key })).json()) as { data: object }
    expect(data).toMatchObject({ usage: 0, byok_usage: COST, limit_remaining: 1 - COST })
  })

  test('with a disabled, deleted or fallback key uses the gateway’s own', async () => {
    const id = await add({ disabled: true })
    await ask()
    await manage('PATCH', `/byok/${id}`, { disabled: false, is_fallback: true })
    await ask()
    await manage('PATCH', `/byok/${id}`, { is_fallback: false })
    await ask()
    await manage('DELETE', `/byok/${id}`)
    await ask()
    expect(arrived()).toEqual(['mock', 'mock', MINE, 'mock'])
  })
})

describe('a key that its provider refuses', () => {
  test.each([
    ['401', status(401, errorBody(401, `${MINE} is no good`))],
    ['402', status(402, errorBody(402, `${MINE} is no good`))],
    ['403', status(403, errorBody(403, `${MINE} is no good`))],
    ['429', status(429, errorBody(429, `${MINE} is no good`))],
    ['500', status(500, errorBody(500, `${MINE} is no good`))],
    ['529', status(529, errorBody(529, `${MINE} is no good`))],
    ['a broken connection', resetAtOnce()],
  ] as [string, Script][])(
    '(%s) is followed by the gateway’s own, and both are on record',
    async (_, script) => {
      failing(script)
      await add()
      const answer = await ask()
      expect([answer.status, readText(answer), arrived()]).toEqual([200, 'Hello', [MINE, 'mock']])
      expect(readUsage(answer)).toMatchObject({ cost: COST, is_byok: false })
      const { provider_responses } = (await fetchGeneration(server, readGenerationId(answer))) as {
        provider_responses: { is_byok?: boolean }[]
      }
      expect(provider_responses.map(one => one.is_byok)).toEqual([true, false])
    },
  )

  test('because the request is invalid is not followed by another', async () => {
    failing(status(400, errorBody(400, `${MINE} is no good`)))
    await add()
    expect([(await ask()).status, arrived()]).toEqual([400, [MINE]])
  })

  test('and is set as required ends the call with an error about the caller’s key', async () => {
    failing(status(401, errorBody(401, `${MINE} is no good`)))
    await add({ is_required: true })
    const answer = await ask()
    expect([answer.status, arrived()]).toEqual([502, [MINE]])
    expect(JSON.parse(answer.body).error.metadata).toMatchObject({
      provider_name: 'local',
      is_byok: true,
    })
  })

  test('is followed by the next one, and a fallback by none', async () => {
    upstream.answer(() => status(500, errorBody(500, `${MINE} is no good`)))
    await add({ key: `${MINE}-2` })
    await add({ is_fallback: true, key: `${MINE}-3` })
    expect([(await ask()).status, arrived()]).toEqual([502, [`${MINE}-2`, 'mock', `${MINE}-3`]])
  })
})

test('invalid input with a key is refused without showing the key', async () => {
  for (const more of [
    { key: `${CANARY}\n`, provider: CANARY },
    { key: `${CANARY} ${CANARY}` },
    { key: { [CANARY]: 1 } },
    { key: `{"${CANARY}":1}` },
  ]) {
    const response = await server.fetch('/byok', {
      key: server.management_key,
      json: { provider: 'local', ...more },
    })
    expect(response.status).toBe(400)
    heard.push(await response.text())
  }
})

test('a server reports a key that it cannot decrypt, does not use it, and answers', async () => {
  await using first = await startServer({
    config: buildRoutesConfig({ 'acme/small': { local: upstream.url } }),
  })
  const json = { provider: 'local', key: MINE }
  expect((await first.fetch('/byok', { key: first.management_key, json })).status).toBe(201)
  const { stderr: quiet } = await first.stop()
  const db = openDatabase(first.data)
  db.run('update byok set sealed = substr(sealed, 2)')
  db.close()
  const second = await startServer({
    config: buildRoutesConfig({ 'acme/small': { local: upstream.url } }),
    data: first.data,
  })
  upstream.answer(() => completion('Hello'))
  const answer = await sendChat(second, {}, { key: first.inference_key }).outcome()
  expect([answer.status, arrived()]).toEqual([200, ['mock']])
  const { stderr } = await second.stop()
  expect([
    quiet.includes('byok.unreadable'),
    stderr.match(/"event":"byok.unreadable"/g)?.length,
  ]).toEqual([false, 1])
  expect(quiet + stderr).not.toContain(CANARY)
})

test('a server with another secret does not start, and changes nothing', async () => {
  const [one, two] = [{ GATEWAY_SECRET: '1'.repeat(32) }, { GATEWAY_SECRET: '2'.repeat(32) }]
  const config = buildRoutesConfig({ 'acme/small': { local: upstream.url } })
  await using first = await startServer({ config, env: one })
  await first.stop()
  await expect(startServer({ config, data: first.data, env: two })).rejects.toThrow(
    'This data was sealed with another secret than GATEWAY_SECRET',
  )
  await expect(startServer({ config, data: first.data })).rejects.toThrow(
    'The secret of this data is missing',
  )
  const again = await startServer({ config, data: first.data, env: one })
  upstream.answer(() => completion('Hello'))
  expect((await sendChat(again, {}, { key: first.inference_key }).outcome()).status).toBe(200)
  await again.stop()
})
