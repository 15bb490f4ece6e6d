import { afterEach, beforeEach, describe, expect, test } from 'bun:test'
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Gateway, openGateway } from '../../src/app/gateway.ts'
import { reconfigure } from '../../src/app/reconfigure.ts'
import { GatewayError } from '../../src/base/errors.ts'
import { parseConfig } from '../../src/config.ts'
import { setBudget } from '../../src/limits/budgets.ts'
import { type Actor, getOperator, identify } from '../../src/resources/actor.ts'
import { createByokKey } from '../../src/resources/byok.ts'
import { getDefaultGuardrailId } from '../../src/resources/default-guardrail.ts'
import { createKey, deleteKey, listKeys, updateKey } from '../../src/resources/keys.ts'
import { createPreset } from '../../src/resources/presets.ts'
import { isDisabledTool } from '../../src/resources/workspaces/disabled-tools.ts'
import type { NewWorkspace } from '../../src/resources/workspaces/schema.ts'
import {
  createWorkspace,
  deleteWorkspace,
  getWorkspace,
  updateWorkspace,
} from '../../src/resources/workspaces.ts'
import { createApi, readRefusalStatus, readTrail } from '../support/api.ts'
import { openDatabase } from '../support/database.ts'
import { createCountedIds, createTestKeys, TestClock, testGateway } from '../support/gateway.ts'
import { setWorkspaceMember } from '../support/workspace-members.ts'

const UNKNOWN = '00000000-0000-7000-8000-0000000000ff'

let data: string
let clock: TestClock
let gateway: Gateway
let actor: Actor
let keys: Awaited<ReturnType<typeof createTestKeys>>
let ask: ReturnType<typeof createApi>
const others: Gateway[] = []

beforeEach(async () => {
  data = mkdtempSync(join(tmpdir(), 'gateway-test-'))
  clock = new TestClock()
  gateway = await openGateway({ data, clock, ids: createCountedIds() })
  actor = getOperator(gateway)
  keys = await createTestKeys(gateway)
  ask = createApi(gateway, keys.management)
})

afterEach(async () => {
  await Promise.all([gateway, ...others.splice(0)].map(one => one.close()))
  rmSync(data, { recursive: true, force: true })
})

/** Opens another process on the same data. */
async function another(): Promise<Gateway> {
  const one = await openGateway({ data, clock })
  others.push(one)
  return one
}

const create = async (input: Partial<NewWorkspace> = {}) =>
  (await createWorkspace(gateway, actor, { name: 'Team', slug: 'team', ...input })).data
const keyIn = (workspace_id: string | undefined, kind?: 'management') =>
  createKey(gateway, actor, { name: 'ci', ...(workspace_id ? { workspace_id } : {}) }, kind)
const remove = (idOrSlug: string, confirm?: 'true') =>
  deleteWorkspace(
    gateway,
    actor,
    idOrSlug,
    confirm ? { confirm_default_workspace_deletion: confirm } : {},
  )
const removeDefault = () => remove(gateway.memory.owner.workspace_id, 'true')

