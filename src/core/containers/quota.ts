import type { Config } from '../config.ts'
import { denied } from '../errors.ts'
import type { HomeQuota } from './store.ts'

const MIB = 1024 * 1024

/** Returns what the homes of a workspace’s containers may take by the config. */
export const buildHomeQuota = (
  { sandbox }: Pick<Config, 'sandbox'>,
  workspace_id: string,
): HomeQuota => ({ workspace_id, bytes: sandbox.quota_mib * MIB })

/** Throws 403, naming the setting, if homes that take `used` bytes exceed the quota. */
export function checkHomeQuota({ bytes }: HomeQuota, used: number): void {
  if (used > bytes)
    throw denied(
      `The containers of this workspace would take ${toMib(used)} MiB: ` +
        `sandbox.quota_mib allows ${toMib(bytes)}`,
    )
}

const toMib = (bytes: number): number => Math.round((bytes / MIB) * 10) / 10
