import type { Json } from '../../base/json.ts'
import type { AuditEntry } from '../audit/store.ts'

/** The statuses of a preset. */
export const STATUSES = ['active', 'disabled', 'archived'] as const

/**
 * A named configuration: how a workspace wants its calls answered (wire reference A.5 and I). Times
 * are ISO 8601.
 */
export interface Preset {
  id: string
  workspace_id: string
  slug: string
  name: string
  description: string | null
  status: (typeof STATUSES)[number]
  status_updated_at: string | null
  creator_user_id: string | null
  /** The version that calls use: the newest. */
  designated_version_id: string
  created_at: string
  updated_at: string
}

/** The immutable content of a preset. A change creates another version, counted from 1. */
export interface PresetVersion {
  id: string
  preset_id: string
  version: number
  creator_id: string
  system_prompt: string | null
  /** Fields of a chat request, whichever dialect they were written in. */
  config: Json
  created_at: string
  updated_at: string
}

/** A preset with its current version. */
export interface DesignatedPreset extends Preset {
  designated_version: PresetVersion
}

/**
 * Stores presets. A slug is unique in its workspace and a version's number in its preset: a second
 * one throws 409.
 */
export interface PresetStore {
  /** Lists all presets, or those that memory has under these names. */
  all(names?: string[]): Promise<DesignatedPreset[]>
  /**
   * Inserts a preset with its first version, both or neither. Throws what `checkPresetQuota` does.
   */
  insert(preset: DesignatedPreset, entry: AuditEntry, quota: PresetQuota): Promise<void>
  /**
   * Inserts a version and makes it the current one, both or neither. Throws what `checkPresetQuota`
   * does.
   */
  designate(
    version: PresetVersion,
    updated_at: string,
    entry: AuditEntry,
    quota: PresetQuota,
  ): Promise<void>
  update(id: string, change: Partial<Preset>, entry: AuditEntry): Promise<void>
  /** Returns one page of a preset's versions, oldest first. */
  listVersions(preset_id: string, offset: number, limit: number): Promise<PresetVersion[]>
  findVersion(preset_id: string, version: number): Promise<PresetVersion | undefined>
}

/** What the presets of one workspace may take. */
export interface PresetQuota {
  workspace_id: string
  presets: number
  bytes: number
}
