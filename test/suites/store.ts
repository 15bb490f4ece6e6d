import { afterEach, beforeEach, describe, expect, test } from 'bun:test'
import { openMac } from '../../src/base/mac.ts'
import type { Assignment } from '../../src/limits/assignments/store.ts'
import type { Guardrail } from '../../src/limits/guardrails/store.ts'
import type { SealReport } from '../../src/limits/seals.ts'
import type { GenerationListQuery } from '../../src/observability/generations/filter.ts'
import type { Generation } from '../../src/observability/generations/store.ts'
import type { ByokKey } from '../../src/resources/byok/store.ts'
import type { Member, WorkspaceMember } from '../../src/resources/members/store.ts'
import { computeVersionBytes } from '../../src/resources/presets/quota.ts'
import type { DesignatedPreset } from '../../src/resources/presets/store.ts'
import type { MembershipDifference } from '../../src/resources/scim.ts'
import { buildDefaultWorkspace } from '../../src/resources/workspaces.ts'
import type { Store } from '../../src/store/store.ts'
import { buildAuditEntry } from '../support/audit.ts'
import { buildGeneration, buildRecordEntry, PAYER } from '../support/generation.ts'
import { TEST_MAC } from '../support/ledger.ts'
import { testAlerts } from './store/alerts.ts'
import { testBatches } from './store/batches.ts'
import { testBudgets } from './store/budgets.ts'
import { testConnections } from './store/connections.ts'
import { testContainers } from './store/containers.ts'
import { testDestinations } from './store/destinations.ts'
import { testFiles } from './store/files.ts'
import { testLedger } from './store/ledger.ts'
import { testMcpLogins } from './store/mcp-logins.ts'
import { testMembers } from './store/members.ts'
import { testOutbox } from './store/outbox.ts'
import { testResponses } from './store/responses.ts'
import { testRollups } from './store/rollups.ts'
import {
  buildKey,
  CREATED,
  countAudit,
  LARGEST,
  PRESET_QUOTA,
  readErrorType,
  WORKSPACE,
} from './store/rows.ts'
import { testScim } from './store/scim.ts'
import { testSignIns } from './store/sign-ins.ts'
import { testTranscripts } from './store/transcripts.ts'
import { testVideos } from './store/videos.ts'
import { testWorkspaces } from './store/workspaces.ts'

/** Builds a preset of this id and slug at a version. The version's id combines both. */
const buildPreset = (id = 'p1', slug = id, version = 1): DesignatedPreset => ({
  id,
  workspace_id: WORKSPACE,
  slug,
  name: slug,
  description: null,
  status: 'active',
  status_updated_at: null,
  creator_user_id: 'user_1',
  designated_version_id: `${id}-${version}`,
  created_at: CREATED,
  updated_at: CREATED,
  designated_version: {
    id: `${id}-${version}`,
    preset_id: id,
    version,
    creator_id: 'user_1',
    system_prompt: 'Be “brief” 𝄞',
    config: {
      model: 'acme/small',
      stop: ['a'],
      tools: [{ type: 'function', function: { name: 'f' } }],
    },
    created_at: CREATED,
    updated_at: CREATED,
  },
})

const buildByokKey = (more: Partial<ByokKey> = {}): ByokKey => ({
  id: 'b1',
  workspace_id: WORKSPACE,
  provider: 'openai',
  name: 'mine “𝄞”',
  label: 'sk-a...xyz',
  sealed: 'sealed',
  disabled: false,
  is_fallback: true,
  is_byok_only: false,
  is_required: true,
  declared_zdr: false,
  allowed_models: ['acme/small', "it's"],
  allowed_api_key_hashes: ['h1'],
  allowed_user_ids: [],
  sort_order: 3,
  created_at: '2026-03-04T05:06:07.000Z',
  ...more,
})

const buildGuardrail = (more: Partial<Guardrail> = {}): Guardrail => ({
  id: 'g1',
  workspace_id: WORKSPACE,
  name: 'rules “𝄞”',
  description: "it's",
  allowed_data_regions: ['europe', 'us'],
  allowed_models: ['acme/small'],
  allowed_providers: ['openai', "o'hara"],
  ignored_models: ['acme/large'],
  ignored_providers: ['azure'],
  mcp: { servers: ['files'], arguments: { 'files:read': { maxItems: 2 } } },
  content_filter_builtins: [{ slug: 'email', action: 'redact' }],
  content_filters: [{ pattern: '\\d+“', action: 'block', label: null }],
  filterOutput: true,
  enable_free_model_publication: true,
  enable_free_model_training: false,
  enable_paid_model_training: null,
  enforce_zdr: true,
  enforce_zdr_anthropic: false,
  enforce_zdr_google: null,
  enforce_zdr_openai: true,
  enforce_zdr_other: false,
  enforce_zdr_xai: true,
  limit_usd: LARGEST,
  reset_interval: 'monthly',
  include_byok_in_budgets: true,
  requests_per_minute: 60,
  tokens_per_minute: 9_007_199_254_740,
  concurrent_requests: 4,
  budgets: [
    { by: 'end_user', name: null, limit_usd: LARGEST, reset_interval: 'monthly' },
    { by: 'tag', name: 'rules “𝄞”', limit_usd: 0n, reset_interval: 'daily' },
  ],
  revision: 1,
  created_at: CREATED,
  updated_at: null,
  ...more,
})

