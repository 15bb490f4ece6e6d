import { afterEach, beforeEach, describe, expect, test } from 'bun:test'
import { generateKeyPairSync } from 'node:crypto'
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Gateway, openGateway } from '../../src/app/gateway.ts'
import { GatewayError } from '../../src/base/errors.ts'
import { type Actor, getOperator } from '../../src/resources/actor.ts'
import { PUBLIC_PROVIDERS } from '../../src/resources/byok/providers.data.ts'
import type { NewByokKey } from '../../src/resources/byok/schema.ts'
import {
  createByokKey,
  deleteByokKey,
  getByokKeyState,
  listByokKeys,
  listUsableByokKeys,
  updateByokKey,
} from '../../src/resources/byok.ts'
import { createKey, updateKey } from '../../src/resources/keys.ts'
import { createWorkspace, deleteWorkspace } from '../../src/resources/workspaces.ts'
import { createApi } from '../support/api.ts'
import { openDatabase } from '../support/database.ts'
import { createOtherWorkspace, createTestKeys, testGateway } from '../support/gateway.ts'

const SECRET = 'sk-canary-51d7-0123456789'
const OTHER = '00000000-0000-7000-8000-0000000000aa'
const UNKNOWN = '00000000-0000-7000-8000-0000000000ff'

let gateway: Gateway
let keys: Awaited<ReturnType<typeof createTestKeys>>
let api: ReturnType<typeof createApi>

beforeEach(async () => {
  gateway = await testGateway()
  keys = await createTestKeys(gateway)
  api = createApi(gateway, keys.management)
})

const create = async (input: Partial<NewByokKey> = {}) =>
  (
    await createByokKey(gateway, getOperator(gateway), {
      provider: 'openai',
      key: SECRET,
      ...input,
    })
  ).data

/**
 * Calls the API with the management key or another, or with none for null. No answer has a secret.
 */
async function ask(...asked: Parameters<typeof api>) {
  const answer = await api(...asked)
  expect(JSON.stringify(answer)).not.toContain('canary')
  return answer
}

