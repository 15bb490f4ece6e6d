import { afterEach, beforeEach, describe, expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Gateway, openGateway } from '../../src/app/gateway.ts'
import { GatewayError } from '../../src/base/errors.ts'
import { assignKeys, assignMembers, unassignKeys } from '../../src/limits/assignments.ts'
import type { NewGuardrail } from '../../src/limits/guardrails/schema.ts'
import type { Guardrail } from '../../src/limits/guardrails/store.ts'
import { createGuardrail, deleteGuardrail, updateGuardrail } from '../../src/limits/guardrails.ts'
import { getRules } from '../../src/limits/rules.ts'
import { getOperator } from '../../src/resources/actor.ts'
import { getDefaultGuardrailId } from '../../src/resources/default-guardrail.ts'
import { createKey, updateKey } from '../../src/resources/keys.ts'
import type { Endpoint } from '../../src/resources/models/catalog.ts'
import { createWorkspace, deleteWorkspace } from '../../src/resources/workspaces.ts'
import { createApi } from '../support/api.ts'
import { openDatabase } from '../support/database.ts'
import {
  createOtherWorkspace,
  createTestKeys,
  type TestClock,
  testGateway,
} from '../support/gateway.ts'

const OTHER = '019aa000-0000-7000-8000-0000000000aa'
const UNKNOWN = '019aa000-0000-7000-8000-0000000000ff'

let gateway: Gateway
let keys: Awaited<ReturnType<typeof createTestKeys>>
let ask: ReturnType<typeof createApi>

beforeEach(async () => {
  gateway = await testGateway()
  keys = await createTestKeys(gateway)
  ask = createApi(gateway, keys.management)
})

const create = async (input: Partial<NewGuardrail> = {}) =>
  (await createGuardrail(gateway, getOperator(gateway), { name: 'rules', ...input })).data

const NOTHING = {
  description: null,
  allowed_data_regions: null,
  allowed_models: null,
  allowed_providers: null,
  ignored_models: null,
  ignored_providers: null,
  content_filter_builtins: null,
  content_filters: null,
  enable_free_model_publication: null,
  enable_free_model_training: null,
  enable_paid_model_training: null,
  enforce_zdr: null,
  enforce_zdr_anthropic: null,
  enforce_zdr_google: null,
  enforce_zdr_openai: null,
  enforce_zdr_other: null,
  enforce_zdr_xai: null,
  limit_usd: null,
  reset_interval: null,
  include_byok_in_budgets: false,
}

const EVERYTHING = {
  description: 'For tests',
  allowed_data_regions: ['europe', 'global'],
  allowed_models: ['sandbox/echo', 'anthropic/claude-opus-4.5'],
  allowed_providers: ['sandbox', 'google-vertex', 'Anthropic', 'ai21'],
  ignored_models: ['openai/gpt-4o'],
  ignored_providers: ['azure'],
  content_filters: [{ pattern: 'SECRET-\\d+', action: 'redact', label: '[S]' }],
  enable_free_model_publication: false,
  enable_free_model_training: false,
  enable_paid_model_training: true,
  enforce_zdr: null,
  enforce_zdr_anthropic: true,
  enforce_zdr_google: false,
  enforce_zdr_openai: true,
  enforce_zdr_other: null,
  enforce_zdr_xai: true,
  limit_usd: 12.5,
  reset_interval: 'weekly',
  include_byok_in_budgets: true,
}

