import type { AuditEntry } from '../../identity/audit.ts'
import type { Json } from '../../kernel/json.ts'

/** The ways in which a preset can stand. */
export const STATUSES = ['active', 'disabled', 'archived'] as const

/**
 * A configuration by name: how a workspace wants its calls answered (wire reference A.5 and I).
 * Times in ISO 8601.
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
  /** The version that calls are made with: the newest. */
  designated_version_id: string
  created_at: string
  updated_at: string
}

/** What a preset says, once and for all: a change is another version, counted from 1. */
export interface PresetVersion {
  id: string
  preset_id: string
  version: number
  creator_id: string
  system_prompt: string | null
  /** Fields of a chat request, whichever dialect they came in. */
  config: Json
  created_at: string
  updated_at: string
}

/** A preset with the version that is used. */
export interface DesignatedPreset extends Preset {
  designated_version: PresetVersion
}

/**
 * Remembers presets. A slug is unique in its workspace, a version's number in its preset: 409 for a
 * second one.
 */
export interface PresetStore {
  all(): Promise<DesignatedPreset[]>
  /** A new preset with its first version, both or neither. */
  insert(preset: DesignatedPreset, entry: AuditEntry): Promise<void>
  /** Another version, which is used from now on, both or neither. */
  designate(version: PresetVersion, updated_at: string, entry: AuditEntry): Promise<void>
  update(id: string, change: Partial<Preset>, entry: AuditEntry): Promise<void>
  /** Some of a preset's versions, the oldest first. */
  versions(preset_id: string, offset: number, limit: number): Promise<PresetVersion[]>
  version(preset_id: string, version: number): Promise<PresetVersion | undefined>
}
