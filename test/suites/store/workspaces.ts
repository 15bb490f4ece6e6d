import { expect, test } from 'bun:test'
import type { Store } from '../../../src/store/store.ts'
import { buildAuditEntry } from '../../support/audit.ts'
import {
  buildBudget,
  buildDisabling,
  buildKey,
  buildMember,
  buildWorkspace,
  buildWorkspaceMember,
  CREATED,
  countAudit,
  type GetStore,
  LATER,
  PRESET_QUOTA,
  readErrorType,
  readRefusal,
  sortByField,
  WORKSPACE,
} from './rows.ts'

const TAKEN = '400 slug: expected one that no other workspace has'
const GONE = '404 Workspace not found'

const remove = (store: Store, workspace = buildWorkspace(), keys = buildDisabling()) =>
  store.workspaces.remove(workspace, keys, buildAuditEntry({ created_at: LATER }))

/** Tests what every store promises about workspaces and their contents. */
export function testWorkspaces(store: GetStore): void {
  test('a workspace is read as inserted, in every field; its slug and id are unique', async () => {
    const [rich, plain] = [
      buildWorkspace({
        description: `'; drop table workspaces; --`,
        default_text_model: 'acme/small',
        include_byok_in_budgets: true,
        io_logging_sampling_rate: 0.25,
        io_logging_api_key_ids: [1, 2],
        disabled_server_tools: ['gateway:bash'],
      }),
      buildWorkspace({ id: 'w3', slug: 'third', created_at: LATER }),
    ]
    for (const one of [rich, plain]) await store().workspaces.insert(one, buildAuditEntry())
    const all = await store().workspaces.all()
    expect(sortByField(all, 'id').slice(1)).toEqual([rich, plain])
    const again = buildWorkspace({ id: 'w4' })
    expect(await readRefusal(store().workspaces.insert(again, buildAuditEntry()))).toBe(TAKEN)
    expect(
      await readErrorType(store().workspaces.insert({ ...rich, slug: 'x' }, buildAuditEntry())),
    ).toBe('conflict')
    expect(await store().workspaces.all()).toHaveLength(3)
  })

  test('an update affects one workspace, and cannot take the slug of another', async () => {
    for (const id of ['w2', 'w3'])
      await store().workspaces.insert(buildWorkspace({ id, slug: id }), buildAuditEntry())
    const change = { name: 'new', slug: 'fresh', disabled_server_tools: [], updated_at: LATER }
    await store().workspaces.update('w2', change, buildAuditEntry())
    const entries = await countAudit(store())
    const refused = store().workspaces.update('w3', { slug: 'fresh' }, buildAuditEntry())
    expect(await readRefusal(refused)).toBe(TAKEN)
    expect(
      await readRefusal(store().workspaces.update('none', { name: 'x' }, buildAuditEntry())),
    ).toBe(GONE)
    await store().workspaces.update('w2', { slug: 'fresh' }, buildAuditEntry())
    expect(await countAudit(store())).toBe(entries + 1)
    expect(sortByField(await store().workspaces.all(), 'id').slice(1)).toEqual([
      buildWorkspace({ id: 'w2', ...change }),
      buildWorkspace({ id: 'w3', slug: 'w3' }),
    ])
  })

  test('a workspace with active keys is not removed, and neither is anything in it', async () => {
    await store().workspaces.insert(buildWorkspace(), buildAuditEntry())
    const own = { workspace_id: 'w2', isUnscoped: false }
    await store().keys.insert(
      buildKey({ hash: 'ended', expires_at: LATER, ...own }),
      buildAuditEntry(),
    )
    await store().keys.insert(buildKey({ hash: 'off', disabled: true, ...own }), buildAuditEntry())
    for (const [hash, words] of [
      ['a', '1 active API key'],
      ['b', '2 active API keys'],
    ] as const) {
      await store().keys.insert(buildKey({ hash, expires_at: null, ...own }), buildAuditEntry())
      const refusal = `400 This workspace has ${words}: delete or disable them first`
      expect(await readRefusal(remove(store()))).toBe(refusal)
    }
    expect(await store().workspaces.all()).toHaveLength(2)
    for (const hash of ['a', 'b'])
      await store().keys.update(hash, { disabled: true }, buildAuditEntry())
    await remove(store())
    expect(await store().workspaces.all()).toHaveLength(1)
    expect(await readRefusal(remove(store()))).toBe(GONE)
  })

  test('removing a workspace removes its contents, not references; its slug is free', async () => {
    await fill(store(), 'w2')
    await fill(store(), 'w3')
    await remove(store(), buildWorkspace({ slug: 'w2' }))
    const { byok, budgets, guardrails, presets, members, scim, keys } = store()
    expect([...(await keys.all())].map(({ hash }) => hash).toSorted()).toEqual(['key w2', 'key w3'])
    for (const noun of [byok, budgets, guardrails, presets])
      expect((await noun.all()).map(({ workspace_id }) => workspace_id)).toEqual(['w3'])
    expect(await presets.listVersions('preset w2', 0, 9)).toEqual([])
    expect([
      await members.listInWorkspace('w2'),
      await members.listInWorkspace('w3'),
    ]).toMatchObject([[], [{}]])
    expect((await scim.mappings.listPage(0, 9)).map(({ id }) => id)).toEqual(['mapping w3'])
    await store().workspaces.insert(buildWorkspace({ id: 'w4', slug: 'w2' }), buildAuditEntry())
  })

  test('nothing is created in a deleted workspace, and none of its keys is enabled', async () => {
    await fill(store(), 'w2')
    await remove(store(), buildWorkspace({ slug: 'w2' }))
    const { keys, byok, guardrails, presets, budgets, members } = store()
    const entries = await countAudit(store())
    const [unreachable, missing] = ['400 workspace_id: expected a workspace that exists', GONE]
    const { budget, guardrail, preset, place, sealed } = buildContent('w2')
    expect([
      await readRefusal(
        keys.insert(buildKey({ hash: 'x', workspace_id: 'w2' }), buildAuditEntry()),
      ),
      await readRefusal(byok.insert({ ...sealed, id: 'x' }, buildAuditEntry())),
      await readRefusal(guardrails.insert({ ...guardrail, id: 'x' }, buildAuditEntry())),
      await readRefusal(presets.insert({ ...preset, id: 'x' }, buildAuditEntry(), PRESET_QUOTA)),
      await readRefusal(
        members.changeWorkspaceMembers([{ before: null, after: place, entry: buildAuditEntry() }]),
      ),
      await readRefusal(budgets.upsert(budget, undefined, buildAuditEntry())),
      await readRefusal(keys.update('key w2', { disabled: false }, buildAuditEntry())),
    ]).toEqual([
      ...Array(5).fill(unreachable),
      missing,
      '400 disabled: expected true, since the key’s workspace was deleted or its creator has left',
    ])
    expect(await countAudit(store())).toBe(entries)
    await keys.update('key w2', { name: 'still' }, buildAuditEntry())
  })

  test('removing a default workspace disables only the keys that name no workspace', async () => {
    const [home] = await store().workspaces.all()
    if (!home) throw new Error('There is a workspace')
    const unscoped = { isUnscoped: true, expires_at: null }
    await store().keys.insert(buildKey({ hash: 'a', ...unscoped }), buildAuditEntry())
    await store().keys.insert(
      buildKey({ hash: 'off', disabled: true, ...unscoped }),
      buildAuditEntry(),
    )
    await store().keys.insert(
      buildKey({ hash: 'manages', kind: 'management', ...unscoped }),
      buildAuditEntry(),
    )
    expect(await readErrorType(remove(store(), home, buildDisabling()))).toBe('conflict')
    expect(await readErrorType(remove(store(), home, buildDisabling('a', 'b')))).toBe('conflict')
    expect([...(await store().keys.all())].filter(({ disabled }) => !disabled)).toHaveLength(2)
    await remove(store(), home, buildDisabling('a'))
    const keys = sortByField([...(await store().keys.all())], 'hash')
    expect(keys.map(({ hash, disabled, updated_at }) => [hash, disabled, updated_at])).toEqual([
      ['a', true, LATER],
      ['manages', false, null],
      ['off', true, null],
    ])
    // Keys that manage all workspaces outlive it, and more of them can be created.
    await store().keys.insert(
      buildKey({ hash: 'more', kind: 'management', ...unscoped }),
      buildAuditEntry(),
    )
    await store().keys.update('manages', { disabled: false }, buildAuditEntry())
  })
}

