import { afterAll, expect, test } from 'bun:test'
import type { GatewayParts } from '../../src/app/gateway.ts'
import { addCredit } from '../../src/limits/credits.ts'
import { rollUp } from '../../src/observability/rollups.ts'
import { getOperator } from '../../src/resources/actor.ts'
import { addMember } from '../../src/resources/members.ts'
import { createApp } from '../../src/server/app.ts'
import { openPostgres } from '../../src/store/postgres.ts'
import type { Store } from '../../src/store/store.ts'
import { createTestKeys, TestClock, testGateway } from '../support/gateway.ts'
import { TEST_SECRET, TEST_SECRETS } from '../support/ledger.ts'
import { hasPostgres, startPostgres } from '../support/postgres.ts'
import { openIdentityProvider } from '../support/scim.ts'

const MODEL = {
  id: 'acme/small',
  context_length: 128_000,
  endpoints: [
    { provider: 'sandbox', model: 'echo', usd_per_million_tokens: { prompt: 1, completion: 2 } },
  ],
}

const DAY = 86_400_000

/** One answer of the API, as a client receives it. */
interface Answer {
  asked: string
  status: number
  // biome-ignore lint/suspicious/noExplicitAny: what a client reads, it reads without a type.
  body: any
}

/** A gateway's API over a store, and all of its answers. */
async function serve(parts: Partial<Omit<GatewayParts, 'config'>> = {}) {
  const clock = new TestClock()
  const gateway = await testGateway({
    clock,
    secret: TEST_SECRET,
    ...parts,
    config: { models: [MODEL], responses: { store: true } },
  })
  const app = createApp(gateway)
  const keys = await createTestKeys(gateway)
  const answers: Answer[] = []

  async function ask(method: string, path: string, json?: object, key = keys.management) {
    const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }
    const body = json === undefined ? {} : { body: JSON.stringify(json) }
    const request = new Request(`http://gateway.test/api/v1${path}`, { method, headers, ...body })
    const response = await app.handle(request)
    const text = await response.text()
    const isJson = response.headers.get('content-type')?.includes('json')
    answers.push({
      asked: `${method} ${path}`,
      status: response.status,
      body: isJson ? JSON.parse(text) : text,
    })
    return answers.at(-1) as Answer
  }

  return { gateway, clock, keys, answers, ask }
}

