import { denied } from '../../base/errors.ts'
import type { Config } from '../../config.ts'

/** The largest file, in bytes (specification E10). */
export const LARGEST_FILE = 104_857_600

/** What the files of one workspace may take: bytes, and entries of the disk. */
export interface FileQuota {
  workspace_id: string
  bytes: number
  files: number
}

/** What the files of a workspace take. */
export type FileUse = Pick<FileQuota, 'bytes' | 'files'>

const MIB = 1024 * 1024

/** Returns what the files of a workspace may take by the config. */
export const buildFileQuota = ({ files }: Pick<Config, 'files'>, workspace_id: string) => ({
  workspace_id,
  bytes: files.quota_mib * MIB,
  files: files.quota_files,
})

/** Throws 403, naming the setting, if one more file of `added` bytes exceeds the quota. */
export function checkFileQuota(quota: FileQuota, used: FileUse, added: number): void {
  if (used.bytes + added > quota.bytes)
    throw denied(
      `The files of this workspace take ${toMib(used.bytes)} MiB: ` +
        `files.quota_mib allows ${toMib(quota.bytes)}`,
    )
  if (used.files + 1 > quota.files)
    throw denied(`This workspace has ${used.files} files: files.quota_files allows ${quota.files}`)
}

const toMib = (bytes: number): number => Math.round((bytes / MIB) * 10) / 10