describe('E5 POST /guardrails', () => {
  test('answers 201 with every field, null where unset', async () => {
    const { status, json } = await ask('POST', '/guardrails', { body: { name: 'rules' } })
    expect(status).toBe(201)
    expect(json).toEqual({
      data: {
        ...NOTHING,
        id: expect.stringMatching(/^[0-9a-f-]{36}$/),
        name: 'rules',
        workspace_id: gateway.memory.owner.workspace_id,
        created_at: '2026-03-04T05:06:07.000Z',
        updated_at: null,
      },
    })
  })

  test('stores every known field, and refuses unknown ones', async () => {
    for (const extra of [{ id: UNKNOWN }, { revision: 9 }, { allowed_model: ['x'] }]) {
      const refused = await ask('POST', '/guardrails', {
        body: { name: 'all', ...EVERYTHING, ...extra },
      })
      expect([refused.status, refused.json.error.metadata.field]).toEqual([
        400,
        Object.keys(extra)[0],
      ])
    }
    const { status, json } = await ask('POST', '/guardrails', {
      body: { name: 'all', ...EVERYTHING },
    })
    expect([status, json.data]).toEqual([
      201,
      expect.objectContaining({ name: 'all', ...EVERYTHING }),
    ])
    expect((await ask('GET', `/guardrails/${json.data.id}`)).json).toEqual(json)
  })

  test('builtin filters keep their own labels', async () => {
    const content_filter_builtins = [
      { slug: 'email', action: 'redact', label: 'mine' },
      { slug: 'regex-prompt-injection', action: 'block', scan_scope: 'user_only' },
    ]
    const { json } = await ask('POST', '/guardrails', {
      body: { name: 'f', content_filter_builtins },
    })
    expect(json.data.content_filter_builtins).toEqual([
      { slug: 'email', action: 'redact', label: '[EMAIL]' },
      {
        slug: 'regex-prompt-injection',
        action: 'block',
        scan_scope: 'user_only',
        label: '[PROMPT_INJECTION]',
      },
    ])
  })

  test('shows our own filter_output only where it is true, and reads its old spelling', async () => {
    const shown = async (set: object) =>
      (await ask('POST', '/guardrails', { body: { name: 'f', ...set } })).json.data.filter_output
    expect([await shown({ filter_output: true }), await shown({ filter_output: false })]).toEqual([
      ...[true, undefined],
    ])
    expect(await shown({ filterOutput: true })).toBe(true)
    const both = { name: 'f', filter_output: false, filterOutput: true }
    expect((await ask('POST', '/guardrails', { body: both })).json.error).toMatchObject({
      code: 400,
      metadata: { field: 'filterOutput' },
    })
  })

  test('shows our own mcp only where it is set, and refuses what it has no word for', async () => {
    gateway = await testGateway({ config: { mcp_servers: { files: { url: 'http://files/mcp' } } } })
    keys = await createTestKeys(gateway)
    ask = createApi(gateway, keys.management)
    const schema = {
      properties: {
        path: { type: 'string', pattern: '^/public/' },
        kind: { enum: ['a', 1, true] },
      },
      required: ['path'],
      additionalProperties: false,
    }
    const mcp = { servers: ['files'], tools: [], arguments: { 'files:read': schema } }
    const { status, json } = await ask('POST', '/guardrails', { body: { name: 'm', mcp } })
    expect([status, json.data.mcp]).toEqual([201, mcp])
    const path = `/guardrails/${json.data.id}`
    expect((await ask('GET', path)).json).toEqual(json)
    const [entry] = (await ask('GET', '/audit?limit=1')).json.data
    expect([entry.before, entry.after.mcp]).toEqual([null, mcp])
    const cleared = await ask('PATCH', path, { body: { mcp: null } })
    expect(Object.hasOwn(cleared.json.data, 'mcp')).toBe(false)
    const of = (properties: object) => ({ arguments: { 'files:read': { properties } } })
    for (const [wrong, field] of [
      [{ server: ['files'] }, 'mcp.server'],
      [{ tools: ['read'] }, 'mcp.tools.0'],
      [{ arguments: { read: {} } }, 'mcp.arguments.read'],
      [{ arguments: { 'misspelt:read': {} } }, 'mcp.arguments.misspelt:read'],
      [of({ a: { patern: 'x' } }), 'mcp.arguments.files:read.properties.a.patern'],
      // It would say nothing of a list, which then were allowed.
      [of({ a: { pattern: '^x' } }), 'mcp.arguments.files:read.properties.a.pattern'],
      [
        of({ a: { type: 'array', minLength: 1 } }),
        'mcp.arguments.files:read.properties.a.minLength',
      ],
      [
        of({ a: { type: 'string', pattern: '(?=x)' } }),
        'mcp.arguments.files:read.properties.a.pattern',
      ],
    ] as const) {
      const refused = await ask('PATCH', path, { body: { mcp: wrong } })
      expect([refused.status, refused.json.error.metadata?.field]).toEqual([400, field])
    }
  })

  test('accepts every name of a model, and shows its slug', async () => {
    const { json } = await ask('POST', '/guardrails', {
      body: {
        name: 'm',
        allowed_models: [
          'anthropic/claude-opus-4-5-20251101',
          '~anthropic/claude-opus-latest',
          'anthropic/claude-opus-4.5',
          'anthropic/claude-opus-4.5:nitro',
        ],
      },
    })
    expect(json.data.allowed_models).toEqual([
      'anthropic/claude-opus-4.5',
      gateway.catalog.models.get('~anthropic/claude-opus-latest')?.id,
    ])
  })

  test('keeps a model that is not there yet in an allowlist: nothing else is allowed', async () => {
    const allowed_models = ['acme/tomorrow']
    const { status, json } = await ask('POST', '/guardrails', {
      body: { name: 'm', allowed_models },
    })
    expect([status, json.data.allowed_models]).toEqual([201, allowed_models])
    const guardrail = gateway.memory.guardrails.get(json.data.id) as Guardrail
    const [rule] = getRules(gateway, guardrail)
    const endpoints = [...gateway.catalog.models.values()].flatMap(model => model.endpoints)
    expect(endpoints.filter(endpoint => !rule?.excludes(endpoint))).toEqual([])
    expect(rule?.excludes({ ...endpoints[0], model: 'acme/tomorrow' } as Endpoint)).toBe(false)
  })

  test('copies enforce_zdr into every group that is not set', async () => {
    const { json } = await ask('POST', '/guardrails', {
      body: { name: 'z', enforce_zdr: true, enforce_zdr_google: false, enforce_zdr_xai: null },
    })
    expect(json.data).toMatchObject({
      enforce_zdr: true,
      enforce_zdr_anthropic: true,
      enforce_zdr_openai: true,
      enforce_zdr_other: true,
      enforce_zdr_google: false,
      enforce_zdr_xai: null,
    })
  })

  test('accepts a name of 200 characters and a description of 1000', async () => {
    const body = { name: 'x'.repeat(200), description: 'y'.repeat(1000) }
    expect((await ask('POST', '/guardrails', { body })).status).toBe(201)
  })

  test.each([
    ['no name', { name: undefined }, 'name'],
    ['an empty name', { name: '' }, 'name'],
    ['a name of 201 characters', { name: 'x'.repeat(201) }, 'name'],
    ['a description of 1001', { description: 'x'.repeat(1001) }, 'description'],
    ['an empty list of regions', { allowed_data_regions: [] }, 'allowed_data_regions'],
    ['an unknown region', { allowed_data_regions: ['mars'] }, 'allowed_data_regions.0'],
    ['an empty list of allowed models', { allowed_models: [] }, 'allowed_models'],
    ['an empty list of ignored models', { ignored_models: [] }, 'ignored_models'],
    ['an empty list of allowed providers', { allowed_providers: [] }, 'allowed_providers'],
    ['an empty list of ignored providers', { ignored_providers: [] }, 'ignored_providers'],
    ['a list given as text', { allowed_models: 'openai/gpt-4o' }, 'allowed_models'],
    [
      'what can be no model in an allowlist',
      { allowed_models: ['sandbox/echo', 'openai/*'] },
      'allowed_models.1',
    ],
    [
      'a misspelt model in an ignore list',
      { ignored_models: ['openai/gpt-4oh'] },
      'ignored_models.0',
    ],
    [
      'a misspelt provider in an allowlist',
      { allowed_providers: ['opneai'] },
      'allowed_providers.0',
    ],
    [
      'a misspelt provider in an ignore list',
      { ignored_providers: ['opneai'] },
      'ignored_providers.0',
    ],
    [
      'a provider named like an object’s property',
      { ignored_providers: ['constructor'] },
      'ignored_providers.0',
    ],
    ['a limit without an interval', { limit_usd: 5 }, 'reset_interval'],
    ['an interval without a limit', { reset_interval: 'daily' }, 'limit_usd'],
    ['a limit with an interval of null', { limit_usd: 5, reset_interval: null }, 'reset_interval'],
    ['a limit below zero', { limit_usd: -1, reset_interval: 'daily' }, 'limit_usd'],
    ['a limit given as text', { limit_usd: '5', reset_interval: 'daily' }, 'limit_usd'],
    ['an unknown interval', { limit_usd: 5, reset_interval: 'yearly' }, 'reset_interval'],
    ['a flag given as text', { enforce_zdr: 'yes' }, 'enforce_zdr'],
    [
      'include_byok_in_budgets of null',
      { include_byok_in_budgets: null },
      'include_byok_in_budgets',
    ],
    [
      'an unknown builtin filter',
      { content_filter_builtins: [{ slug: 'shoe-size', action: 'block' }] },
      'content_filter_builtins.0.slug',
    ],
    [
      'an unknown action',
      { content_filter_builtins: [{ slug: 'email', action: 'eat' }] },
      'content_filter_builtins.0.action',
    ],
    [
      'a filter without a pattern',
      { content_filters: [{ action: 'block' }] },
      'content_filters.0.pattern',
    ],
    [
      'an empty pattern',
      { content_filters: [{ action: 'block', pattern: '' }] },
      'content_filters.0.pattern',
    ],
    [
      'a label of 101 characters',
      { content_filters: [{ action: 'block', pattern: 'a', label: 'x'.repeat(101) }] },
      'content_filters.0.label',
    ],
    [
      '101 patterns',
      { content_filters: Array.from({ length: 101 }, () => ({ action: 'block', pattern: 'a' })) },
      'content_filters',
    ],
    ['a workspace that does not exist', { workspace_id: UNKNOWN }, 'workspace_id'],
    ['a workspace given by its slug', { workspace_id: 'default' }, 'workspace_id'],
  ])('refuses %s with 400 and names the field', async (_, more, field) => {
    const { status, json } = await ask('POST', '/guardrails', { body: { name: 'rules', ...more } })
    expect([status, json.error.metadata.field]).toEqual([400, field])
    expect(gateway.memory.guardrails.size).toBe(0)
  })

  test.each(['(?=a)', '(?<!a)b', '(a)\\1', '(', 'a{2,1}'])(
    'refuses the pattern %p with 400 invalid_regex_pattern',
    async pattern => {
      const body = {
        name: 'p',
        content_filters: [
          { pattern: 'fine', action: 'flag' },
          { pattern, action: 'block' },
        ],
      }
      const { status, json } = await ask('POST', '/guardrails', { body })
      expect([status, json.error.metadata]).toEqual([
        400,
        expect.objectContaining({
          code: 'invalid_regex_pattern',
          field: 'content_filters.1.pattern',
        }),
      ])
    },
  )

  test('names an unknown model or provider', async () => {
    const { json } = await ask('POST', '/guardrails', {
      body: { name: 'm', ignored_models: ['openai/gpt-4oh'] },
    })
    expect(json.error.message).toBe(
      'ignored_models.0: expected a model of this gateway, found "openai/gpt-4oh"',
    )
  })
})

