import { denied } from '../../base/errors.ts'
import type { Config } from '../../config.ts'

/** The largest file, in bytes (specification E10). */
export const LARGEST_FILE = 104_857_600

/** In bytes: a disk gives a file whole blocks, and one for its entry. */
export const BLOCK = 4096

/** Returns what a file of so many bytes takes on a disk. */
export const countBlocks = (size: number): number => Math.max(1, Math.ceil(size / BLOCK)) * BLOCK

/** What the files of one workspace may take: bytes of whole blocks, and entries of the disk. */
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
  if (used.bytes + countBlocks(added) > quota.bytes)
    throw denied(
      `The files of this workspace take ${toMib(used.bytes)} MiB: ` +
        `files.quota_mib allows ${toMib(quota.bytes)}`,
    )
  if (used.files + 1 > quota.files)
    throw denied(`This workspace has ${used.files} files: files.quota_files allows ${quota.files}`)
}

/**
 * Throws 403, naming the setting, if what is being written at once would exceed the quota by more
 * than one file: the others are sure to be refused at their end.
 */
export function checkDraftQuota(quota: FileQuota, used: FileUse, drafts: number): void {
  if (used.bytes + drafts > quota.bytes + LARGEST_FILE)
    throw denied(
      `The uploads of this workspace that run take ${toMib(drafts)} MiB beside its files: ` +
        `files.quota_mib allows ${toMib(quota.bytes)}`,
    )
}

const toMib = (bytes: number): number => Math.round((bytes / MIB) * 10) / 10