describe('POST /workspaces', () => {
  test('answers 201 with every field, and defaults for those not given', async () => {
    const { status, json } = await ask('POST', '/workspaces', {
      body: { name: 'Team', slug: 'team' },
    })
    expect(status).toBe(201)
    const { id } = json.data
    expect(json.data).toEqual({
      ...{
        id: expect.stringMatching(/^[0-9a-f-]{36}$/),
        name: 'Team',
        slug: 'team',
        description: null,
      },
      default_guardrail_id: getDefaultGuardrailId(id),
      ...{
        default_text_model: null,
        default_image_model: null,
        default_provider_sort: null,
        include_byok_in_budgets: false,
      },
      ...{
        is_observability_io_logging_enabled: false,
        is_observability_broadcast_enabled: false,
        is_data_discount_logging_enabled: false,
      },
      ...{ io_logging_sampling_rate: 1, io_logging_api_key_ids: null, disabled_server_tools: null },
      ...{
        created_by: gateway.memory.owner.user_id,
        created_at: '2026-03-04T05:06:07.000Z',
        updated_at: null,
      },
    })
  })

  test('keeps every accepted field, also after a restart', async () => {
    const given = {
      ...{
        name: 'Team “𝄞”',
        slug: 'a-1-b',
        description: 'x'.repeat(500),
        default_text_model: 'sandbox/echo',
      },
      ...{
        default_image_model: null,
        default_provider_sort: 'price',
        io_logging_sampling_rate: 1,
      },
      ...{
        is_observability_io_logging_enabled: false,
        is_observability_broadcast_enabled: false,
        is_data_discount_logging_enabled: false,
      },
      ...{
        io_logging_api_key_ids: null,
        disabled_server_tools: ['openrouter:web_search', 'gateway:bash'],
      },
    }
    for (const own of [{ is_default: true }, { id: UNKNOWN }]) {
      const refused = await ask('POST', '/workspaces', { body: { ...given, ...own } })
      expect(refused.status).toBe(400)
    }
    const { status, json } = await ask('POST', '/workspaces', { body: given })
    expect([status, json.data]).toEqual([201, expect.objectContaining(given)])
    const again = await another()
    expect(getWorkspace(again, getOperator(again), 'a-1-b')).toEqual(json)
    expect(json.data.id).not.toBe(UNKNOWN)
  })

  test.each([
    ...(
      [
        ['is_data_discount_logging_enabled', true],
        ['io_logging_api_key_ids', [1]],
      ] as const
    ).map(([name, value]) => [`${name}, which nothing reads`, { [name]: value }, name] as const),
    ['no name', { name: undefined }, 'name'],
    ['an empty name', { name: '' }, 'name'],
    ['a name of 101 characters', { name: 'x'.repeat(101) }, 'name'],
    ['no slug', { slug: undefined }, 'slug'],
    ['a slug with capitals', { slug: 'Team' }, 'slug'],
    ['a slug with two hyphens', { slug: 'a--b' }, 'slug'],
    ['a slug that ends in a hyphen', { slug: 'a-' }, 'slug'],
    ['a slug of 51 characters', { slug: 'x'.repeat(51) }, 'slug'],
    ['a slug that is taken', { slug: 'default' }, 'slug'],
    ['a description of 501 characters', { description: 'x'.repeat(501) }, 'description'],
    ['an unknown model', { default_text_model: 'acme/none' }, 'default_text_model'],
    ['a model without text output', { default_text_model: 'sandbox/embed' }, 'default_text_model'],
    ['a model of images', { default_image_model: 'openai/dall-e-3' }, 'default_image_model'],
    ['an unknown variant', { default_text_model: 'sandbox/echo:nitro' }, 'default_text_model'],
    ['an unknown sort', { default_provider_sort: 'luck' }, 'default_provider_sort'],
    ['a rate of zero', { io_logging_sampling_rate: 0 }, 'io_logging_sampling_rate'],
    ['a rate above the maximum', { io_logging_sampling_rate: 1.1 }, 'io_logging_sampling_rate'],
    ['an id that is no integer', { io_logging_api_key_ids: [1.5] }, 'io_logging_api_key_ids.0'],
    ['an unknown tool', { disabled_server_tools: ['openrouter:magic'] }, 'disabled_server_tools.0'],
    [
      'a switch that is no boolean',
      { is_observability_broadcast_enabled: 'yes' },
      'is_observability_broadcast_enabled',
    ],
  ])('refuses %s with 400 and names the field', async (_, more, field) => {
    const { status, json } = await ask('POST', '/workspaces', {
      body: { name: 'Team', slug: 'team', ...more },
    })
    expect([status, json.error.metadata.field]).toEqual([400, field])
    expect(gateway.memory.workspaces.size).toBe(1)
  })

  test('of two simultaneous requests with one slug one succeeds', async () => {
    const terminal = await another()
    const outcomes = await Promise.all([
      readRefusalStatus(create()),
      readRefusalStatus(create({ name: 'Other' })),
      readRefusalStatus(
        createWorkspace(terminal, getOperator(terminal), { name: 'Team', slug: 'team' }),
      ),
    ])
    expect(outcomes.toSorted()).toEqual([400, 400, undefined])
    await gateway.catchUp()
    expect([...gateway.memory.workspaces.values()].map(one => one.slug)).toEqual([
      'default',
      'team',
    ])
  })
})