const buildAssignment = (more: Partial<Assignment> = {}): Assignment => ({
  id: 'a1',
  guardrail_id: 'g1',
  kind: 'key',
  assignee: 'h1',
  assigned_by: 'user_1',
  created_at: CREATED,
  ...more,
})

/**
 * Tests what every store promises. `open` returns an empty one. `openTwo` returns two connections
 * to the same empty store, as two processes would have; only for a store that can be opened twice.
 * `inspect` looks at the rows that each test has left, where that costs less than the whole inspection.
 */
export function testStore(
  name: string,
  open: () => Promise<Store>,
  openTwo?: () => Promise<[Store, Store]>,
  inspect = (store: Store): Promise<Omit<SealReport, 'schema'>> => store.seals.inspect(),
): void {
  if (openTwo) testConnections(name, openTwo)
  describe(`store: ${name}`, () => {
    let store: Store

    beforeEach(async () => {
      store = await open()
      await store.workspaces.insertIfAbsent(
        buildDefaultWorkspace(WORKSPACE, 'user_1', new Date('2026-03-04T05:06:07Z')),
      )
    })

    // Whatever a test has done, every row that is sealed is as its seal says.
    afterEach(async () => {
      const { audit, rules, seals } = await inspect(store)
      expect({ audit, rules, seals }).toEqual({ audit: [], rules: [], seals: [] })
      await store.close()
    })

    test('the first owner stays, whatever later calls insert', async () => {
      const first = { user_id: 'user_a', workspace_id: 'w-a' }
      expect(await store.owner(first)).toEqual(first)
      expect(await store.owner({ user_id: 'user_b', workspace_id: 'w-b' })).toEqual(first)
    })

    test('a log that nobody reads is not held', async () => {
      expect((await store.writeLog.shorten()).isHeld).toBe(false)
    })

    test('the tables are named whose rows nothing proves', async () => {
      const tables = await store.seals.listUnsealed()
      for (const unproven of ['alerts', 'call_spend', 'files', 'refusals', 'videos'])
        expect(tables).toContain(unproven)
      for (const proven of ['audit', 'generations', 'keys', 'ledger', 'seal_log', 'usage_days'])
        expect(tables).not.toContain(proven)
    })

    test('seals are none under the key of another secret', async () => {
      const [own, other] = [TEST_MAC, openMac(Buffer.from('another secret'), 'records')]
      expect(await store.seals.under(own).readOpening()).toEqual(await store.seals.readOpening())
      expect(await store.seals.readOpening()).not.toBeNull()
      expect(await store.seals.under(other).readOpening()).toBeNull()
      const { rules, seals } = await store.seals.under(other).inspect()
      expect(rules).toContain(`workspaces ${WORKSPACE} was changed by another program`)
      expect(seals[0]).toBe('the opening is missing, or was made with another secret')
    })

    test('a workspace is read as inserted, and the first of a slug stays', async () => {
      await store.workspaces.insertIfAbsent(buildDefaultWorkspace('another', 'user_2', new Date()))
      expect(await store.workspaces.all()).toEqual([
        buildDefaultWorkspace(WORKSPACE, 'user_1', new Date('2026-03-04T05:06:07Z')),
      ])
    })

    test('a key is read as inserted, to the last field', async () => {
      const keys = [
        buildKey(),
        buildKey({
          hash: 'h2',
          limit: null,
          limit_reset: null,
          expires_at: null,
          disabled: true,
          external_user: 'ada',
        }),
      ]
      for (const key of keys) await store.keys.insert(key, buildAuditEntry())
      expect([...(await store.keys.all())].sort((a, b) => (a.hash < b.hash ? -1 : 1))).toEqual(keys)
    })

    test('money of more than 64 bits is refused instead of overflowing', async () => {
      for (const nanos of [LARGEST + 1n, 2n ** 64n + 1n, -(2n ** 63n) - 1n])
        expect(
          await readErrorType(store.generations.record([buildRecordEntry('gen-1', { nanos })])),
        ).toBe('conflict')
      // Even if only the sum is too large.
      await store.generations.record([buildRecordEntry('gen-1', { nanos: LARGEST })])
      expect(
        await readErrorType(store.generations.record([buildRecordEntry('gen-2', { nanos: 1n })])),
      ).toBe('conflict')
      expect((await store.ledger.listTotals()).map(one => one.nanos)).toEqual([LARGEST])
      expect(await store.generations.byId('gen-2')).toBeUndefined()
    })

    test('money of 64 bits loses nothing', async () => {
      await store.keys.insert(buildKey({ limit: LARGEST }), buildAuditEntry())
      await store.generations.record([buildRecordEntry('gen-1', { nanos: LARGEST - 1n })])
      await store.generations.record([
        {
          generation: buildGeneration({
            id: 'gen-2',
            total_cost: LARGEST,
            upstream_inference_cost: null,
          }),
          charge: null,
        },
      ])
      expect([...(await store.keys.all())][0]?.limit).toBe(LARGEST)
      expect((await store.ledger.listTotals())[0]?.nanos).toBe(LARGEST - 1n)
      expect(await store.generations.byId('gen-2')).toMatchObject({
        total_cost: LARGEST,
        upstream_inference_cost: null,
      })
    })

    test('a hash is unique', async () => {
      await store.keys.insert(buildKey(), buildAuditEntry())
      expect(store.keys.insert(buildKey({ name: 'other' }), buildAuditEntry())).rejects.toThrow()
    })

    test('a provider key is read as inserted, in every field, and its id is unique', async () => {
      const nulls = {
        name: null,
        declared_zdr: null,
        allowed_models: null,
        allowed_api_key_hashes: null,
        allowed_user_ids: null,
      }
      const keys = [
        buildByokKey(),
        buildByokKey({
          id: 'b2',
          ...nulls,
          disabled: true,
          is_fallback: false,
          is_byok_only: true,
        }),
      ]
      for (const key of keys) await store.byok.insert(key, buildAuditEntry())
      expect((await store.byok.all()).sort((a, b) => (a.id < b.id ? -1 : 1))).toEqual(keys)
      expect(store.byok.insert(buildByokKey(), buildAuditEntry())).rejects.toThrow()
    })

    test('a guardrail is read as inserted, in every field, and its id is unique', async () => {
      const nothing = Object.fromEntries(Object.keys(buildGuardrail()).map(name => [name, null]))
      const { id, workspace_id, name, revision, created_at } = buildGuardrail({ id: 'g2' })
      const known = {
        id,
        workspace_id,
        name,
        revision,
        created_at,
        filterOutput: false,
        include_byok_in_budgets: false,
      }
      const guardrails = [buildGuardrail(), { ...(nothing as unknown as Guardrail), ...known }]
      for (const guardrail of guardrails)
        await store.guardrails.insert(guardrail, buildAuditEntry())
      expect((await store.guardrails.all()).sort((a, b) => (a.id < b.id ? -1 : 1))).toEqual(
        guardrails,
      )
      expect(
        await readErrorType(store.guardrails.insert(buildGuardrail(), buildAuditEntry())),
      ).toBe('conflict')
    })

    test('a guardrail is replaced only by its next revision', async () => {
      await store.guardrails.insert(buildGuardrail(), buildAuditEntry())
      await store.guardrails.insert(buildGuardrail({ id: 'g2' }), buildAuditEntry())
      const next = buildGuardrail({
        revision: 2,
        name: 'next',
        limit_usd: null,
        reset_interval: null,
        allowed_models: null,
        enforce_zdr: null,
      })
      await store.guardrails.replace(next, buildAuditEntry())
      expect(
        await readErrorType(store.guardrails.replace({ ...next, name: 'late' }, buildAuditEntry())),
      ).toBe('conflict')
      expect(
        await readErrorType(store.guardrails.replace({ ...next, revision: 4 }, buildAuditEntry())),
      ).toBe('conflict')
      expect(
        await readErrorType(
          store.guardrails.replace({ ...next, id: 'none', revision: 3 }, buildAuditEntry()),
        ),
      ).toBe('conflict')
      expect((await store.guardrails.all()).sort((a, b) => (a.id < b.id ? -1 : 1))).toEqual([
        next,
        buildGuardrail({ id: 'g2' }),
      ])
    })

    test('a key and a member have one assignment each, removed with guardrail or key', async () => {
      for (const id of ['g1', 'g2'])
        await store.guardrails.insert(buildGuardrail({ id }), buildAuditEntry())
      for (const hash of ['h1', 'h2'])
        await store.keys.insert(buildKey({ hash }), buildAuditEntry())
      const all = async () =>
        [...(await store.assignments.all())].sort((a, b) => (a.id < b.id ? -1 : 1))
      const [key, other] = [buildAssignment(), buildAssignment({ id: 'a2', assignee: 'h2' })]
      const member = buildAssignment({
        id: 'a3',
        kind: 'member',
        assignee: 'h1',
        assigned_by: null,
      })
      await store.assignments.assign([key, other, member], buildAuditEntry())
      expect(await all()).toEqual([key, other, member])
      const moved = buildAssignment({ id: 'a4', guardrail_id: 'g2' })
      await store.assignments.assign([moved], buildAuditEntry())
      expect(await all()).toEqual([other, member, moved])
      await store.assignments.unassign([member, key], buildAuditEntry())
      expect(await all()).toEqual([other, moved])
      await store.keys.remove('h2', buildAuditEntry())
      await store.guardrails.remove('g2', buildAuditEntry())
      expect(await all()).toEqual([])
      expect(await readErrorType(store.assignments.assign([moved], buildAuditEntry()))).toBe(
        'conflict',
      )
      expect(await readErrorType(store.assignments.assign([other], buildAuditEntry()))).toBe(
        'conflict',
      )
    })

    test('an update and a removal affect one provider key', async () => {
      for (const id of ['b1', 'b2', 'b3'])
        await store.byok.insert(buildByokKey({ id }), buildAuditEntry())
      const change = {
        name: null,
        disabled: true,
        declared_zdr: true,
        allowed_models: null,
        allowed_user_ids: ['u'],
        sealed: 'anew',
      }
      await store.byok.update('b1', change, buildAuditEntry())
      await store.byok.remove('b2', '2026-03-05T00:00:00.000Z', buildAuditEntry())
      const again = store.byok.remove('b2', '2026-03-06T00:00:00.000Z', buildAuditEntry())
      expect(await readErrorType(again)).toBe('not_found')
      const late = store.byok.update('b2', change, buildAuditEntry())
      expect(await readErrorType(late)).toBe('not_found')
      const left = (await store.byok.all()).sort((a, b) => (a.id < b.id ? -1 : 1))
      expect(left).toEqual([buildByokKey(change), buildByokKey({ id: 'b3' })])
    })

    test('an update and a removal affect one key', async () => {
      for (const hash of ['h1', 'h2'])
        await store.keys.insert(buildKey({ hash }), buildAuditEntry())
      await store.keys.update('h1', { name: 'new', limit: null }, buildAuditEntry())
      await store.keys.remove('h2', buildAuditEntry())
      const before = await countAudit(store)
      expect(await readErrorType(store.keys.remove('h2', buildAuditEntry()))).toBe('not_found')
      const late = store.keys.update('h2', { name: 'late' }, buildAuditEntry())
      expect(await readErrorType(late)).toBe('not_found')
      expect(await countAudit(store)).toBe(before)
      expect([...(await store.keys.all())]).toEqual([
        buildKey({ hash: 'h1', name: 'new', limit: null }),
      ])
    })

    test('a preset is read as inserted, to the last field', async () => {
      const presets = [buildPreset('p1'), buildPreset('p2', `'; drop table presets; --`)]
      for (const preset of presets)
        await store.presets.insert(preset, buildAuditEntry(), PRESET_QUOTA)
      expect((await store.presets.all()).sort((a, b) => (a.id < b.id ? -1 : 1))).toEqual(presets)
    })

    test('a new version of a preset becomes the designated one, and older ones stay', async () => {
      const [first, second] = [
        buildPreset('p1', 'a', 1).designated_version,
        buildPreset('p1', 'a', 2).designated_version,
      ]
      await store.presets.insert(buildPreset('p1', 'a'), buildAuditEntry(), PRESET_QUOTA)
      await store.presets.insert(buildPreset('p2', 'b'), buildAuditEntry(), PRESET_QUOTA)
      await store.presets.designate(
        { ...second, config: {}, system_prompt: null },
        'later',
        buildAuditEntry(),
        PRESET_QUOTA,
      )
      const later = {
        ...buildPreset('p1', 'a', 2),
        updated_at: 'later',
        designated_version: { ...second, config: {}, system_prompt: null },
      }
      expect((await store.presets.all()).find(one => one.id === 'p1')).toEqual(later)
      expect(await store.presets.listVersions('p1', 0, 10)).toEqual([
        first,
        later.designated_version,
      ])
      expect(await store.presets.listVersions('p1', 1, 1)).toEqual([later.designated_version])
      expect(await store.presets.findVersion('p1', 1)).toEqual(first)
      expect(await store.presets.findVersion('p1', 3)).toBeUndefined()
    })

    test('a second preset with the same slug is a conflict, and not stored at all', async () => {
      await store.presets.insert(buildPreset('p1', 'a'), buildAuditEntry(), PRESET_QUOTA)
      expect(
        await readErrorType(
          store.presets.insert(buildPreset('p2', 'a'), buildAuditEntry(), PRESET_QUOTA),
        ),
      ).toBe('conflict')
      expect(await store.presets.all()).toEqual([buildPreset('p1', 'a')])
      expect(await store.presets.listVersions('p2', 0, 10)).toEqual([])
    })

    test('a second version with the same number is a conflict, and changes nothing', async () => {
      await store.presets.insert(buildPreset('p1', 'a'), buildAuditEntry(), PRESET_QUOTA)
      const again = { ...buildPreset('p1', 'a').designated_version, id: 'other' }
      expect(
        await readErrorType(
          store.presets.designate(again, 'later', buildAuditEntry(), PRESET_QUOTA),
        ),
      ).toBe('conflict')
      expect(await store.presets.all()).toEqual([buildPreset('p1', 'a')])
    })

    test('presets stay within the bounds of their workspace, and nothing is stored above', async () => {
      const [first, second] = [buildPreset('p1', 'a'), buildPreset('p2', 'b')]
      const bytes = computeVersionBytes(first.designated_version)
      const quota = { ...PRESET_QUOTA, presets: 2, bytes: 2 * bytes }
      const versionOf = (version: number) => buildPreset('p1', 'a', version).designated_version
      const insert = (preset: DesignatedPreset, most = quota) =>
        readErrorType(store.presets.insert(preset, buildAuditEntry(), most))
      const designate = (version: number, most = quota) =>
        readErrorType(store.presets.designate(versionOf(version), 'later', buildAuditEntry(), most))
      expect(await insert(first)).toBeUndefined()
      expect(await insert(second, { ...quota, presets: 1 })).toBe('permission_denied')
      expect(await designate(2, { ...quota, bytes: 2 * bytes - 1 })).toBe('permission_denied')
      expect(await designate(2)).toBeUndefined()
      expect(await designate(3)).toBe('permission_denied')
      expect(await insert(second)).toBe('permission_denied')
      expect(await insert(second, { ...quota, bytes: 3 * bytes })).toBeUndefined()
      expect(await store.presets.listVersions('p1', 0, 10)).toHaveLength(2)
    })

    test('an update affects one preset, and its version stays', async () => {
      for (const id of ['p1', 'p2'])
        await store.presets.insert(buildPreset(id), buildAuditEntry(), PRESET_QUOTA)
      await store.presets.update(
        'p2',
        { status: 'archived', status_updated_at: 'later' },
        buildAuditEntry(),
      )
      const changed = { ...buildPreset('p2'), status: 'archived', status_updated_at: 'later' }
      expect(
        (await store.presets.all()).sort((a, b) => (a.id < b.id ? -1 : 1)) as unknown[],
      ).toEqual([buildPreset('p1'), changed])
    })

    test('an integer in a preset that JavaScript would round is kept exactly', async () => {
      const preset = buildPreset()
      preset.designated_version.config = {
        audio: {
          id: (JSON as unknown as { rawJSON(text: string): unknown }).rawJSON('900719925474099312'),
        },
      }
      await store.presets.insert(preset, buildAuditEntry(), PRESET_QUOTA)
      expect(JSON.stringify((await store.presets.all())[0]?.designated_version.config)).toBe(
        '{"audio":{"id":900719925474099312}}',
      )
    })

    test('a SCIM user, group and mapping are read as inserted, to the last field', async () => {
      const { users, groups, mappings, tokens, jobs } = store.scim
      const member: Member = {
        ...{ id: 'user_2', email: 'ada@acme.example', first_name: 'Ada', last_name: null },
        ...{ role: 'org:member', active: true, created_at: CREATED, updated_at: null },
      }
      const times = { version: 1, created_at: CREATED, updated_at: CREATED }
      const resource = {
        userName: 'Ada “𝄞”',
        externalId: 'x',
        active: true,
        name: { givenName: `'; drop table scim_users; --` },
      }
      const user = { id: 'u1', user_id: 'user_2', resource, ...times }
      await users.insert(member.email, found => {
        expect(found).toEqual([])
        return {
          user,
          member: { before: null, after: member, keys: null, entries: [buildAuditEntry()] },
        }
      })
      for (const known of [
        { by: 'id', value: 'u1' },
        { by: 'name', value: 'ada “𝄞”' },
        { by: 'externalId', value: 'x' },
        undefined,
      ] as const)
        expect(await users.find(known)).toEqual([user])
      expect(await users.find({ by: 'name', value: 'Ada “𝄞”' })).toEqual([])
      const group = { id: 'g1', display_name: 'E', external_id: null, ...times }
      await groups.insert(group, ['u1'], buildAuditEntry())
      expect([await groups.byId('g1'), await groups.listPage(0, 1), await groups.count()]).toEqual([
        group,
        [group],
        1,
      ])
      expect(await groups.listMembers(['g1', 'g2'])).toEqual([
        { group_id: 'g1', scim_user_id: 'u1', resource },
      ])
      expect(await users.listGroups(['u1'])).toEqual([
        { scim_user_id: 'u1', group_id: 'g1', display_name: 'E' },
      ])
      const mapping = {
        id: 'm1',
        scim_group_id: 'g1',
        workspace_id: WORKSPACE,
        role: 'admin' as const,
        created_at: CREATED,
        updated_at: CREATED,
      }
      const place: WorkspaceMember = {
        id: 'p1',
        workspace_id: WORKSPACE,
        user_id: 'user_2',
        role: 'admin',
        created_at: CREATED,
        source: 'scim',
      }
      const move = (difference: MembershipDifference) => {
        expect(difference).toEqual({
          workspace_id: WORKSPACE,
          user_id: 'user_2',
          granted: 'admin',
          current: null,
        })
        return { after: place, entry: buildAuditEntry() }
      }
      await mappings.insert(mapping, () => ({ mapping, entry: buildAuditEntry() }), move)
      expect([
        await mappings.byId('m1'),
        await mappings.listPage(0, 9),
        await mappings.count(),
      ]).toEqual([mapping, [mapping], 1])
      expect(await store.members.findWorkspaceMember(WORKSPACE, 'user_2')).toEqual(place)
      const token = {
        id: 't1',
        name: 'a',
        label: 'b',
        hash: 'c',
        created_by: 'd',
        created_at: CREATED,
      }
      await tokens.insert(token, buildAuditEntry())
      expect([await tokens.byHash('c'), await tokens.byHash('C'), await tokens.all()]).toEqual([
        token,
        undefined,
        [token],
      ])
      const counts = {
        synced_groups: null,
        deleted_groups: 0,
        error_message: null,
        started_at: null,
        finished_at: null,
      }
      await jobs.insert(
        { id: 'j1', status: 'queued', created_at: CREATED, ...counts },
        buildAuditEntry(),
      )
      await jobs.update('j1', { status: 'succeeded', synced_groups: 3 })
      await jobs.update('j1', { status: 'failed' })
      expect(await jobs.byId('j1')).toEqual({
        id: 'j1',
        status: 'succeeded',
        created_at: CREATED,
        ...counts,
        synced_groups: 3,
      })
      expect(await jobs.listWorkspaces()).toEqual([WORKSPACE])
    })

    test('a generation is read as recorded, to the last field', async () => {
      const whole = buildGeneration({ id: 'gen-1' })
      const bare = buildGeneration({
        id: 'gen-2',
        key_hash: null,
        provider_name: null,
        provider_responses: [],
        latency: null,
        total_cost: null,
        cancelled: true,
      })
      await store.generations.record([
        { generation: whole, charge: null },
        { generation: bare, charge: null },
      ])
      expect(await store.generations.byId('gen-1')).toEqual(whole)
      expect(await store.generations.byId('gen-2')).toEqual(bare)
      expect(await store.generations.byId('gen-3')).toBeUndefined()
    })

    test('the newest generations come first', async () => {
      for (let i = 0; i < 5; i++) await store.generations.record([buildRecordEntry(`gen-${i}`)])
      expect((await store.generations.list({}, 3)).map(one => one.id)).toEqual([
        'gen-4',
        'gen-3',
        'gen-2',
      ])
    })

    test('ids of generations are found by their beginning, which is no pattern', async () => {
      for (const id of ['gen-1', 'gen-10', 'gen_1', 'gen-2', 'gen-1é'])
        await store.generations.record([buildRecordEntry(id)])
      expect(await store.generations.listIds('gen-1', 9)).toEqual(['gen-1', 'gen-10', 'gen-1é'])
      expect(await store.generations.listIds('gen-1', 2)).toHaveLength(2)
      expect(await store.generations.listIds('gen_', 9)).toEqual(['gen_1'])
      expect(await store.generations.listIds('%', 9)).toEqual([])
    })

    test('those of many ids that have a record are found at once', async () => {
      for (const id of ['gen-1', 'gen-2']) await store.generations.record([buildRecordEntry(id)])
      const ids = Array.from({ length: 40_000 }, (_, i) => `gen-${i + 2}`)
      expect(await store.generations.filterRecorded(ids)).toEqual(new Set(['gen-2']))
      expect(await store.generations.filterRecorded([])).toEqual(new Set())
    })

    test('generations are found by what they have, page by page', async () => {
      const calls: Partial<Generation>[] = [
        { id: 'a', request_id: 'mine', key_hash: 'k1', model: 'acme/one', session_id: null },
        {
          id: 'b',
          provider_name: 'Other',
          error_type: 'timeout',
          created_at: '2026-03-05T00:00:00.000Z',
        },
        { id: 'c', cancelled: true, error_type: 'unmapped', http_referer: null, title: 'App' },
        { id: 'd', key_hash: 'k1', error_type: 'rate_limit_exceeded', session_id: 's-9' },
      ]
      for (const call of calls)
        await store.generations.record([{ generation: buildGeneration(call), charge: null }])
      const find = async (query: GenerationListQuery, limit = 9) =>
        (await store.generations.list(query, limit)).map(one => one.id).join('')
      const found: [GenerationListQuery, string][] = [
        [{ id: 'mine' }, 'a'],
        [{ id: 'b' }, 'b'],
        [{ key_hash: 'k1' }, 'da'],
        [{ model: 'acme/one' }, 'a'],
        [{ provider: 'other' }, 'b'],
        [{ status: 'ok' }, 'a'],
        [{ status: '200' }, 'a'],
        [{ status: 'error' }, 'db'],
        [{ status: '524' }, 'b'],
        [{ status: 'timeout' }, 'b'],
        [{ status: '429' }, 'd'],
        [{ status: '418' }, ''],
        [{ status: 'cancelled' }, 'c'],
        [{ since: '2026-03-05T00:00:00.001Z' }, ''],
        [{ since: '2026-03-05T00:00:00.000Z' }, 'b'],
        [{ until: '2026-03-05T00:00:00.000Z' }, 'dca'],
        [{ app: 'App' }, 'c'],
        [{ session_id: 's-9' }, 'd'],
        [{ cursor: 'c' }, 'ba'],
        [{ cursor: 'c', key_hash: 'k1' }, 'a'],
        [{ cursor: 'none' }, ''],
      ]
      for (const [query, ids] of found) expect([query, await find(query)]).toEqual([query, ids])
      expect(await find({ cursor: 'd' }, 2)).toBe('cb')
    })

    test('calls of free models are counted by the time at which they began', async () => {
      const midnight = new Date('2026-03-04T00:00:00.000Z')
      const [late, early, noon] = [
        '2026-03-03T23:59:59.999Z',
        '2026-03-04T00:00:00.000Z',
        '2026-03-04T12:00:00.000Z',
      ]
      const model = 'acme/tiny:free'
      const calls = [
        { id: 'yesterday', model, created_at: late, settled_at: late },
        { id: 'first', model, created_at: early, settled_at: early },
        { id: 'over midnight', model, created_at: late, settled_at: noon },
        { id: 'paid', model: 'acme/tiny:freed', created_at: noon, settled_at: noon },
        { id: 'second', model, created_at: noon, settled_at: noon },
        {
          id: 'chosen',
          model: 'acme/tiny',
          router: 'gateway/free:floor',
          created_at: noon,
          settled_at: noon,
        },
        {
          id: 'chosen otherwise',
          model: 'acme/tiny',
          router: 'gateway/auto',
          created_at: noon,
          settled_at: noon,
        },
      ]
      expect(await store.generations.countFreeCalls(midnight)).toBe(0)
      for (const call of calls)
        await store.generations.record([{ generation: buildGeneration(call), charge: null }])
      expect(await store.generations.countFreeCalls(midnight)).toBe(3)
      expect(await store.generations.countFreeCalls(new Date('2026-03-03T00:00:00.000Z'))).toBe(5)
      expect(await store.generations.countFreeCalls(new Date('2026-03-05T00:00:00.000Z'))).toBe(0)
    })

    test('charges add up by key, day and owner of the provider key', async () => {
      await store.generations.record([
        buildRecordEntry('a', { nanos: 1n }),
        buildRecordEntry('b', { nanos: 2n }),
        buildRecordEntry('c', { nanos: 4n, day: 20_517 }),
      ])
      await store.generations.record([
        buildRecordEntry('d', { nanos: 8n }),
        buildRecordEntry('e', { nanos: 16n, byok: true }),
        buildRecordEntry('f', { nanos: 32n, key_hash: 'x' }),
      ])
      const sorted = <T extends { nanos: bigint }>(rows: T[]) =>
        rows.sort((a, b) => Number(a.nanos - b.nanos))
      expect(sorted(await store.ledger.listDays(0))).toEqual([
        { ...PAYER, day: 20_517, byok: false, nanos: 4n },
        { ...PAYER, day: 20_516, byok: false, nanos: 11n },
        { ...PAYER, day: 20_516, byok: true, nanos: 16n },
        { ...PAYER, key_hash: 'x', day: 20_516, byok: false, nanos: 32n },
      ])
      expect(sorted(await store.ledger.listTotals())).toEqual([
        { ...PAYER, byok: false, nanos: 15n },
        { ...PAYER, byok: true, nanos: 16n },
        { ...PAYER, key_hash: 'x', byok: false, nanos: 32n },
      ])
      expect(sorted(await store.ledger.listDays(20_517))).toEqual([
        { ...PAYER, day: 20_517, byok: false, nanos: 4n },
      ])
    })

    test('a batch is recorded completely or not at all', async () => {
      await store.generations.record([buildRecordEntry('a', { nanos: 1n })])
      const batch = [buildRecordEntry('b', { nanos: 2n }), buildRecordEntry('a', { nanos: 4n })]
      expect(await readErrorType(store.generations.record(batch))).toBe('conflict')
      expect(await store.generations.byId('b')).toBeUndefined()
      expect((await store.ledger.listTotals()).map(one => one.nanos)).toEqual([1n])
    })

    const refusalOf = (generation: Generation) =>
      readErrorType(store.generations.record([{ generation, charge: null }]))

    test('a generation that is already recorded is a conflict', async () => {
      expect(await refusalOf(buildGeneration({ id: 'a' }))).toBeUndefined()
      expect(await refusalOf(buildGeneration({ id: 'a' }))).toBe('conflict')
    })

    test('a generation that does not fit the columns is a conflict too', async () => {
      expect(await refusalOf(buildGeneration({ finish_reason: Object as never }))).toBe('conflict')
    })

    test('an audit entry is read as inserted, money in dollars, newest first', async () => {
      const first = buildAuditEntry({
        before: null,
        after: { limit: 1_500_000_000n, list: ['“𝄞”'], is: true },
        workspace_id: WORKSPACE,
        key_hash: 'h',
      })
      const second = buildAuditEntry({
        created_at: '2026-03-04T05:06:06.000Z',
        before: { a: null },
        after: null,
      })
      await store.keys.insert(buildKey(), first)
      await store.keys.remove('h1', second)
      const shown = { ...first, after: { limit: 1.5, list: ['“𝄞”'], is: true } }
      expect(await store.audit.listPage({}, 0, 10)).toEqual({ entries: [second, shown], total: 2 })
      expect(await store.audit.listPage({}, 1, 1)).toEqual({ entries: [shown], total: 2 })
      expect(await store.audit.listPage({ workspace_id: WORKSPACE, key_hash: 'h' }, 0, 10)).toEqual(
        {
          entries: [shown],
          total: 1,
        },
      )
      expect(await store.audit.listPage({ workspace_id: WORKSPACE, key_hash: 'x' }, 0, 10)).toEqual(
        {
          entries: [],
          total: 0,
        },
      )
      const between = { since: '2026-03-04T05:06:06.000Z', until: '2026-03-04T05:06:07.000Z' }
      expect(await store.audit.listPage(between, 0, 10)).toEqual({ entries: [second], total: 1 })
    })

    test('a change that requires a version of its resource is made of that alone', async () => {
      const version = (id: string) => `W/"${id}"`
      const first = buildAuditEntry({ ifMatch: version('0') })
      expect(await store.audit.readVersion(first.resource_id)).toBe('0')
      await store.keys.insert(buildKey(), first)
      expect(await store.audit.readVersion(first.resource_id)).toBe(first.id)
      const change = (ifMatch: string, name: string) =>
        store.keys.update('h1', { name }, buildAuditEntry({ ifMatch }))
      expect(await readErrorType(change(version('0'), 'late'))).toBe('precondition_failed')
      const changes = ['a', 'b', 'c'].map(name => change(version(first.id), name))
      const ends = (await Promise.allSettled(changes)).map(({ status }) => status)
      expect(ends.toSorted()).toEqual(['fulfilled', 'rejected', 'rejected'])
      const [key] = [...(await store.keys.all())]
      expect(key?.name).toBe(['a', 'b', 'c'][ends.indexOf('fulfilled')] ?? '')
    })

    test('a change whose audit entry already exists is not made', async () => {
      const entry = buildAuditEntry()
      await store.keys.insert(buildKey(), entry)
      expect(await readErrorType(store.keys.insert(buildKey({ hash: 'h2' }), entry))).toBe(
        'conflict',
      )
      expect([...(await store.keys.all())]).toEqual([buildKey()])
    })

    test('credits are read as inserted, newest first, and add up to the nano-dollar', async () => {
      const created_at = '2026-03-04T05:06:07.000Z'
      const paid = {
        id: 'c1',
        created_at,
        amount: 1_000_000_000_000_000_001n,
        note: 'it’s “𝄞”',
        user_id: 'user_1',
      }
      const taken = { id: 'c2', created_at, amount: -2n, note: null, user_id: 'user_1' }
      expect([await store.credits.computeTotal(), await store.credits.listPage(0, 10)]).toEqual([
        0n,
        { credits: [], count: 0 },
      ])
      for (const credit of [paid, taken]) await store.credits.insert(credit, buildAuditEntry())
      expect(await store.credits.computeTotal()).toBe(999_999_999_999_999_999n)
      expect(await store.credits.listPage(0, 10)).toEqual({ credits: [taken, paid], count: 2 })
      expect(await store.credits.listPage(1, 1)).toEqual({ credits: [paid], count: 2 })
      expect(await readErrorType(store.credits.insert(paid, buildAuditEntry()))).toBe('conflict')
    })

    test('a text that contains SQL stays a text', async () => {
      const name = `'; drop table keys; --`
      await store.keys.insert(buildKey({ name, hash: name }), buildAuditEntry())
      const removed = store.keys.remove(`x' or '1'='1`, buildAuditEntry())
      expect(await readErrorType(removed)).toBe('not_found')
      expect([...(await store.keys.all())][0]?.name).toBe(name)
    })

    test('its version does not change while only this process writes', async () => {
      const before = await store.version()
      await store.keys.insert(buildKey(), buildAuditEntry())
      expect(await store.version()).toBe(before)
    })

    test('a closed store refuses all calls, and can be closed again', async () => {
      const other = await open()
      await other.close()
      const asked = [
        other.keys.all(),
        other.version(),
        other.generations.record([]),
        other.ledger.readHead(),
      ]
      const answers = await Promise.allSettled(asked)
      expect(answers.map(({ status }) => status)).toEqual(Array(4).fill('rejected'))
      await other.close()
    })

    const opened = () => store
    testWorkspaces(opened)
    testMembers(opened)
    testBudgets(opened)
    testFiles(opened)
    testTranscripts(opened)
    testContainers(opened)
    testBatches(opened)
    testResponses(opened)
    testVideos(opened)
    testScim(opened)
    testLedger(opened)
    testOutbox(opened)
    testRollups(opened)
    testDestinations(opened)
    testAlerts(opened)
    testMcpLogins(opened)
    testSignIns(opened)
  })
}
