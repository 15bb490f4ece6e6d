import { expect, test } from 'bun:test'
import type { Store } from '../../../src/core/store/store.ts'
import { told } from '../../support/audit.ts'
import {
  budgetOf,
  CREATED,
  countAudit,
  disablingOf,
  keyOf,
  LATER,
  memberOf,
  type Opened,
  placeOf,
  refusalOf,
  sortedBy,
  typeOf,
  WORKSPACE,
  workspaceOf,
} from './rows.ts'

const TAKEN = '400 slug: expected one that no other workspace has'
const GONE = '404 Workspace not found'

const remove = (store: Store, workspace = workspaceOf(), keys = disablingOf()) =>
  store.workspaces.remove(workspace, keys, told({ created_at: LATER }))

/** Tests what every store promises about workspaces and their contents. */
export function workspaceCases(store: Opened): void {
  test('a workspace is read as inserted, in every field; its slug and id are unique', async () => {
    const [rich, plain] = [
      workspaceOf({
        description: `'; drop table workspaces; --`,
        default_text_model: 'acme/small',
        include_byok_in_budgets: true,
        io_logging_sampling_rate: 0.25,
        io_logging_api_key_ids: [1, 2],
        disabled_server_tools: ['gateway:bash'],
      }),
      workspaceOf({ id: 'w3', slug: 'third', created_at: LATER }),
    ]
    for (const one of [rich, plain]) await store().workspaces.insert(one, told())
    const all = await store().workspaces.all()
    expect(sortedBy(all, 'id').slice(1)).toEqual([rich, plain])
    const again = workspaceOf({ id: 'w4' })
    expect(await refusalOf(store().workspaces.insert(again, told()))).toBe(TAKEN)
    expect(await typeOf(store().workspaces.insert({ ...rich, slug: 'x' }, told()))).toBe('conflict')
    expect(await store().workspaces.all()).toHaveLength(3)
  })

  test('an update affects one workspace, and cannot take the slug of another', async () => {
    for (const id of ['w2', 'w3'])
      await store().workspaces.insert(workspaceOf({ id, slug: id }), told())
    const change = { name: 'new', slug: 'fresh', disabled_server_tools: [], updated_at: LATER }
    await store().workspaces.update('w2', change, told())
    const entries = await countAudit(store())
    const refused = store().workspaces.update('w3', { slug: 'fresh' }, told())
    expect(await refusalOf(refused)).toBe(TAKEN)
    expect(await refusalOf(store().workspaces.update('none', { name: 'x' }, told()))).toBe(GONE)
    await store().workspaces.update('w2', { slug: 'fresh' }, told())
    expect(await countAudit(store())).toBe(entries + 1)
    expect(sortedBy(await store().workspaces.all(), 'id').slice(1)).toEqual([
      workspaceOf({ id: 'w2', ...change }),
      workspaceOf({ id: 'w3', slug: 'w3' }),
    ])
  })

  test('a workspace with active keys is not removed, and neither is anything in it', async () => {
    await store().workspaces.insert(workspaceOf(), told())
    const own = { workspace_id: 'w2', isUnscoped: false }
    await store().keys.insert(keyOf({ hash: 'ended', expires_at: LATER, ...own }), told())
    await store().keys.insert(keyOf({ hash: 'off', disabled: true, ...own }), told())
    for (const [hash, words] of [
      ['a', '1 active API key'],
      ['b', '2 active API keys'],
    ] as const) {
      await store().keys.insert(keyOf({ hash, expires_at: null, ...own }), told())
      const refusal = `400 This workspace has ${words}: delete or disable them first`
      expect(await refusalOf(remove(store()))).toBe(refusal)
    }
    expect(await store().workspaces.all()).toHaveLength(2)
    for (const hash of ['a', 'b']) await store().keys.update(hash, { disabled: true }, told())
    await remove(store())
    expect(await store().workspaces.all()).toHaveLength(1)
    expect(await refusalOf(remove(store()))).toBe(GONE)
  })

  test('removing a workspace removes its contents, not references; its slug is free', async () => {
    await fill(store(), 'w2')
    await fill(store(), 'w3')
    await remove(store(), workspaceOf({ slug: 'w2' }))
    const { byok, budgets, guardrails, presets, members, scim, keys } = store()
    expect((await keys.all()).map(({ hash }) => hash).toSorted()).toEqual(['key w2', 'key w3'])
    for (const noun of [byok, budgets, guardrails, presets])
      expect((await noun.all()).map(({ workspace_id }) => workspace_id)).toEqual(['w3'])
    expect(await presets.versions('preset w2', 0, 9)).toEqual([])
    expect([await members.inWorkspace('w2'), await members.inWorkspace('w3')]).toMatchObject([
      [],
      [{}],
    ])
    expect((await scim.mappings.page(0, 9)).map(({ id }) => id)).toEqual(['mapping w3'])
    await store().workspaces.insert(workspaceOf({ id: 'w4', slug: 'w2' }), told())
  })

  test('nothing is created in a deleted workspace, and none of its keys is enabled', async () => {
    await fill(store(), 'w2')
    await remove(store(), workspaceOf({ slug: 'w2' }))
    const { keys, byok, guardrails, presets, budgets, members } = store()
    const entries = await countAudit(store())
    const [unreachable, missing] = ['400 workspace_id: expected a workspace that exists', GONE]
    const { budget, guardrail, preset, place, sealed } = contentOf('w2')
    expect([
      await refusalOf(keys.insert(keyOf({ hash: 'x', workspace_id: 'w2' }), told())),
      await refusalOf(byok.insert({ ...sealed, id: 'x' }, told())),
      await refusalOf(guardrails.insert({ ...guardrail, id: 'x' }, told())),
      await refusalOf(presets.insert({ ...preset, id: 'x' }, told())),
      await refusalOf(
        members.changeWorkspaceMembers([{ before: null, after: place, entry: told() }]),
      ),
      await refusalOf(budgets.upsert(budget, undefined, told())),
      await refusalOf(keys.update('key w2', { disabled: false }, told())),
    ]).toEqual([
      ...Array(5).fill(unreachable),
      missing,
      '400 disabled: expected true, since the key’s workspace was deleted or its creator has left',
    ])
    expect(await countAudit(store())).toBe(entries)
    await keys.update('key w2', { name: 'still' }, told())
  })

  test('removing a default workspace disables only the keys that name no workspace', async () => {
    const [home] = await store().workspaces.all()
    if (!home) throw new Error('There is a workspace')
    const unscoped = { isUnscoped: true, expires_at: null }
    await store().keys.insert(keyOf({ hash: 'a', ...unscoped }), told())
    await store().keys.insert(keyOf({ hash: 'off', disabled: true, ...unscoped }), told())
    await store().keys.insert(keyOf({ hash: 'manages', kind: 'management', ...unscoped }), told())
    expect(await typeOf(remove(store(), home, disablingOf()))).toBe('conflict')
    expect(await typeOf(remove(store(), home, disablingOf('a', 'b')))).toBe('conflict')
    expect((await store().keys.all()).filter(({ disabled }) => !disabled)).toHaveLength(2)
    await remove(store(), home, disablingOf('a'))
    const keys = sortedBy(await store().keys.all(), 'hash')
    expect(keys.map(({ hash, disabled, updated_at }) => [hash, disabled, updated_at])).toEqual([
      ['a', true, LATER],
      ['manages', false, null],
      ['off', true, null],
    ])
    // Keys that manage all workspaces outlive it, and more of them can be created.
    await store().keys.insert(keyOf({ hash: 'more', kind: 'management', ...unscoped }), told())
    await store().keys.update('manages', { disabled: false }, told())
  })
}

