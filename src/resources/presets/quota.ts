import { denied } from '../../base/errors.ts'
import type { PresetQuota, PresetVersion } from './store.ts'

/** What they take, without the preset or version that is to be added. */
export type PresetUse = Omit<PresetQuota, 'workspace_id'>

/**
 * What a version takes beside its content: its row and its audit entry. Without it, small versions
 * would grow the store without end.
 */
export const BYTES_PER_VERSION = 1_024

/** Computes what a version takes. The store computes the same of those that it has. */
export const computeVersionBytes = ({
  system_prompt,
  config,
}: Pick<PresetVersion, 'system_prompt' | 'config'>): number =>
  BYTES_PER_VERSION +
  Buffer.byteLength(system_prompt ?? '') +
  Buffer.byteLength(JSON.stringify(config))

/** Throws 403, naming the setting, if the presets would take more with what is to be added. */
export function checkPresetQuota(quota: PresetQuota, used: PresetUse, added: PresetUse): void {
  if (used.presets + added.presets > quota.presets)
    throw denied(
      `This workspace has ${used.presets} presets: limits.presets allows ${quota.presets}`,
    )
  if (used.bytes + added.bytes > quota.bytes)
    throw denied(
      `The presets of this workspace take ${toMib(used.bytes)} MiB with all their versions: ` +
        `limits.presets_mib allows ${toMib(quota.bytes)}`,
    )
}

const MIB = 1024 * 1024

/** Returns what the presets of a workspace may take by these settings. */
export const buildPresetQuota = (
  { limits }: { limits: { presets: number; presets_mib: number } },
  workspace_id: string,
): PresetQuota => ({ workspace_id, presets: limits.presets, bytes: limits.presets_mib * MIB })

const toMib = (bytes: number): number => Math.round((bytes / MIB) * 10) / 10