describe('GET /guardrails', () => {
  test('pages through those of a workspace, oldest first', async () => {
    await createOtherWorkspace(gateway, OTHER)
    const made: string[] = []
    for (const name of ['a', 'b', 'c']) {
      made.push((await create({ name })).id)
      ;(gateway.clock as TestClock).pass(1000)
    }
    const theirs = await create({ workspace_id: OTHER })
    const idsOf = async (query: string) => {
      const { json } = await ask('GET', `/guardrails${query}`)
      return [json.total_count, ...json.data.map((one: { id: string }) => one.id)]
    }
    expect(await idsOf('')).toEqual([3, ...made])
    expect(await idsOf('?offset=1&limit=1')).toEqual([3, made[1]])
    expect(await idsOf('?offset=9')).toEqual([3])
    expect(await idsOf(`?workspace_id=${OTHER}`)).toEqual([1, theirs.id])
  })

  test.each([
    'limit=0',
    'limit=101',
    'limit=x',
    'offset=-1',
    'workspace_id=default',
    `workspace_id=${UNKNOWN}`,
  ])('?%s is a 400', async query => {
    expect((await ask('GET', `/guardrails?${query}`)).status).toBe(400)
  })
})

describe('PATCH /guardrails/{id}', () => {
  test('changes only the given fields; null clears, lists are replaced', async () => {
    const made = await create({ name: 'all', ...(EVERYTHING as object) })
    ;(gateway.clock as TestClock).pass(1000)
    const body = {
      allowed_models: ['sandbox/echo'],
      ignored_models: null,
      description: null,
      name: 'new',
      content_filters: null,
    }
    const { status, json } = await ask('PATCH', `/guardrails/${made.id}`, { body })
    expect([status, json.data]).toEqual([
      200,
      { ...made, ...body, updated_at: '2026-03-04T05:06:08.000Z' },
    ])
    expect((await ask('GET', `/guardrails/${made.id}`)).json).toEqual(json)
  })

  test('copies enforce_zdr as on creation, over existing values', async () => {
    const { id } = await create({ enforce_zdr_openai: true, enforce_zdr_xai: true })
    const { json } = await ask('PATCH', `/guardrails/${id}`, {
      body: { enforce_zdr: false, enforce_zdr_xai: true },
    })
    expect(json.data).toMatchObject({
      enforce_zdr: false,
      enforce_zdr_openai: false,
      enforce_zdr_xai: true,
      enforce_zdr_other: false,
    })
  })

  test('requires a limit and its interval together', async () => {
    const { id } = await create({ limit_usd: 5, reset_interval: 'daily' })
    const changed = async (body: object) =>
      (await ask('PATCH', `/guardrails/${id}`, { body })).status
    expect(await changed({ limit_usd: 7 })).toBe(200)
    expect(await changed({ reset_interval: 'monthly' })).toBe(200)
    expect(await changed({ limit_usd: null })).toBe(400)
    expect(await changed({ reset_interval: null })).toBe(400)
    expect(await changed({ limit_usd: null, reset_interval: null })).toBe(200)
    expect(await changed({ limit_usd: 1 })).toBe(400)
  })

  test('refuses what POST refuses', async () => {
    const { id } = await create()
    for (const body of [
      { ignored_models: ['nobody/none'] },
      { allowed_data_regions: [] },
      { content_filters: [{ pattern: '(', action: 'flag' }] },
      { name: '' },
    ])
      expect((await ask('PATCH', `/guardrails/${id}`, { body })).status).toBe(400)
    expect(gateway.memory.guardrails.get(id)?.revision).toBe(1)
  })

  test('of two concurrent changes one is a 409 and changes nothing', async () => {
    const { id } = await create()
    const change = (name: string) =>
      updateGuardrail(gateway, getOperator(gateway), id, { name, allowed_models: ['sandbox/echo'] })
    const settled = await Promise.allSettled([change('a'), change('b'), change('c')])
    const statuses = settled.map(one =>
      one.status === 'fulfilled' ? 200 : GatewayError.from(one.reason).status,
    )
    expect(statuses.toSorted()).toEqual([200, 409, 409])
    const winner = ['a', 'b', 'c'][statuses.indexOf(200)]
    expect((await gateway.store.guardrails.all()).map(one => [one.name, one.revision])).toEqual([
      [winner ?? '', 2],
    ])
  })

  test('of one that was changed elsewhere meanwhile is a 409 over HTTP', async () => {
    const { id } = await create()
    const stored = gateway.store.guardrails
    const [before] = await stored.all()
    if (!before) throw new Error('It is there')
    gateway.store.guardrails = {
      ...stored,
      async replace(guardrail, entry) {
        await stored.replace(
          { ...before, name: 'theirs', revision: 2 },
          { ...entry, id: 'another' },
        )
        await stored.replace(guardrail, entry)
      },
    }
    expect((await ask('PATCH', `/guardrails/${id}`, { body: { name: 'ours' } })).status).toBe(409)
    expect((await stored.all()).map(one => one.name)).toEqual(['theirs'])
  })
})