describe('POST /byok', () => {
  test('answers 201 with everything but the key', async () => {
    const { status, json } = await ask('POST', '/byok', {
      body: { provider: 'openai', key: SECRET, name: 'mine' },
    })
    expect(status).toBe(201)
    expect(json).toEqual({
      data: {
        id: expect.stringMatching(/^[0-9a-f-]{36}$/),
        workspace_id: gateway.memory.owner.workspace_id,
        provider: 'openai',
        name: 'mine',
        label: 'sk-c...789',
        disabled: false,
        is_fallback: false,
        is_byok_only: false,
        is_required: false,
        declared_zdr: null,
        allowed_models: null,
        allowed_api_key_hashes: null,
        allowed_user_ids: null,
        sort_order: 0,
        created_at: '2026-03-04T05:06:07.000Z',
      },
    })
  })

  test('keeps every field that it accepts', async () => {
    const given = {
      name: null,
      disabled: true,
      is_fallback: true,
      is_byok_only: false,
      is_required: true,
      declared_zdr: true,
      allowed_models: ['acme/small'],
      allowed_api_key_hashes: [keys.hash],
      allowed_user_ids: ['user_1'],
    }
    const { status, json } = await ask('POST', '/byok', {
      body: { provider: 'openai', key: SECRET, ...given },
    })
    expect([status, json.data]).toEqual([201, expect.objectContaining(given)])
  })

  test('numbers the keys of one provider in one workspace', async () => {
    await createOtherWorkspace(gateway, OTHER)
    const made = [
      await create(),
      await create(),
      await create({ provider: 'groq' }),
      await create({ workspace_id: OTHER }),
      await create(),
    ]
    expect(made.map(one => one.sort_order)).toEqual([0, 1, 0, 0, 2])
  })

  test('accepts providers by the public name and by ours, and shows the public one', async () => {
    const named = async (provider: string) => (await create({ provider, key: SECRET })).provider
    expect(await named('zai')).toBe('z-ai')
    expect(await named('google')).toBe('google-ai-studio')
    expect(await named('google-ai-studio')).toBe('google-ai-studio')
    expect(await named('ai21')).toBe('ai21')
    expect(await named('ovhcloud')).toBe('ovhcloud')
  })

  test.each([
    ['an unknown provider', { provider: 'nobody' }, 'provider'],
    ['a provider that every object has', { provider: 'constructor' }, 'provider'],
    ['an empty key', { key: '' }, 'key'],
    ['a key that would break a header', { key: 'sk-canary\nx: y' }, 'key'],
    ['a key in another alphabet', { key: 'ключ-canary' }, 'key'],
    ['JSON that is none', { key: '{"canary' }, 'key'],
    ['JSON of no credential', { key: '{"secret":"canary"}' }, 'key'],
    [
      'a service account without an RSA key',
      { provider: 'google-vertex', key: '{"private_key":"canary","client_email":"a@b"}' },
      'key',
    ],
    [
      'AWS credentials without a region',
      { provider: 'amazon-bedrock', key: '{"access_key_id":"a","secret_access_key":"canary"}' },
      'key',
    ],
    [
      'a region that is none',
      { provider: 'amazon-bedrock', key: '{"api_key":"canary","region":"x.evil/"}' },
      'key',
    ],
    ['a workspace that does not exist', { workspace_id: UNKNOWN }, 'workspace_id'],
    ['a workspace that is no id', { workspace_id: 'default' }, 'workspace_id'],
    ['a name of 256 characters', { name: 'x'.repeat(256) }, 'name'],
    ['an empty list of API keys', { allowed_api_key_hashes: [] }, 'allowed_api_key_hashes'],
    [
      'an API key that does not exist',
      { allowed_api_key_hashes: ['0'.repeat(64)] },
      'allowed_api_key_hashes',
    ],
    [
      'an API key that is no hash',
      { allowed_api_key_hashes: ['nope'] },
      'allowed_api_key_hashes.0',
    ],
    [
      '101 models',
      { allowed_models: Array.from({ length: 101 }, (_, i) => `acme/${i}`) },
      'allowed_models',
    ],
    ['a fallback that is the only way', { is_fallback: true, is_byok_only: true }, 'is_fallback'],
  ])('refuses %s with 400, names the field, and repeats nothing', async (_, more, field) => {
    const { status, json } = await ask('POST', '/byok', {
      body: { provider: 'openai', key: SECRET, ...more },
    })
    expect([status, json.error.metadata.field]).toEqual([400, field])
    expect([...gateway.memory.byok.values()]).toEqual([])
  })

  test('a disabled API key cannot be listed on a provider key', async () => {
    await updateKey(gateway, getOperator(gateway), keys.hash, { disabled: true })
    expect(
      (
        await ask('POST', '/byok', {
          body: { provider: 'openai', key: SECRET, allowed_api_key_hashes: [keys.hash] },
        })
      ).status,
    ).toBe(400)
  })

  test('an API key of another workspace is refused in the same words', async () => {
    await createOtherWorkspace(gateway, OTHER)
    const { data } = await createKey(gateway, getOperator(gateway), {
      name: 'theirs',
      workspace_id: OTHER,
    })
    const refusal = async (hash: string) => {
      const { status, json } = await ask('POST', '/byok', {
        body: { provider: 'openai', key: SECRET, allowed_api_key_hashes: [hash] },
      })
      return [status, json.error.message, json.error.metadata.field]
    }
    expect(await refusal(data.hash)).toEqual(await refusal('0'.repeat(64)))
    expect((await refusal(data.hash))[0]).toBe(400)
    expect([...gateway.memory.byok.values()]).toEqual([])
  })
})