/** Builds one of everything that a workspace can contain. */
function buildContent(workspace_id: string) {
  const id = workspace_id
  const times = { created_at: CREATED, updated_at: CREATED }
  const version = { preset_id: `preset ${id}`, version: 1, creator_id: 'u', system_prompt: null }
  const nothing = { allowed_models: null, allowed_api_key_hashes: null, allowed_user_ids: null }
  const flags = { disabled: false, is_fallback: false, is_byok_only: false, is_required: false }
  return {
    budget: { ...buildBudget('daily', 5n), id: `budget ${id}`, workspace_id },
    guardrail: {
      ...{ id: `guardrail ${id}`, workspace_id, name: 'Rules', description: null, revision: 1 },
      ...{ allowed_data_regions: null, allowed_models: null, allowed_providers: null },
      ...{ ignored_models: null, ignored_providers: null, mcp: null },
      ...{ content_filter_builtins: null },
      ...{ content_filters: null, filterOutput: false, enable_free_model_publication: null },
      ...{ enable_free_model_training: null, enable_paid_model_training: null, enforce_zdr: null },
      ...{ enforce_zdr_anthropic: null, enforce_zdr_google: null, enforce_zdr_openai: null },
      ...{ enforce_zdr_other: null, enforce_zdr_xai: null, limit_usd: null, reset_interval: null },
      ...{
        include_byok_in_budgets: false,
        requests_per_minute: null,
        created_at: CREATED,
        updated_at: null,
      },
      ...{ tokens_per_minute: null, concurrent_requests: null, budgets: null },
    },
    preset: {
      ...{ id: `preset ${id}`, workspace_id, slug: 'brief', name: 'Brief', description: null },
      ...{ status: 'active' as const, status_updated_at: null, creator_user_id: null, ...times },
      designated_version_id: `version ${id}`,
      designated_version: { id: `version ${id}`, ...version, config: {}, ...times },
    },
    place: buildWorkspaceMember('user_2', { id: `place ${id}`, workspace_id }),
    mapping: {
      id: `mapping ${id}`,
      scim_group_id: 'g',
      workspace_id,
      role: 'member' as const,
      ...times,
    },
    sealed: {
      ...{ id: `byok ${id}`, workspace_id, provider: 'openai', name: null, label: '...' },
      ...{ sealed: 'sealed', declared_zdr: null, sort_order: 0, created_at: CREATED },
      ...nothing,
      ...flags,
    },
  }
}