describe('the default guardrail of a workspace', () => {
  const id = () => getDefaultGuardrailId(gateway.memory.owner.workspace_id)

  test('is a 404 before its first change, which creates it under a fixed name', async () => {
    expect((await ask('GET', `/guardrails/${id()}`)).status).toBe(404)
    expect((await ask('DELETE', `/guardrails/${id()}`)).status).toBe(404)
    const { status, json } = await ask('PATCH', `/guardrails/${id()}`, {
      body: { ignored_providers: ['azure'] },
    })
    expect([status, json.data]).toEqual([
      200,
      {
        ...NOTHING,
        id: id(),
        name: `Workspace ${gateway.memory.owner.workspace_id} Default`,
        workspace_id: gateway.memory.owner.workspace_id,
        ignored_providers: ['azure'],
        created_at: '2026-03-04T05:06:07.000Z',
        updated_at: null,
      },
    ])
    expect((await ask('GET', `/guardrails/${id()}`)).json).toEqual(json)
    expect((await ask('GET', '/guardrails')).json).toEqual({ data: [json.data], total_count: 1 })
  })

  test('cannot be renamed, on creation or later', async () => {
    const rename = async (name: string) =>
      (await ask('PATCH', `/guardrails/${id()}`, { body: { name } })).status
    expect(await rename('mine')).toBe(400)
    expect(gateway.memory.guardrails.size).toBe(0)
    expect(await rename(`Workspace ${gateway.memory.owner.workspace_id} Default`)).toBe(200)
    expect(await rename('mine')).toBe(400)
  })

  test('has a UUID that is fixed for a workspace and differs between workspaces', () => {
    expect(id()).toBe(getDefaultGuardrailId(gateway.memory.owner.workspace_id))
    expect(id()).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-5[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/)
    expect(getDefaultGuardrailId(OTHER)).not.toBe(id())
  })

  test('created twice concurrently is created once', async () => {
    const make = () => updateGuardrail(gateway, getOperator(gateway), id(), { description: 'x' })
    const settled = await Promise.allSettled([make(), make()])
    expect(
      settled
        .map(one => (one.status === 'fulfilled' ? 200 : GatewayError.from(one.reason).status))
        .toSorted(),
    ).toEqual([200, 409])
  })

  test('of another workspace is created only by a key of that workspace', async () => {
    const { key } = await createOtherWorkspace(gateway, OTHER)
    const theirs = getDefaultGuardrailId(OTHER)
    expect((await ask('PATCH', `/guardrails/${id()}`, { body: {}, key })).status).toBe(404)
    expect(
      (await ask('PATCH', `/guardrails/${theirs}`, { body: {}, key })).json.data.workspace_id,
    ).toBe(OTHER)
    expect((await ask('PATCH', `/guardrails/${theirs}`, { body: {} })).status).toBe(200)
  })

  test('can be deleted and created again', async () => {
    await ask('PATCH', `/guardrails/${id()}`, { body: { description: 'first' } })
    expect((await ask('DELETE', `/guardrails/${id()}`)).json).toEqual({ deleted: true })
    expect((await ask('GET', `/guardrails/${id()}`)).status).toBe(404)
    expect(
      (await ask('PATCH', `/guardrails/${id()}`, { body: {} })).json.data.description,
    ).toBeNull()
  })
})