describe('GET /byok', () => {
  test('lists a workspace by provider and order, in pages, with the total', async () => {
    for (const provider of ['openai', 'groq', 'openai']) await create({ provider })
    const listed = async (query: string) => (await ask('GET', `/byok${query}`)).json
    const shown = ({
      data,
      total_count,
    }: {
      data: { provider: string; sort_order: number }[]
      total_count: number
    }) => [total_count, ...data.map(one => `${one.provider} ${one.sort_order}`)]
    expect(shown(await listed(''))).toEqual([3, 'groq 0', 'openai 0', 'openai 1'])
    expect(shown(await listed('?provider=openai'))).toEqual([2, 'openai 0', 'openai 1'])
    expect(shown(await listed('?offset=1&limit=1'))).toEqual([3, 'openai 0'])
    expect(
      shown(await listed(`?workspace_id=${gateway.memory.owner.workspace_id}&offset=9`)),
    ).toEqual([3])
  })

  test.each([
    'limit=0',
    'limit=101',
    'limit=x',
    'offset=-1',
    'provider=nobody',
    'workspace_id=x',
    `workspace_id=${UNKNOWN}`,
  ])('refuses %s with 400', async query => {
    expect((await ask('GET', `/byok?${query}`)).status).toBe(400)
  })
})

describe('one provider key', () => {
  test('is shown, changed field by field, and deleted', async () => {
    const made = await create({ allowed_models: ['acme/small'] })
    const path = `/byok/${made.id}`
    expect(await ask('GET', path)).toEqual({ status: 200, json: { data: made } })
    const change = {
      name: 'new',
      disabled: true,
      allowed_models: null,
      allowed_api_key_hashes: [keys.hash],
      declared_zdr: false,
    }
    for (const own of [{ provider: 'groq' }, { id: UNKNOWN }, { sort_order: 9 }, { sealed: 'x' }])
      expect((await ask('PATCH', path, { body: { ...change, ...own } })).status).toBe(400)
    const changed = await ask('PATCH', path, { body: change })
    expect(changed).toEqual({ status: 200, json: { data: { ...made, ...change } } })
    expect((await ask('GET', path)).json).toEqual(changed.json)
    expect(await ask('DELETE', path)).toEqual({ status: 200, json: { deleted: true } })
    for (const method of ['GET', 'PATCH', 'DELETE'])
      expect((await ask(method, path, method === 'PATCH' ? { body: {} } : {})).status).toBe(404)
  })

  test('accepts a new key that replaces the old one', async () => {
    const made = await create()
    const { json } = await ask('PATCH', `/byok/${made.id}`, {
      body: { key: 'gsk-another-canary-key-xyz' },
    })
    expect(json.data).toEqual({ ...made, label: 'gsk-...xyz' })
    expect(gateway.memory.byok.get(made.id)?.providers.get('openai')?.api_key?.reveal()).toBe(
      'gsk-another-canary-key-xyz',
    )
  })

  test('does not change without changes', async () => {
    const made = await create()
    expect(await ask('PATCH', `/byok/${made.id}`, { body: {} })).toEqual({
      status: 200,
      json: { data: made },
    })
  })

  test('cannot be changed into a state that could not be created', async () => {
    const made = await create({ is_fallback: true })
    const refused = async (body: object) =>
      (await ask('PATCH', `/byok/${made.id}`, { body })).status
    expect(await refused({ is_byok_only: true })).toBe(400)
    expect(await refused({ key: '' })).toBe(400)
    expect(await refused({ key: 'ключ' })).toBe(400)
    expect(await refused({ allowed_api_key_hashes: [] })).toBe(400)
    expect((await ask('GET', `/byok/${made.id}`)).json.data).toEqual(made)
  })
})

describe('two changes at once', () => {
  const change = (id: string, body: object) => ask('PATCH', `/byok/${id}`, { body })
  const count = (answers: { status: number }[]) => answers.map(({ status }) => status).toSorted()

  test('make no state that neither could make', async () => {
    const { id } = await create()
    const both = [change(id, { is_fallback: true }), change(id, { is_byok_only: true })]
    expect(count(await Promise.all(both))).toEqual([200, 400])
    const { data } = (await ask('GET', `/byok/${id}`)).json
    expect([data.is_fallback, data.is_byok_only].toSorted()).toEqual([false, true])
  })

  test('of two deletions one is made', async () => {
    const { id } = await create()
    const both = [ask('DELETE', `/byok/${id}`), ask('DELETE', `/byok/${id}`)]
    expect(count(await Promise.all(both))).toEqual([200, 404])
  })
})

