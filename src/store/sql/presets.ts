import { type Kysely, sql } from 'kysely'
import { parseObject } from '../../base/json.ts'
import type { Seal } from '../../base/seal.ts'
import {
  BYTES_PER_VERSION,
  checkPresetQuota,
  computeVersionBytes,
  type PresetUse,
} from '../../resources/presets/quota.ts'
import type {
  DesignatedPreset,
  PresetQuota,
  PresetStore,
  PresetVersion,
} from '../../resources/presets/store.ts'
import { buildAuditInsert } from './audit.ts'
import { openVersion, sealVersion } from './presets/sealing.ts'
import type { Tables } from './tables.ts'
import { checkWorkspaceReference } from './workspaces.ts'
import { check, type Write } from './write.ts'

/** Creates the store of presets in SQL. Credentials in them are sealed. */
export function createPresetStore(
  kysely: Kysely<Tables>,
  write: Write,
  seal: () => Seal,
): PresetStore {
  const insertVersion = (version: PresetVersion) =>
    buildVersionInsert(kysely, sealVersion(version, seal))
  const openRow = (row: Tables['preset_versions']) => openVersion(toVersion(row), seal)
  return {
    async all(names) {
      const rows = selectDesignated(kysely)
      // A name begins with the workspace.
      const workspaces = names?.map(name => name.split('/')[0] ?? '')
      const some = workspaces ? rows.where('presets.workspace_id', 'in', workspaces) : rows
      return (await some.execute()).map(row => {
        const preset = toDesignatedPreset(row)
        return { ...preset, designated_version: openVersion(preset.designated_version, seal) }
      })
    },
    insert({ designated_version, ...preset }, entry, quota) {
      const insert = kysely.insertInto('presets').values(preset)
      return write(
        checkWorkspaceReference(kysely, preset.workspace_id),
        checkQuota(kysely, quota, { presets: 1, bytes: computeVersionBytes(designated_version) }),
        insert,
        insertVersion(designated_version),
        buildAuditInsert(kysely, entry),
      )
    },
    designate(version, updated_at, entry, quota) {
      const change = { designated_version_id: version.id, updated_at }
      const update = kysely.updateTable('presets').set(change).where('id', '=', version.preset_id)
      return write(
        checkQuota(kysely, quota, { presets: 0, bytes: computeVersionBytes(version) }),
        insertVersion(version),
        update,
        buildAuditInsert(kysely, entry),
      )
    },
    update: (id, change, entry) =>
      write(
        kysely.updateTable('presets').set(change).where('id', '=', id),
        buildAuditInsert(kysely, entry),
      ),
    async listVersions(preset_id, offset, limit) {
      const query = kysely
        .selectFrom('preset_versions')
        .selectAll()
        .where('preset_id', '=', preset_id)
      return (await query.orderBy('version').offset(offset).limit(limit).execute()).map(openRow)
    },
    async findVersion(preset_id, version) {
      const query = kysely
        .selectFrom('preset_versions')
        .selectAll()
        .where('preset_id', '=', preset_id)
      const row = await query.where('version', '=', version).executeTakeFirst()
      return row && openRow(row)
    },
  }
}

// The lengths stand in the rows’ headers: no content is read.
const checkQuota = (kysely: Kysely<Tables>, quota: PresetQuota, added: PresetUse) =>
  check(selectUse(kysely, quota.workspace_id), ([used]) =>
    checkPresetQuota(quota, used ?? { presets: 0, bytes: 0 }, added),
  )

const selectUse = (kysely: Kysely<Tables>, workspace_id: string) =>
  kysely
    .selectFrom('presets')
    .innerJoin('preset_versions as version', 'version.preset_id', 'presets.id')
    .where('presets.workspace_id', '=', workspace_id)
    .select([
      sql<number>`count(distinct presets.id)`.as('presets'),
      sql<number>`coalesce(sum(${BYTES_PER_VERSION} + octet_length(version.config)
        + coalesce(octet_length(version.system_prompt), 0)), 0)`.as('bytes'),
    ])

// One statement, so that no other process can designate another version in between.
const selectDesignated = (kysely: Kysely<Tables>) =>
  kysely
    .selectFrom('presets')
    .innerJoin('preset_versions as version', 'version.id', 'presets.designated_version_id')
    .selectAll('presets')
    .select(['version.version', 'version.creator_id', 'version.system_prompt', 'version.config'])
    .select([
      'version.created_at as version_created_at',
      'version.updated_at as version_updated_at',
    ])

type Row = Awaited<ReturnType<ReturnType<typeof selectDesignated>['execute']>>[number]

function toDesignatedPreset(row: Row): DesignatedPreset {
  const {
    version,
    creator_id,
    system_prompt,
    config,
    version_created_at,
    version_updated_at,
    ...preset
  } = row
  const { id: preset_id, designated_version_id: id } = preset
  const times = { created_at: version_created_at, updated_at: version_updated_at }
  return {
    ...preset,
    designated_version: toVersion({
      id,
      preset_id,
      version,
      creator_id,
      system_prompt,
      config,
      ...times,
    }),
  }
}

const buildVersionInsert = (kysely: Kysely<Tables>, version: PresetVersion) =>
  kysely
    .insertInto('preset_versions')
    .values({ ...version, config: JSON.stringify(version.config) })

const toVersion = (row: Tables['preset_versions']): PresetVersion => ({
  ...row,
  config: parseObject(row.config) ?? {},
})