describe('DELETE /guardrails/{id}', () => {
  test('removes it from its assignees', async () => {
    const { id } = await create()
    await assignKeys(gateway, getOperator(gateway), id, { key_hashes: [keys.hash] })
    expect((await ask('DELETE', `/guardrails/${id}`)).json).toEqual({ deleted: true })
    expect([[...(await gateway.store.assignments.all())], gateway.memory.assignments.size]).toEqual(
      [[], 0],
    )
    expect((await ask('DELETE', `/guardrails/${id}`)).status).toBe(404)
  })

  test('E13 goes with the workspace, also for keys that had one of their own', async () => {
    const { data: workspace } = await createWorkspace(gateway, getOperator(gateway), {
      name: 'Going',
      slug: 'going',
    })
    const [ours, theirs] = [await create(), await create({ workspace_id: workspace.id })]
    await updateGuardrail(gateway, getOperator(gateway), workspace.default_guardrail_id, {
      description: 'its default one',
    })
    await assignMembers(gateway, getOperator(gateway), theirs.id, {
      member_user_ids: [gateway.memory.owner.user_id],
    })
    await deleteWorkspace(gateway, getOperator(gateway), 'going', {})
    expect((await gateway.store.guardrails.all()).map(one => one.id)).toEqual([ours.id])
    expect([...gateway.memory.guardrails.keys()]).toEqual([ours.id])
    expect([...(await gateway.store.assignments.all())]).toEqual([])
    expect((await ask('GET', '/guardrails/assignments/members')).json.total_count).toBe(0)
    expect(
      (await ask('PATCH', `/guardrails/${workspace.default_guardrail_id}`, { body: {} })).status,
    ).toBe(404)
  })

  test('E5 requires a workspace where there is no default one', async () => {
    const { data: workspace } = await createWorkspace(gateway, getOperator(gateway), {
      name: 'Other',
      slug: 'other',
    })
    await updateKey(gateway, getOperator(gateway), keys.hash, { disabled: true })
    const confirm_default_workspace_deletion = 'true'
    await deleteWorkspace(gateway, getOperator(gateway), gateway.memory.owner.workspace_id, {
      confirm_default_workspace_deletion,
    })
    expect((await ask('POST', '/guardrails', { body: { name: 'nowhere' } })).status).toBe(400)
    expect(
      (await ask('POST', '/guardrails', { body: { name: 'there', workspace_id: workspace.id } }))
        .status,
    ).toBe(201)
  })

  test('does not create a guardrail in a workspace deleted meanwhile', async () => {
    const { data: workspace } = await createWorkspace(gateway, getOperator(gateway), {
      name: 'Going',
      slug: 'going',
    })
    const settled = await Promise.allSettled([
      deleteWorkspace(gateway, getOperator(gateway), 'going', {}),
      create({ workspace_id: workspace.id }),
    ])
    const kept = (await gateway.store.guardrails.all()).length
    expect([settled[0]?.status, kept, gateway.memory.guardrails.size]).toEqual(['fulfilled', 0, 0])
  })
})

