import { parseObject } from '../../../src/base/json.ts'
import {
  checkPresetQuota,
  computeVersionBytes,
  type PresetUse,
} from '../../../src/resources/presets/quota.ts'
import type {
  PresetQuota,
  PresetStore,
  PresetVersion,
} from '../../../src/resources/presets/store.ts'
import { addAudit } from './audit.ts'
import { mustBeLive } from './checks.ts'
import type { Connection, Memory } from './memory.ts'
import { changedConcurrently, compareByFields } from './table.ts'

/** Presets in memory. */
export const createMemoryPresetStore = (connection: Connection): PresetStore => ({
  all: () =>
    connection.read(({ presets, presetVersions }) =>
      presets.all().flatMap(preset => {
        const version = presetVersions.get(preset.designated_version_id)
        return version ? [{ ...preset, designated_version: toVersion(version) }] : []
      }),
    ),
  insert: ({ designated_version, ...preset }, entry, quota) =>
    connection.write(memory => {
      const { id, workspace_id, slug } = preset
      mustBeLive(memory, workspace_id)
      const isTaken = (one: typeof preset) => one.workspace_id === workspace_id && one.slug === slug
      if (memory.presets.all(isTaken).length > 0) throw changedConcurrently()
      checkUse(memory, quota, { presets: 1, bytes: computeVersionBytes(designated_version) })
      memory.presets.insert(id, preset)
      addVersion(memory, designated_version)
      addAudit(memory, entry)
    }),
  designate: (version, updated_at, entry, quota) =>
    connection.write(memory => {
      checkUse(memory, quota, { presets: 0, bytes: computeVersionBytes(version) })
      addVersion(memory, version)
      memory.presets.update(version.preset_id, { designated_version_id: version.id, updated_at })
      addAudit(memory, entry)
    }),
  update: (id, change, entry) =>
    connection.write(memory => {
      memory.presets.update(id, change)
      addAudit(memory, entry)
    }),
  listVersions: (preset_id, offset, limit) =>
    connection.read(({ presetVersions }) =>
      presetVersions
        .all(one => one.preset_id === preset_id)
        .sort(compareByFields('version'))
        .slice(offset, offset + limit)
        .map(toVersion),
    ),
  findVersion: (preset_id, version) =>
    connection.read(({ presetVersions }) => {
      const isMeant = (one: Row) => one.preset_id === preset_id && one.version === version
      const [row] = presetVersions.all(isMeant)
      return row && toVersion(row)
    }),
})

function checkUse({ presets, presetVersions }: Memory, quota: PresetQuota, added: PresetUse): void {
  const ids = new Set(
    presets.all(one => one.workspace_id === quota.workspace_id).map(({ id }) => id),
  )
  const versions = presetVersions.all(one => ids.has(one.preset_id)).map(toVersion)
  const bytes = versions.reduce((sum, version) => sum + computeVersionBytes(version), 0)
  checkPresetQuota(quota, { presets: ids.size, bytes }, added)
}

type Row = Omit<PresetVersion, 'config'> & { config: string }

function addVersion({ presets, presetVersions }: Memory, version: PresetVersion): void {
  const isSame = (one: Row) =>
    one.preset_id === version.preset_id && one.version === version.version
  if (!presets.has(version.preset_id) || presetVersions.all(isSame).length > 0)
    throw changedConcurrently()
  presetVersions.insert(version.id, { ...version, config: JSON.stringify(version.config) })
}

const toVersion = (row: Row): PresetVersion => ({ ...row, config: parseObject(row.config) ?? {} })