/** Creates a workspace with one of everything and a disabled key. */
async function fill(store: Store, id: string): Promise<void> {
  const { budget, guardrail, preset, place, mapping, sealed } = buildContent(id)
  if ((await store.members.byIds(['user_2'])).length === 0) {
    await store.members.insert(buildMember('user_2'), buildAuditEntry())
    const times = { version: 1, created_at: CREATED, updated_at: CREATED }
    await store.scim.groups.insert(
      { id: 'g', display_name: 'G', external_id: null, ...times },
      [],
      buildAuditEntry(),
    )
  }
  await store.workspaces.insert(buildWorkspace({ id, slug: id }), buildAuditEntry())
  const own = { workspace_id: id, disabled: true }
  await store.keys.insert(buildKey({ hash: `key ${id}`, ...own }), buildAuditEntry())
  await store.byok.insert(sealed, buildAuditEntry())
  await store.budgets.upsert(budget, undefined, buildAuditEntry())
  await store.guardrails.insert(guardrail, buildAuditEntry())
  await store.presets.insert(preset, buildAuditEntry(), PRESET_QUOTA)
  await store.members.changeWorkspaceMembers([
    { before: null, after: place, entry: buildAuditEntry() },
  ])
  const move = () => ({ after: null, entry: buildAuditEntry() })
  await store.scim.mappings.insert(mapping, () => ({ mapping, entry: buildAuditEntry() }), move)
  expect(WORKSPACE).not.toBe(id)
}