const ID = `/guardrails/${UNKNOWN}`
const OPERATIONS: [method: string, path: string, body?: object][] = [
  ['GET', '/guardrails'],
  ['POST', '/guardrails', { name: 'a' }],
  ['GET', ID],
  ['PATCH', ID, { name: 'a' }],
  ['DELETE', ID],
  ['GET', '/guardrails/assignments/keys'],
  ['GET', '/guardrails/assignments/members'],
  ['GET', `${ID}/assignments/keys`],
  ['GET', `${ID}/assignments/members`],
  ['POST', `${ID}/assignments/keys`, { key_hashes: ['a'] }],
  ['POST', `${ID}/assignments/keys/remove`, { key_hashes: ['a'] }],
  ['POST', `${ID}/assignments/members`, { member_user_ids: ['a'] }],
  ['POST', `${ID}/assignments/members/remove`, { member_user_ids: ['a'] }],
]

describe('authorization', () => {
  test.each(OPERATIONS)(
    '%s %s is 401 without a key, 403 with an inference key, and 500 without a store',
    async (method, path, body) => {
      const more = body ? { body } : {}
      expect((await ask(method, path, { ...more, key: null })).status).toBe(401)
      expect((await ask(method, path, { ...more, key: 'gw-v1-nobody' })).status).toBe(401)
      expect((await ask(method, path, { ...more, key: keys.inference })).status).toBe(403)
      gateway.memory.guardrails = undefined as never
      gateway.memory.assignments = undefined as never
      gateway.store.guardrails = undefined as never
      const broken = await ask(method, path, more)
      expect([broken.status, broken.json.error.message]).toEqual([500, 'Internal Server Error'])
    },
  )

  test.each(OPERATIONS.filter(([, path]) => path.startsWith(ID)))(
    '%s %s is a 404 for an unknown id',
    async (method, path, body) => {
      expect((await ask(method, path, body ? { body } : {})).status).toBe(404)
    },
  )

  test.each(OPERATIONS.filter(([, path]) => path.startsWith(ID)))(
    '%s %s reveals nothing of another workspace’s',
    async (method, path, body) => {
      const { key } = await createOtherWorkspace(gateway, OTHER)
      const { id } = await create()
      const more = body ? { body, key } : { key }
      const [foreign, unknown] = [
        await ask(method, path.replace(UNKNOWN, id), more),
        await ask(method, path, more),
      ]
      const { request_id: _, ...metadata } = foreign.json.error.metadata
      expect([foreign.status, foreign.json.error.message]).toEqual([
        404,
        unknown.json.error.message,
      ])
      expect(metadata).toEqual({ error_type: 'not_found' })
    },
  )

  test('a key of another workspace creates and lists only there', async () => {
    const { key } = await createOtherWorkspace(gateway, OTHER)
    await create()
    const made = await ask('POST', '/guardrails', { body: { name: 'theirs' }, key })
    expect(made.json.data.workspace_id).toBe(OTHER)
    expect((await ask('GET', '/guardrails', { key })).json).toEqual({
      data: [made.json.data],
      total_count: 1,
    })
    expect(
      (await ask('GET', `/guardrails?workspace_id=${gateway.memory.owner.workspace_id}`, { key }))
        .status,
    ).toBe(400)
    expect(
      (
        await ask('POST', '/guardrails', {
          body: { name: 'x', workspace_id: gateway.memory.owner.workspace_id },
          key,
        })
      ).status,
    ).toBe(400)
  })
})

