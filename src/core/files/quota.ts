import type { Config } from '../config.ts'
import { denied } from '../errors.ts'

/** The largest file, in bytes (specification E10). */
export const LARGEST_FILE = 104_857_600

/** What the files of one workspace may take, in bytes. */
export interface FileQuota {
  workspace_id: string
  bytes: number
}

const MIB = 1024 * 1024

/** Returns what the files of a workspace may take by the config. */
export const buildFileQuota = ({ files }: Pick<Config, 'files'>, workspace_id: string) => ({
  workspace_id,
  bytes: files.quota_mib * MIB,
})

/** Throws 403, naming the setting, if files of `used` bytes and `added` more exceed the quota. */
export function checkFileQuota({ bytes }: FileQuota, used: number, added: number): void {
  if (used + added > bytes)
    throw denied(
      `The files of this workspace take ${toMib(used)} MiB: files.quota_mib allows ${toMib(bytes)}`,
    )
}

const toMib = (bytes: number): number => Math.round((bytes / MIB) * 10) / 10
