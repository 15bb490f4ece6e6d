import { denied } from '../../base/errors.ts'
import type { Config } from '../../config.ts'
import type { HomeQuota, HomeUse } from './store.ts'

const MIB = 1024 * 1024

/** Returns what the homes of a workspace’s containers may take by the config. */
export const buildHomeQuota = (
  { sandbox }: Pick<Config, 'sandbox'>,
  workspace_id: string,
): HomeQuota => ({
  workspace_id,
  bytes: sandbox.quota_mib * MIB,
  files: sandbox.quota_files,
})

/** Throws 403, naming the setting, if homes that take so much exceed the quota. */
export function checkHomeQuota(quota: HomeQuota, used: HomeUse): void {
  if (used.bytes > quota.bytes)
    throw denied(
      `The containers of this workspace would take ${toMib(used.bytes)} MiB: ` +
        `sandbox.quota_mib allows ${toMib(quota.bytes)}`,
    )
  if (used.files > quota.files)
    throw denied(
      `The containers of this workspace would have ${used.files} files: ` +
        `sandbox.quota_files allows ${quota.files}`,
    )
}

const toMib = (bytes: number): number => Math.round((bytes / MIB) * 10) / 10