/** Uses everything that the API needs of a store, refusals included. */
async function walk({
  gateway,
  clock,
  keys,
  ask,
}: Awaited<ReturnType<typeof serve>>): Promise<void> {
  const made = async (path: string, json: object) => (await ask('POST', path, json)).body
  const messages = [{ role: 'user', content: 'Hello “𝄞”' }]
  const chat = (key: string, json: object = {}) =>
    ask('POST', '/chat/completions', { model: 'acme/small', messages, ...json }, key)

  const { key, data } = await made('/keys', { name: 'ci', limit: 1, limit_reset: 'daily' })
  await ask('GET', '/keys')
  await ask('GET', `/keys/${data.hash}`)
  const { body: answer } = await chat(key)
  await ask('GET', `/generation?id=${answer.id}`, undefined, key)
  await chat(key, { stream: true, model: 'gateway/auto' })
  await ask('GET', '/key', undefined, key)
  await ask('GET', '/credits')
  await addCredit(gateway, getOperator(gateway), { amount: 2.5, note: 'paid' })
  await ask('GET', '/credits')
  await ask('PATCH', `/keys/${data.hash}`, { name: 'renamed', limit: 0 })
  await chat(key)
  await ask('PATCH', `/keys/${data.hash}`, { limit: null, disabled: true })
  await chat(key)

  const workspace = (await made('/workspaces', { name: 'Team', slug: 'team' })).data
  await made('/workspaces', { name: 'Again', slug: 'team' })
  await ask('PATCH', '/workspaces/team', { description: 'Ours', default_text_model: 'acme/small' })
  const team = await made('/keys', { name: 'theirs', workspace_id: workspace.id })
  await chat(team.key)

  await ask('PUT', '/workspaces/team/budgets/daily', { limit_usd: 5 })
  await ask('PUT', '/workspaces/team/budgets/monthly', { limit_usd: 5 })
  await ask('PUT', '/workspaces/team/budgets/monthly', {
    limit_usd: 9,
    include_byok_in_budgets: true,
  })
  await ask('GET', '/workspaces/team/budgets')
  await ask('DELETE', '/workspaces/team/budgets/daily')

  const { id } = (
    await made('/guardrails', {
      name: 'Rules',
      ignored_models: ['acme/small'],
      workspace_id: workspace.id,
    })
  ).data
  await made(`/guardrails/${id}/assignments/keys`, { key_hashes: [team.data.hash] })
  await made(`/guardrails/${id}/assignments/keys`, { key_hashes: [data.hash] })
  await chat(team.key)
  await ask('PATCH', `/guardrails/${id}`, {
    ignored_models: null,
    limit_usd: 3,
    reset_interval: 'daily',
  })
  await chat(team.key)
  await ask('GET', `/guardrails/${id}/assignments/keys`)
  await made(`/guardrails/${id}/assignments/keys/remove`, { key_hashes: [team.data.hash] })
  await ask('DELETE', `/guardrails/${id}`)
  await ask('GET', '/guardrails')

  await ask(
    'POST',
    '/presets/brief/chat/completions',
    { messages: [{ role: 'system', content: 'Be brief' }], temperature: 0 },
    team.key,
  )
  await ask(
    'POST',
    '/presets/brief/chat/completions',
    { messages: [{ role: 'system', content: 'Be long' }] },
    team.key,
  )
  await ask('GET', '/presets', undefined, team.key)
  await ask('GET', '/presets/brief/versions', undefined, team.key)
  await ask('GET', '/presets/brief/versions/1', undefined, team.key)
  await chat(team.key, { preset: 'brief' })

  const byok = (
    await made('/byok', { provider: 'openai', key: 'sk-canary-canary', workspace_id: workspace.id })
  ).data
  await ask('PATCH', `/byok/${byok.id}`, { name: 'mine', disabled: true })
  await ask('GET', '/byok')
  await ask('DELETE', `/byok/${byok.id}`)
  await ask('GET', `/byok/${byok.id}`)

  const { id: member } = await addMember(gateway, getOperator(gateway), {
    email: 'ada@acme.example',
  })
  await made('/workspaces/team/members/add', { user_ids: [member] })
  await made('/workspaces/team/members/add', { user_ids: ['user_none'] })
  for (const strange of ['user_\u0000', 'user_\ud800', 'user_\udc00']) {
    await made('/workspaces/team/members/add', { user_ids: [strange] })
    await made('/workspaces/team/members/remove', { user_ids: [strange] })
    await made('/keys', { name: 'theirs', creator_user_id: strange })
  }
  await ask('GET', '/workspaces/team/members')
  await ask('GET', '/organization/members')
  await made('/workspaces/team/members/remove', { user_ids: [member] })

  const idp = await openIdentityProvider(gateway)
  const group = await idp.group('Engineers', await idp.user('bob'))
  const mapping = await made('/scim/group-mappings', {
    scim_group_id: group,
    workspace_id: workspace.id,
    role: 'admin',
  })
  await ask('GET', '/workspaces/team/members')
  await ask('DELETE', `/scim/group-mappings/${mapping.data.id}?keep_members=true`)
  await ask('GET', '/workspaces/team/members')

  const config = { url: 'https://hooks.example.com/a' }
  const to = { type: 'webhook', ...config, secret: 'whsec_Y2FuYXJ5LTUxZDctMDEyMzQ1Njc4OQ==' }
  const near = (await made('/alerts', { name: 'near', cause: 'limit_near', to })).data
  await ask('PATCH', `/alerts/${near.id}`, { disabled: true })
  await ask('GET', '/alerts')
  await ask('DELETE', `/alerts/${near.id}`)
  const place = '/observability/destinations'
  const hook = (await made(place, { type: 'webhook', name: 'hook', config })).data
  await made(place, { type: 'webhook', name: 'other', api_key_hashes: ['none'], config })
  await ask('PATCH', `${place}/${hook.id}`, { name: 'renamed' })
  await ask('DELETE', `${place}/${hook.id}`)
  await ask('GET', place)

  const requests = [{ custom_id: 'a', body: { messages } }]
  const lines = { endpoint: '/v1/chat/completions', model: 'acme/small', requests }
  const { body: batch } = await ask('POST', '/batches', lines, keys.inference)
  await ask('GET', '/batches?status=validating', undefined, keys.inference)
  await ask('POST', `/batches/${batch.id}/cancel`, undefined, keys.inference)
  await ask('GET', '/files', undefined, keys.inference)
  const question = { model: 'acme/small', input: 'Hello', store: true }
  const { body: response } = await ask('POST', '/responses', question, keys.inference)
  const next = { ...question, previous_response_id: response.id }
  await ask('POST', '/responses', next, keys.inference)
  await ask('GET', `/responses/${response.id}/input_items`, undefined, keys.inference)
  await ask('DELETE', `/responses/${response.id}`, undefined, keys.inference)
  await ask('POST', '/responses', next, keys.inference)

  await rollUp(gateway)
  clock.pass(DAY)
  await ask('GET', '/activity')
  await made('/analytics/query', {
    ...{ metrics: ['request_count', 'tokens_total', 'total_usage'] },
    ...{ granularity: 'hour', dimensions: ['model', 'api_key_id'] },
  })
  await ask('DELETE', '/workspaces/team')
  await ask('DELETE', `/keys/${team.data.hash}`)
  await ask('DELETE', '/workspaces/team')
  await ask('DELETE', `/keys/${data.hash}`)
  await ask('GET', '/keys')
  await ask('GET', '/audit?limit=100')
  await ask('GET', `/keys/${keys.hash}`)
}

if (await hasPostgres()) {
  const server = await startPostgres()
  afterAll(() => server[Symbol.asyncDispose]())

  test('every flow of the API gives the same answers over Postgres as over SQLite', async () => {
    const store = await openPostgres({ url: server.url, secrets: TEST_SECRETS })
    const sqlite = await serve()
    const postgres = await serve({ store: store as unknown as Store })
    await walk(sqlite)
    await walk(postgres)
    expect(postgres.answers).toEqual(sqlite.answers)
    const statuses = (path: string) =>
      postgres.answers.filter(({ asked }) => asked.includes(path)).map(({ status }) => status)
    expect(statuses('/chat/completions')).toEqual([
      ...[200, 200, 402, 401, 200, 404, 200, 200, 200, 200],
    ])
    expect(statuses('GET /generation')).toEqual([200])
    expect(statuses('/byok')).toEqual([201, 200, 200, 200, 404])
    expect(statuses('/responses')).toEqual([200, 200, 200, 200, 400])
    expect(statuses('POST /analytics')).toEqual([200])
    expect(statuses('DELETE /workspaces/team')).toEqual([200, 400, 200])
    expect(postgres.answers.filter(({ status }) => status >= 500)).toEqual([])
    const audit = postgres.answers.find(({ asked }) => asked.startsWith('GET /audit'))
    expect(audit?.body.total_count).toBeGreaterThan(25)
    await Promise.all([sqlite.gateway.close(), postgres.gateway.close()])
  })
} else test.skip('every flow over Postgres, which is not installed and cannot be', () => undefined)