describe('the audit trail', () => {
  const told = async () => {
    const db = openDatabase(data)
    const rows = db
      .query('select action, resource_id, before, after from audit order by rowid')
      .all() as Record<string, string | null>[]
    db.close()
    return rows
  }
  let data: string

  beforeEach(() => {
    data = mkdtempSync(join(tmpdir(), 'gateway-test-'))
  })
  afterEach(() => rmSync(data, { recursive: true }))

  test('has every change, before and after, with money in dollars', async () => {
    const gateway = await openGateway({ data })
    const { data: made } = await createGuardrail(gateway, getOperator(gateway), {
      name: 'a',
      limit_usd: 5,
      reset_interval: 'daily',
    })
    await updateGuardrail(gateway, getOperator(gateway), made.id, { limit_usd: 7 })
    const { hash } = (await createKey(gateway, getOperator(gateway), { name: 'k' })).data
    await assignKeys(gateway, getOperator(gateway), made.id, { key_hashes: [hash] })
    await unassignKeys(gateway, getOperator(gateway), made.id, { key_hashes: [hash] })
    await deleteGuardrail(gateway, getOperator(gateway), made.id)
    await gateway.close()
    const rows = (await told()).map(row => ({
      ...row,
      before: JSON.parse(row.before ?? 'null'),
      after: JSON.parse(row.after ?? 'null'),
    }))
    expect(rows).toMatchObject([
      {
        action: 'guardrails.create',
        resource_id: made.id,
        before: null,
        after: { name: 'a', limit_usd: 5 },
      },
      { action: 'guardrails.update', before: { limit_usd: 5 }, after: { limit_usd: 7 } },
      { action: 'keys.create' },
      {
        action: 'guardrails.assign',
        resource_id: made.id,
        before: { [hash]: null },
        after: { [hash]: made.id },
      },
      {
        action: 'guardrails.unassign',
        resource_id: made.id,
        before: { [hash]: made.id },
        after: { [hash]: null },
      },
      { action: 'guardrails.delete', before: { limit_usd: 7 }, after: null },
    ])
  })

  test('changes of another process are read, and concurrent own changes are kept', async () => {
    const [server, terminal] = [await openGateway({ data }), await openGateway({ data })]
    const { data: theirs } = await createGuardrail(terminal, getOperator(terminal), {
      name: 'theirs',
    })
    const { data: gone } = await createGuardrail(server, getOperator(server), { name: 'gone' })
    const catching = server.catchUp()
    const mine = createGuardrail(server, getOperator(server), { name: 'mine' })
    const deleted = deleteGuardrail(server, getOperator(server), gone.id)
    await Promise.all([catching, mine, deleted])
    expect([...server.memory.guardrails.values()].map(one => one.name).toSorted()).toEqual([
      'mine',
      'theirs',
    ])
    await updateGuardrail(terminal, getOperator(terminal), theirs.id, { name: 'changed' })
    await server.catchUp()
    expect(server.memory.guardrails.get(theirs.id)?.name).toBe('changed')
    await deleteGuardrail(terminal, getOperator(terminal), theirs.id)
    await server.catchUp()
    expect(server.memory.guardrails.has(theirs.id)).toBe(false)
    await Promise.all([server.close(), terminal.close()])
  })
})
