import type { Kysely } from 'kysely'
import type { DesignatedPreset, PresetStore, PresetVersion } from '../../catalog/presets/store.ts'
import { parseObject } from '../../kernel/json.ts'
import { auditInsert } from './audit.ts'
import type { Tables } from './tables.ts'
import { isLive } from './workspaces.ts'
import type { Write } from './write.ts'

/** Creates the store of presets in SQL. */
export function presetStore(kysely: Kysely<Tables>, write: Write): PresetStore {
  return {
    all: async () => (await designated(kysely).execute()).map(designatedOf),
    insert({ designated_version, ...preset }, entry) {
      const insert = kysely.insertInto('presets').values(preset)
      return write(
        isLive(kysely, preset.workspace_id),
        insert,
        versionInsert(kysely, designated_version),
        auditInsert(kysely, entry),
      )
    },
    designate(version, updated_at, entry) {
      const change = { designated_version_id: version.id, updated_at }
      const update = kysely.updateTable('presets').set(change).where('id', '=', version.preset_id)
      return write(versionInsert(kysely, version), update, auditInsert(kysely, entry))
    },
    update: (id, change, entry) =>
      write(
        kysely.updateTable('presets').set(change).where('id', '=', id),
        auditInsert(kysely, entry),
      ),
    async versions(preset_id, offset, limit) {
      const query = kysely
        .selectFrom('preset_versions')
        .selectAll()
        .where('preset_id', '=', preset_id)
      return (await query.orderBy('version').offset(offset).limit(limit).execute()).map(versionOf)
    },
    async version(preset_id, version) {
      const query = kysely
        .selectFrom('preset_versions')
        .selectAll()
        .where('preset_id', '=', preset_id)
      const row = await query.where('version', '=', version).executeTakeFirst()
      return row && versionOf(row)
    },
  }
}

// One statement, so that no other process can designate another version in between.
const designated = (kysely: Kysely<Tables>) =>
  kysely
    .selectFrom('presets')
    .innerJoin('preset_versions as version', 'version.id', 'presets.designated_version_id')
    .selectAll('presets')
    .select(['version.version', 'version.creator_id', 'version.system_prompt', 'version.config'])
    .select([
      'version.created_at as version_created_at',
      'version.updated_at as version_updated_at',
    ])

type Row = Awaited<ReturnType<ReturnType<typeof designated>['execute']>>[number]

function designatedOf(row: Row): DesignatedPreset {
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
    designated_version: versionOf({
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

const versionInsert = (kysely: Kysely<Tables>, version: PresetVersion) =>
  kysely
    .insertInto('preset_versions')
    .values({ ...version, config: JSON.stringify(version.config) })

const versionOf = (row: Tables['preset_versions']): PresetVersion => ({
  ...row,
  config: parseObject(row.config) ?? {},
})