describe('one workspace', () => {
  test('is found by its id and by its slug, also in pages', async () => {
    const made = await create()
    clock.pass(1_000)
    await create({ slug: 'later' })
    for (const name of [made.id, 'team'])
      expect((await ask('GET', `/workspaces/${name}`)).json).toEqual({ data: made })
    const listed = async (query: string) => {
      const { data, total_count } = (await ask('GET', `/workspaces${query}`)).json
      return [total_count, ...data.map((one: { slug: string }) => one.slug)]
    }
    expect(await listed('')).toEqual([3, 'default', 'team', 'later'])
    expect(await listed('?offset=1&limit=1')).toEqual([3, 'team'])
    for (const query of ['limit=0', 'limit=101', 'offset=-1', 'offset=x'])
      expect([query, (await ask('GET', `/workspaces?${query}`)).status]).toEqual([query, 400])
  })

  test('is changed field by field, and frees its old slug', async () => {
    const made = await create({
      default_text_model: 'sandbox/echo',
      disabled_server_tools: ['openrouter:bash'],
    })
    clock.pass(1_000)
    const change = {
      slug: 'crew',
      default_text_model: null,
      disabled_server_tools: [],
      is_observability_broadcast_enabled: false,
    }
    for (const own of [{ id: UNKNOWN }, { created_by: 'x' }, { include_byok_in_budgets: true }])
      expect((await ask('PATCH', '/workspaces/team', { body: { ...change, ...own } })).status).toBe(
        400,
      )
    const { status, json } = await ask('PATCH', '/workspaces/team', { body: change })
    expect(status).toBe(200)
    expect(json.data).toEqual({
      ...made,
      ...change,
      disabled_server_tools: null,
      updated_at: '2026-03-04T05:06:08.000Z',
    })
    expect((await ask('GET', '/workspaces/team')).status).toBe(404)
    expect((await create()).slug).toBe('team')
    const again = await another()
    expect(getWorkspace(again, getOperator(again), made.id)).toEqual(json)
  })

  test('cannot be changed to a state in which it could not be created', async () => {
    const made = await create()
    for (const body of [
      { slug: 'default' },
      { slug: 'A' },
      { name: '' },
      { default_text_model: 'acme/none' },
      { default_provider_sort: 'luck' },
    ])
      expect((await ask('PATCH', `/workspaces/${made.id}`, { body })).status).toBe(400)
    expect((await ask('PATCH', `/workspaces/${made.id}`, { body: { slug: 'team' } })).status).toBe(
      200,
    )
  })

  test('keeps both of two simultaneous changes', async () => {
    const { id } = await create()
    await Promise.all([
      updateWorkspace(gateway, actor, id, { name: 'New' }),
      updateWorkspace(gateway, actor, id, { description: 'Told' }),
    ])
    expect(getWorkspace(gateway, actor, id).data).toMatchObject({
      name: 'New',
      description: 'Told',
    })
    const again = await another()
    expect(getWorkspace(again, getOperator(again), id).data).toMatchObject({
      name: 'New',
      description: 'Told',
    })
  })

  test('has a default guardrail id that depends on its own id only', () => {
    expect(getDefaultGuardrailId('00000000-0000-7000-8000-000000000001')).toBe(
      getDefaultGuardrailId('00000000-0000-7000-8000-000000000001'),
    )
    expect(getDefaultGuardrailId('a')).toMatch(
      /^[0-9a-f]{8}-[0-9a-f]{4}-5[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/,
    )
    expect(getDefaultGuardrailId('a')).not.toBe(getDefaultGuardrailId('b'))
  })
})

describe('E13 DELETE /workspaces/{id}', () => {
  test('E13 deletes by id or slug, and answers 404 to a second request', async () => {
    const { id } = await create()
    await create({ slug: 'other' })
    for (const name of [id, 'other']) {
      expect(await ask('DELETE', `/workspaces/${name}`)).toEqual({
        status: 200,
        json: { deleted: true },
      })
      for (const method of ['GET', 'PATCH', 'DELETE'])
        expect(
          (await ask(method, `/workspaces/${name}`, method === 'PATCH' ? { body: {} } : {})).status,
        ).toBe(404)
    }
    expect((await ask('GET', '/workspaces')).json.total_count).toBe(1)
  })

  test('E13 is refused while keys are active in it, except disabled or expired ones', async () => {
    const { id } = await create()
    const made = [await keyIn(id), await keyIn(id), await keyIn(id, 'management')]
    await createKey(gateway, actor, {
      name: 'short',
      workspace_id: id,
      expires_at: '2026-03-04T05:06:07.5Z',
    })
    clock.pass(1_000)
    const said = async () => (await ask('DELETE', '/workspaces/team')).json.error
    expect(await said()).toMatchObject({
      code: 400,
      message: 'This workspace has 3 active API keys: delete or disable them first',
    })
    await deleteKey(gateway, actor, made[0]?.data.hash ?? '')
    await deleteKey(gateway, actor, made[2]?.data.hash ?? '')
    expect(await said()).toMatchObject({
      code: 400,
      message: 'This workspace has 1 active API key: delete or disable them first',
    })
    expect((await ask('GET', '/workspaces/team')).status).toBe(200)
    await updateKey(gateway, actor, made[1]?.data.hash ?? '', { disabled: true })
    expect((await ask('DELETE', '/workspaces/team')).status).toBe(200)
  })

  test('E13 a key disabled with its workspace stays disabled permanently', async () => {
    const { id } = await create()
    const { data: made } = await keyIn(id)
    await updateKey(gateway, actor, made.hash, { disabled: true })
    await remove(id)
    const { status, json } = await ask('PATCH', `/keys/${made.hash}`, { body: { disabled: false } })
    expect([status, json.error.metadata.field]).toEqual([400, 'disabled'])
    expect(gateway.memory.keys.get(made.hash)?.disabled).toBe(true)
  })

  test('E13 deletes everything in it, and nothing of others', async () => {
    const { id } = await create()
    const here = gateway.memory.owner.workspace_id
    for (const workspace_id of [id, here]) {
      await createByokKey(gateway, actor, {
        provider: 'openai',
        key: 'sk-canary-0123456789',
        workspace_id,
      })
      await createPreset(gateway, { ...actor, workspace_id }, 'writer', {
        system_prompt: null,
        config: { model: 'sandbox/echo' },
      })
      await setBudget(gateway, actor, workspace_id, 'monthly', { limit_usd: 5 })
      await setWorkspaceMember(gateway, actor, workspace_id, actor.user_id, 'admin', 'manual')
    }
    await remove('team')
    const again = await another()
    for (const one of [gateway, again]) {
      expect([...one.memory.workspaces.keys()]).toEqual([here])
      expect([...one.memory.budgets.keys()]).toEqual([`${here} monthly`])
      expect([...one.memory.presets.keys()]).toEqual([`${here}/writer`])
      expect([...one.memory.byok.values()].map(({ key }) => key.workspace_id)).toEqual([here])
      expect(await one.store.members.listInWorkspace(id)).toEqual([])
      expect(await one.store.members.listInWorkspace(here)).toHaveLength(1)
    }
  })

  test('E13 keeps its row for references, and frees its slug', async () => {
    const { id } = await create()
    await remove(id)
    const next = await create()
    expect(next.id).not.toBe(id)
    const db = openDatabase(data, { readonly: true })
    expect(db.query('select deleted_at from workspaces where id = ?').get(id)).toEqual({
      deleted_at: '2026-03-04T05:06:07.000Z',
    })
    db.close()
    expect(readTrail(data).slice(-3)).toEqual([
      `workspaces.create ${id}`,
      `workspaces.delete ${id}`,
      `workspaces.create ${next.id}`,
    ])
  })

  test('E13 leaves none of its sealed secrets in any file', async () => {
    const { id } = await create()
    const { data: made } = await createByokKey(gateway, actor, {
      provider: 'openai',
      key: 'sk-canary-0123456789',
      workspace_id: id,
    })
    const { sealed = '' } = gateway.memory.byok.get(made.id)?.key ?? {}
    expect(sealed).not.toBe('')
    await remove(id)
    const db = openDatabase(data, { readonly: true })
    expect(db.query('select sealed from byok').all()).toEqual([{ sealed: null }])
    db.close()
    expect(
      readdirSync(data).some(file =>
        readFileSync(join(data, file)).toString('latin1').includes('sk-canary-0123456789'),
      ),
    ).toBe(false)
  })

  test('E13 the query is validated, but ignored for all but the default workspace', async () => {
    await create()
    expect(
      (await ask('DELETE', '/workspaces/team?confirm_default_workspace_deletion=maybe')).status,
    ).toBe(400)
    expect(
      (await ask('DELETE', '/workspaces/team?confirm_default_workspace_deletion=true')).status,
    ).toBe(200)
  })

  test('E13 a failure of the store leaves it unchanged', async () => {
    const { id } = await create()
    gateway.store.workspaces.remove = () => Promise.reject(new Error('disk full'))
    expect((await ask('DELETE', `/workspaces/${id}`)).status).toBe(500)
    expect(gateway.memory.workspaces.has(id)).toBe(true)
  })
})

describe('E13 the default workspace', () => {
  test('E13 is deleted only with confirmation', async () => {
    for (const query of ['', '?confirm_default_workspace_deletion=false']) {
      const { status, json } = await ask('DELETE', `/workspaces/default${query}`)
      expect([status, json.error.metadata.field]).toEqual([
        400,
        'confirm_default_workspace_deletion',
      ])
    }
    expect((await ask('GET', '/workspaces/default')).status).toBe(200)
    expect(
      (await ask('DELETE', '/workspaces/default?confirm_default_workspace_deletion=true')).json,
    ).toEqual({ deleted: true })
  })

  test('E13 disables its unscoped inference keys; management keys keep managing all', async () => {
    const team = await create()
    const there = await keyIn(team.id)
    await removeDefault()
    expect((await ask('GET', '/key', { key: keys.inference })).status).toBe(401)
    expect((await ask('GET', '/key', { key: there.key })).status).toBe(200)
    expect((await ask('GET', '/workspaces')).json.data).toEqual([team])
    expect((await ask('GET', `/keys/${keys.hash}`)).json.data.disabled).toBe(true)
    expect((await ask('PATCH', `/keys/${keys.hash}`, { body: { disabled: false } })).status).toBe(
      400,
    )
    expect(
      (await ask('POST', '/workspaces', { body: { name: 'Default', slug: 'default' } })).status,
    ).toBe(201)
    expect(readTrail(data)).toContain(`keys.update ${keys.hash}`)
    const again = await another()
    expect([
      again.memory.keys.get(keys.hash)?.disabled,
      again.memory.workspaces.has(gateway.memory.owner.workspace_id),
    ]).toEqual([true, false])
    expect(again.memory.workspaces.size).toBe(2)
  })

  test('E13 is refused while a key is active that named it at creation', async () => {
    const named = await keyIn(gateway.memory.owner.workspace_id)
    expect(await readRefusalStatus(removeDefault())).toBe(400)
    expect(gateway.memory.keys.get(keys.hash)?.disabled).toBe(false)
    expect((await identify(gateway, `Bearer ${keys.inference}`)).kind).toBe('inference')
    await deleteKey(gateway, actor, named.data.hash)
    await removeDefault()
    expect(gateway.memory.keys.get(keys.hash)?.disabled).toBe(true)
  })

  test('E13 after its deletion, requests that need a workspace and name none are 400', async () => {
    await removeDefault()
    const default_id = gateway.memory.owner.workspace_id
    for (const [method, path, body] of [
      ['GET', '/keys'],
      ['POST', '/keys', { name: 'x' }],
      ['POST', '/keys', { name: 'x', workspace_id: default_id }],
      ['GET', '/byok'],
      ['POST', '/byok', { provider: 'openai', key: 'sk-canary-0123456789' }],
    ] as [string, string, object?][]) {
      const { status, json } = await ask(method, path, body ? { body } : {})
      expect([method, path, status, json.error?.metadata.field]).toEqual([
        method,
        path,
        400,
        'workspace_id',
      ])
    }
    const { id } = await create()
    expect((await ask('POST', '/keys', { body: { name: 'x', workspace_id: id } })).status).toBe(201)
    expect(
      await readRefusalStatus(
        createPreset(gateway, { ...actor, workspace_id: default_id }, 'x', {
          system_prompt: null,
          config: {},
        }),
      ),
    ).toBe(400)
  })

  test('E13 after its deletion, the terminal can still create a key that manages all', async () => {
    await removeDefault()
    const { key } = await keyIn(undefined, 'management')
    expect((await ask('GET', '/workspaces', { key })).status).toBe(200)
    const again = await another()
    expect((await identify(again, `Bearer ${key}`)).kind).toBe('management')
  })
})

describe('permissions', () => {
  const OPERATIONS: [method: string, path: string, body?: object][] = [
    ['GET', '/workspaces'],
    ['POST', '/workspaces', { name: 'x', slug: 'x' }],
    ['GET', '/workspaces/default'],
    ['PATCH', '/workspaces/default', { name: 'x' }],
    ['DELETE', '/workspaces/default?confirm_default_workspace_deletion=true'],
  ]

  test.each(OPERATIONS)(
    '%s %s is 401 without a key, 403 with an inference key, and 500 when the store fails',
    async (method, path, body) => {
      const more = body ? { body } : {}
      expect((await ask(method, path, { ...more, key: null })).status).toBe(401)
      expect((await ask(method, path, { ...more, key: 'gw-v1-nobody' })).status).toBe(401)
      expect((await ask(method, path, { ...more, key: keys.inference })).status).toBe(403)
      gateway.memory.workspaces = undefined as never
      gateway.store.workspaces.insert = () => Promise.reject(new Error('disk full'))
      const broken = await ask(method, path, more)
      expect([broken.status, broken.json.error.message]).toEqual([500, 'Internal Server Error'])
    },
  )

  test('a management key of another workspace does not shake off what the config forbids it', async () => {
    const config = { server_tools: { disabled_tools: { team: ['bash'] } } }
    await reconfigure(gateway, parseConfig(JSON.stringify(config), {}))
    const team = await create()
    const { key } = await keyIn(team.id, 'management')
    const rename = (slug: string, more: object = { key }) =>
      ask('PATCH', '/workspaces/team', { ...more, body: { slug } })
    expect((await rename('crew')).status).toBe(403)
    expect(isDisabledTool(gateway, team.id, ['bash'])).toBe(true)
    expect((await rename('team')).status).toBe(200)
    expect((await rename('crew', {})).status).toBe(200)
  })

  test('a management key of another workspace reads and changes only its own', async () => {
    const team = await create()
    const { key } = await keyIn(team.id, 'management')
    expect((await ask('GET', '/workspaces', { key })).json).toEqual({
      data: [team],
      total_count: 1,
    })
    expect((await ask('POST', '/workspaces', { key, body: { name: 'x', slug: 'x' } })).status).toBe(
      403,
    )
    expect(
      (await ask('PATCH', '/workspaces/team', { key, body: { name: 'Mine' } })).json.data.name,
    ).toBe('Mine')
    const unknown = await ask('GET', `/workspaces/${UNKNOWN}`, { key })
    for (const method of ['GET', 'PATCH', 'DELETE']) {
      const foreign = await ask(method, '/workspaces/default', {
        key,
        ...(method === 'PATCH' ? { body: { name: 'x' } } : {}),
      })
      expect([foreign.status, foreign.json.error.message]).toEqual([
        404,
        unknown.json.error.message,
      ])
    }
    expect((await ask('DELETE', '/workspaces/team', { key })).status).toBe(400)
  })

  test('a failed change leaves no trace', async () => {
    await create()
    const before = readTrail(data)
    await ask('POST', '/workspaces', { body: { name: 'x', slug: 'team' } })
    await ask('PATCH', '/workspaces/team', { body: { slug: 'default' } })
    await ask('DELETE', '/workspaces/default')
    await keyIn(gateway.memory.workspaces.keys().toArray()[1])
    await ask('DELETE', '/workspaces/team')
    expect(
      readTrail(data)
        .slice(before.length)
        .map(line => line.split(' ')[0]),
    ).toEqual(['keys.create'])
  })
})

describe('next to another process', () => {
  test('changes of the other process are picked up', async () => {
    const terminal = await another()
    const { data: made } = await createWorkspace(terminal, getOperator(terminal), {
      name: 'Team',
      slug: 'team',
    })
    await gateway.catchUp()
    expect(getWorkspace(gateway, actor, 'team').data).toEqual(made)
    await updateWorkspace(terminal, getOperator(terminal), made.id, { slug: 'crew' })
    await gateway.catchUp()
    expect(getWorkspace(gateway, actor, 'crew').data.id).toBe(made.id)
    await deleteWorkspace(terminal, getOperator(terminal), 'crew', {})
    await gateway.catchUp()
    expect(await readRefusalStatus(Promise.try(() => getWorkspace(gateway, actor, made.id)))).toBe(
      404,
    )
  })

  test('changes of this process during a reload are kept', async () => {
    const [kept, gone] = [await create(), await create({ slug: 'gone' })]
    const terminal = await another()
    const { all, remove: removeStored } = gateway.store.workspaces
    const hasRead = Promise.withResolvers<void>()
    gateway.store.workspaces.remove = (...change) =>
      hasRead.promise.then(() => removeStored(...change))
    // Finds no change, and then waits for the store.
    const removing = remove(gone.id)
    await Bun.sleep(5)
    await updateWorkspace(terminal, getOperator(terminal), kept.id, { description: 'Told' })
    gateway.store.workspaces.all = async () => {
      gateway.store.workspaces.all = all
      const read = await all()
      hasRead.resolve()
      await Promise.all([removing, create({ slug: 'new' })])
      return read
    }
    await gateway.catchUp()
    expect([...gateway.memory.workspaces.values()].map(one => one.slug).toSorted()).toEqual([
      'default',
      'new',
      'team',
    ])
    expect(gateway.memory.workspaces.get(kept.id)?.description).toBe('Told')
  })

  test('a workspace that it has just deleted accepts no keys, presets or budgets', async () => {
    const { id } = await create()
    const terminal = await another()
    await deleteWorkspace(terminal, getOperator(terminal), id, {})
    const there = { ...actor, workspace_id: id }
    expect(await readRefusalStatus(keyIn(id))).toBe(400)
    expect(await readRefusalStatus(keyIn(id, 'management'))).toBe(400)
    expect(
      await readRefusalStatus(
        createByokKey(gateway, actor, {
          provider: 'openai',
          key: 'sk-canary-0123456789',
          workspace_id: id,
        }),
      ),
    ).toBe(400)
    expect(
      await readRefusalStatus(
        createPreset(gateway, there, 'x', { system_prompt: null, config: {} }),
      ),
    ).toBe(400)
    expect(await readRefusalStatus(setBudget(gateway, actor, id, 'daily', { limit_usd: 1 }))).toBe(
      404,
    )
    expect(await readRefusalStatus(updateWorkspace(gateway, actor, id, { name: 'x' }))).toBe(404)
    expect(await readRefusalStatus(remove(id))).toBe(404)
  })

  test('deleting the default workspace there disables a key created here before', async () => {
    const terminal = await another()
    const { data: late } = await keyIn(undefined)
    await deleteWorkspace(terminal, getOperator(terminal), 'default', {
      confirm_default_workspace_deletion: 'true',
    })
    await gateway.catchUp()
    expect(gateway.memory.keys.get(late.hash)?.disabled).toBe(true)
  })
})

describe('a key never stays active in a deleted workspace', () => {
  test('whichever comes first, creating the key or deleting the workspace', async () => {
    const terminal = await another()
    for (let round = 0; round < 40; round++) {
      const { id } = await create({ slug: `team-${round}` })
      await terminal.catchUp()
      const where = round % 2 ? terminal : gateway
      const making = () => createKey(where, getOperator(where), { name: 'ci', workspace_id: id })
      const deleting = () => remove(id)
      const first = round % 4 < 2 ? [making(), deleting()] : [deleting(), making()]
      const settled = await Promise.allSettled(first)
      expect(
        settled.flatMap(one =>
          one.status === 'rejected' ? GatewayError.from(one.reason).status : [],
        ),
      ).toEqual([400])
      await gateway.catchUp()
      const isThere = gateway.memory.workspaces.has(id)
      expect([
        isThere,
        [...gateway.memory.keys.values()].some(key => key.workspace_id === id),
      ]).toEqual([isThere, isThere])
    }
  })

  test('unscoped keys created during the deletion are disabled or refused', async () => {
    const making = Promise.allSettled([keyIn(undefined), keyIn(undefined)])
    const deleting = Promise.allSettled([removeDefault()])
    const late = Promise.allSettled([keyIn(undefined)])
    const [made, [deleted], lately] = await Promise.all([making, deleting, late])
    if (deleted?.status === 'rejected') expect(GatewayError.from(deleted.reason).status).toBe(409)
    const hashes = [...made, ...lately].flatMap(one =>
      one.status === 'fulfilled' ? one.value.data.hash : [],
    )
    const again = await another()
    for (const one of [gateway, again])
      for (const hash of hashes)
        expect(one.memory.keys.get(hash)?.disabled).toBe(
          !one.memory.workspaces.has(gateway.memory.owner.workspace_id),
        )
  })

  test('nor can one be enabled again in it', async () => {
    const { id } = await create()
    const { data: made } = await keyIn(id)
    await updateKey(gateway, actor, made.hash, { disabled: true })
    const settled = await Promise.allSettled([
      updateKey(gateway, actor, made.hash, { disabled: false }),
      remove(id),
    ])
    expect(settled.map(one => one.status)).toEqual(['fulfilled', 'rejected'])
    expect((await listKeys(gateway, actor, { workspace_id: id })).data).toHaveLength(1)
  })
})

describe('a call that names no model', () => {
  test('uses the default of its workspace, or that of the gateway', async () => {
    const model = { id: 'acme/second', endpoints: [{ provider: 'sandbox', model: 'echo' }] }
    const own = await testGateway({ config: { models: [model] } })
    const { management, inference } = await createTestKeys(own)
    const { data: team } = await createWorkspace(own, getOperator(own), {
      name: 'Team',
      slug: 'team',
      default_text_model: 'acme/second',
    })
    const { key } = await createKey(own, getOperator(own), { name: 'x', workspace_id: team.id })
    const call = createApi(own, management)
    const answered = async (as: string, more: object = {}) =>
      (
        await call('POST', '/chat/completions', {
          key: as,
          body: { messages: [{ role: 'user', content: 'Hi' }], ...more },
        })
      ).json.model
    expect([
      await answered(inference),
      await answered(key),
      await answered(key, { model: 'sandbox/echo' }),
    ]).toEqual(['sandbox/echo', 'acme/second', 'sandbox/echo'])
    await updateWorkspace(own, getOperator(own), 'team', { default_text_model: null })
    expect(await answered(key)).toBe('sandbox/echo')
    await own.close()
  })
})