describe('permissions', () => {
  const OPERATIONS: [method: string, path: string, body?: object][] = [
    ['GET', '/byok'],
    ['POST', '/byok', { provider: 'openai', key: SECRET }],
    ['GET', `/byok/${UNKNOWN}`],
    ['PATCH', `/byok/${UNKNOWN}`, {}],
    ['DELETE', `/byok/${UNKNOWN}`],
  ]

  test.each(OPERATIONS)(
    '%s %s is 401 without a key, 403 with an inference key, and 500 without a store',
    async (method, path, body) => {
      const more = body ? { body } : {}
      expect((await ask(method, path, { ...more, key: null })).status).toBe(401)
      expect((await ask(method, path, { ...more, key: 'gw-v1-nobody' })).status).toBe(401)
      expect((await ask(method, path, { ...more, key: keys.inference })).status).toBe(403)
      gateway.memory.byok = undefined as never
      const broken = await ask(method, path, more)
      expect([broken.status, broken.json.error.message]).toEqual([500, 'Internal Server Error'])
    },
  )

  test('a management key of the default workspace finds all keys, others their own', async () => {
    const { key } = await createOtherWorkspace(gateway, OTHER)
    const [ours, theirs] = [await create(), await create({ workspace_id: OTHER })]
    for (const method of ['GET', 'PATCH', 'DELETE']) {
      const more = method === 'PATCH' ? { body: { name: 'taken' } } : {}
      expect((await ask(method, `/byok/${ours.id}`, { ...more, key })).status).toBe(404)
    }
    expect((await ask('GET', '/byok', { key })).json.data).toEqual([theirs])
    expect(
      (await ask('GET', `/byok?workspace_id=${gateway.memory.owner.workspace_id}`, { key })).status,
    ).toBe(400)
    expect(
      (await ask('POST', '/byok', { key, body: { provider: 'groq', key: SECRET } })).json.data
        .workspace_id,
    ).toBe(OTHER)
    expect((await ask('GET', `/byok/${theirs.id}`)).status).toBe(200)
  })
})

describe('a credential', () => {
  const accountKey = generateKeyPairSync('rsa', { modulusLength: 2048 })
    .privateKey.export({ type: 'pkcs8', format: 'pem' })
    .toString()
  const account = {
    type: 'service_account',
    project_id: 'acme',
    client_email: 'robot@acme.example',
    private_key: accountKey,
  }
  const openedAs = (id: string, slug: string) => gateway.memory.byok.get(id)?.providers.get(slug)

  test('is sent to its provider in that provider’s way', async () => {
    const [openai, anthropic] = [
      await create({ key: ` ${SECRET}\n` }),
      await create({ provider: 'anthropic' }),
    ]
    expect(openedAs(openai.id, 'openai')).toMatchObject({
      auth: 'bearer',
      base_url: 'https://api.openai.com/v1',
      configured: true,
    })
    expect(openedAs(openai.id, 'openai')?.api_key?.reveal()).toBe(SECRET)
    expect(openedAs(anthropic.id, 'anthropic')?.auth).toBe('x-api-key')
  })

  test('of AWS signs for its region, in either spelling', async () => {
    for (const key of [
      {
        access_key_id: 'AKIA0123456789ABCDEF',
        secret_access_key: 's',
        session_token: 't',
        region: 'eu-west-1',
      },
      {
        accessKeyId: 'AKIA0123456789ABCDEF',
        secretAccessKey: 's',
        sessionToken: 't',
        region: 'eu-west-1',
      },
    ]) {
      const made = await create({ provider: 'amazon-bedrock', key: JSON.stringify(key) })
      expect(made.label).toBe('AKIA...DEF')
      expect(openedAs(made.id, 'bedrock')).toMatchObject({
        auth: 'sigv4',
        base_url: 'https://bedrock-runtime.eu-west-1.amazonaws.com',
        aws: { access_key_id: 'AKIA0123456789ABCDEF', region: 'eu-west-1' },
      })
    }
  })

  test('of a service account serves all of Vertex, and buys tokens only at Google', async () => {
    const key = JSON.stringify({ ...account, token_uri: 'http://127.0.0.1:1/canary' })
    const made = await create({ provider: 'google-vertex', key })
    expect(made.label).toBe('robo...ple')
    for (const slug of ['vertex', 'vertex-anthropic']) {
      expect(openedAs(made.id, slug)?.base_url).toContain(
        'https://aiplatform.googleapis.com/v1/projects/acme/locations/global/',
      )
      expect(openedAs(made.id, slug)?.service_account?.token_uri).toBe(
        'https://oauth2.googleapis.com/token',
      )
    }
  })

  test('uses the address and headers of the config, and none of its account', async () => {
    const headers = { 'X-Team': 'a', Authorization: 'Bearer canary', 'OpenAI-Organization': 'org' }
    gateway = await testGateway({
      config: {
        providers: {
          openai: { api_key: 'own', base_url: 'http://127.0.0.1:9/v1', headers, auth: 'api-key' },
        },
      },
    })
    const made = await create()
    expect(openedAs(made.id, 'openai')).toMatchObject({
      auth: 'api-key',
      base_url: 'http://127.0.0.1:9/v1',
      headers: { 'x-team': 'a' },
    })
    expect(gateway.catalog.providers.get('openai')?.api_key?.reveal()).toBe('own')
  })

  test('that is short shows no part in its label', async () => {
    expect((await create({ key: 'short-key' })).label).toBe('...')
  })
})