/** Builds one of everything that a workspace can contain. */
function contentOf(workspace_id: string) {
  const id = workspace_id
  const times = { created_at: CREATED, updated_at: CREATED }
  const version = { preset_id: `preset ${id}`, version: 1, creator_id: 'u', system_prompt: null }
  const nothing = { allowed_models: null, allowed_api_key_hashes: null, allowed_user_ids: null }
  const flags = { disabled: false, is_fallback: false, is_byok_only: false, is_required: false }
  return {
    budget: { ...budgetOf('daily', 5n), id: `budget ${id}`, workspace_id },
    guardrail: {
      ...{ id: `guardrail ${id}`, workspace_id, name: 'Rules', description: null, revision: 1 },
      ...{ allowed_data_regions: null, allowed_models: null, allowed_providers: null },
      ...{ ignored_models: null, ignored_providers: null, content_filter_builtins: null },
      ...{ content_filters: null, filterOutput: false, enable_free_model_publication: null },
      ...{ enable_free_model_training: null, enable_paid_model_training: null, enforce_zdr: null },
      ...{ enforce_zdr_anthropic: null, enforce_zdr_google: null, enforce_zdr_openai: null },
      ...{ enforce_zdr_other: null, enforce_zdr_xai: null, limit_usd: null, reset_interval: null },
      ...{ include_byok_in_budgets: false, created_at: CREATED, updated_at: null },
    },
    preset: {
      ...{ id: `preset ${id}`, workspace_id, slug: 'brief', name: 'Brief', description: null },
      ...{ status: 'active' as const, status_updated_at: null, creator_user_id: null, ...times },
      designated_version_id: `version ${id}`,
      designated_version: { id: `version ${id}`, ...version, config: {}, ...times },
    },
    place: placeOf('user_2', { id: `place ${id}`, workspace_id }),
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
  const { budget, guardrail, preset, place, mapping, sealed } = contentOf(id)
  if ((await store.members.byIds(['user_2'])).length === 0) {
    await store.members.insert(memberOf('user_2'), told())
    const times = { version: 1, created_at: CREATED, updated_at: CREATED }
    await store.scim.groups.insert(
      { id: 'g', display_name: 'G', external_id: null, ...times },
      [],
      told(),
    )
  }
  await store.workspaces.insert(workspaceOf({ id, slug: id }), told())
  const own = { workspace_id: id, disabled: true }
  await store.keys.insert(keyOf({ hash: `key ${id}`, ...own }), told())
  await store.byok.insert(sealed, told())
  await store.budgets.upsert(budget, undefined, told())
  await store.guardrails.insert(guardrail, told())
  await store.presets.insert(preset, told())
  await store.members.changeWorkspaceMembers([{ before: null, after: place, entry: told() }])
  const move = () => ({ after: null, entry: told() })
  await store.scim.mappings.insert(mapping, () => ({ mapping, entry: told() }), move)
  expect(WORKSPACE).not.toBe(id)
}