describe('in memory and on disk', () => {
  let directory: string
  const gateways: Gateway[] = []

  beforeEach(() => {
    directory = mkdtempSync(join(tmpdir(), 'gateway-test-'))
  })

  afterEach(async () => {
    await Promise.all(gateways.splice(0).map(one => one.close()))
    rmSync(directory, { recursive: true, force: true })
  })

  async function open(secret?: string): Promise<Gateway> {
    const one = await openGateway({ data: directory, ...(secret ? { secret } : {}) })
    gateways.push(one)
    return one
  }

  const add = async (to: Gateway) =>
    (await createByokKey(to, getOperator(to), { provider: 'openai', key: SECRET })).data.id
  const credential = (of: Gateway, id: string) =>
    of.memory.byok.get(id)?.providers.get('openai')?.api_key?.reveal()

  test('no file holds the key, and the next process opens it', async () => {
    const id = await add(await open())
    const files = readdirSync(directory).map(file =>
      readFileSync(join(directory, file)).toString('latin1'),
    )
    expect(files.filter(text => text.includes('canary'))).toEqual([])
    expect(readdirSync(directory)).toContain('secret.key')
    expect(credential(await open(), id)).toBe(SECRET)
  })

  test('with another secret than its own it is unreadable, reported and unused', async () => {
    const id = await add(await open('one'))
    expect(readdirSync(directory)).not.toContain('secret.key')
    const [same, wrong] = [await open('one'), await open('two')]
    expect([getByokKeyState(same, id), getByokKeyState(wrong, id)]).toEqual([
      'active',
      'unreadable',
    ])
    expect([credential(same, id), credential(wrong, id)]).toEqual([SECRET, undefined])
    const told: string[] = []
    wrong.events.on('byok.unreadable', one => told.push(one.id))
    const later = await add(same)
    await wrong.catchUp()
    expect(told).toEqual([later])
    await updateByokKey(wrong, getOperator(wrong), id, { key: 'sk-anew-0123456789' })
    expect([getByokKeyState(wrong, id), credential(wrong, id)]).toEqual([
      'active',
      'sk-anew-0123456789',
    ])
  })

  test.each(['it is deleted', 'its workspace is deleted'])(
    'a new credential that comes while %s is kept nowhere',
    async how => {
      const one = await open()
      const operator = getOperator(one)
      const team = await createWorkspace(one, operator, { name: 'Team', slug: 'team' })
      const input = { provider: 'openai', key: SECRET, workspace_id: team.data.id }
      const { id } = (await createByokKey(one, operator, input)).data
      const store = (how === 'it is deleted' ? one.store.byok : one.store.workspaces) as {
        remove(...asked: unknown[]): Promise<void>
      }
      const { remove } = store
      let changed: Promise<unknown> | undefined
      store.remove = (...asked) => {
        const removed = remove(...asked)
        changed = updateByokKey(one, operator, id, { key: SECRET })
        return removed
      }
      await expect(
        (how === 'it is deleted'
          ? deleteByokKey(one, operator, id)
          : deleteWorkspace(one, operator, team.data.id, {})
        ).then(() => changed),
      ).rejects.toThrow('Provider key not found')
      const db = openDatabase(directory)
      expect(db.query('select sealed from byok where id = ?').get(id)).toEqual({ sealed: null })
      db.close()
    },
  )

  test('changes by another process are applied', async () => {
    const [server, terminal] = [await open(), await open()]
    const id = await add(terminal)
    await server.catchUp()
    expect(credential(server, id)).toBe(SECRET)
    await updateByokKey(terminal, getOperator(terminal), id, {
      key: 'sk-anew-0123456789',
      disabled: true,
    })
    await server.catchUp()
    expect([credential(server, id), getByokKeyState(server, id)]).toEqual([
      'sk-anew-0123456789',
      'disabled',
    ])
    await deleteByokKey(terminal, getOperator(terminal), id)
    await server.catchUp()
    expect(listByokKeys(server, getOperator(server), {}).total_count).toBe(0)
  })

  test('changes by this process during a reload are kept', async () => {
    const [server, terminal] = [await open(), await open()]
    const [kept, gone] = [await add(server), await add(server)]
    await add(terminal)
    const catching = server.catchUp()
    const made = add(server)
    const deleted = deleteByokKey(server, getOperator(server), gone)
    await Promise.all([catching, made, deleted])
    expect([
      getByokKeyState(server, kept),
      server.memory.byok.get(gone),
      getByokKeyState(server, await made),
    ]).toEqual(['active', undefined, 'active'])
  })
})

describe('the users of a key', () => {
  const asked = (more: Partial<Actor> = {}) =>
    listUsableByokKeys(gateway, { ...getOperator(gateway), kind: 'inference', ...more }).map(
      one => one.key.id,
    )

  test('depend on its workspace, users, API keys, and whether it is disabled', async () => {
    await createOtherWorkspace(gateway, OTHER)
    const { id: all } = await create()
    const { id: users } = await create({ allowed_user_ids: ['ada'] })
    const { id: hashes } = await create({ allowed_api_key_hashes: [keys.hash] })
    await create({ disabled: true })
    const { id: other } = await create({ workspace_id: OTHER })
    expect(asked()).toEqual([all])
    expect(asked({ user_id: 'ada' })).toEqual([all, users])
    expect(asked({ key_hash: keys.hash })).toEqual([all, hashes])
    expect(asked({ workspace_id: OTHER })).toEqual([other])
  })
})

test('every provider of the public list can have a key, under the public name', async () => {
  const refusals = await Promise.all(
    PUBLIC_PROVIDERS.map(async provider => {
      const given = { provider, key: SECRET }
      return createByokKey(gateway, getOperator(gateway), given).then(
        ({ data }) => data.provider === provider || 'renamed',
        thrown => (thrown instanceof GatewayError ? `${provider}: ${thrown.message}` : 'broken'),
      )
    }),
  )
  // These have their region in the credential or in the config.
  expect(refusals.filter(one => one !== true)).toEqual([
    'amazon-bedrock: key: expected the region in https://bedrock-runtime.{region}.amazonaws.com',
    'azure: key: expected the address before the protocol’s own path',
    'cloudflare: key: expected the address before the protocol’s own path',
    expect.stringContaining('google-vertex: key: expected the region in '),
  ])
})
