import type { AuditEntry } from '../audit/store.ts'
import type { FileQuota, FileUse } from './quota.ts'

/** The record of a file; its bytes are a blob. Times are ISO 8601. */
export interface StoredFile {
  /** `or_file_` and 32 hexadecimal digits that sort by creation. */
  id: string
  workspace_id: string
  /** A text for people. It is part of no path. */
  filename: string
  /** Detected from the contents. */
  mime_type: string
  size_bytes: number
  /** Of its bytes, in hexadecimal digits; null where an earlier version has written them. */
  sha256: string | null
  /** False for uploads: only what the gateway itself has written is handed out again. */
  downloadable: boolean
  /** What an OpenAI client said it is for. */
  purpose: string | null
  created_at: string
  /** When it goes by itself; null if it stays. */
  expires_at: string | null
}

/** Which files of a workspace are listed: those beyond an id, in an order of creation. */
interface FileRange {
  workspace_id: string
  /** In ISO 8601: only files whose time is not over then. */
  now: string
  order: 'asc' | 'desc'
  /** Only files that follow this one in the order, whether or not it still exists. */
  after?: string | undefined
  /** Only files of this purpose. Those that were uploaded for none are `user_data`. */
  purpose?: string | undefined
  limit: number
}

/** The file of a container that a file is a copy of, as it was. */
export interface CopySource {
  container_id: string
  path: string
  blob: string
}

/** Stores the records of files. A change and its audit entry are one transaction. */
export interface FileStore {
  /**
   * Inserts a file, and notes it as the copy of its source, unless that has changed since. Throws
   * 400 where the workspace no longer exists, and 403 where its files would take more than the
   * quota.
   */
  insert(
    file: StoredFile,
    quota: FileQuota,
    entry: AuditEntry,
    source?: CopySource | undefined,
  ): Promise<void>
  /** Returns a file; undefined if there is none. */
  find(id: string): Promise<StoredFile | undefined>
  listRange(range: FileRange): Promise<StoredFile[]>
  /** Computes what all files of a workspace take. */
  computeUse(workspace_id: string): Promise<FileUse>
  /**
   * Removes a file. Throws 404 if another request has just removed it. The entry is null for what
   * goes by itself.
   */
  remove(id: string, entry: AuditEntry | null): Promise<void>
  /** Lists at most `limit` files whose time was over at a time. */
  listExpired(time: string, limit: number): Promise<StoredFile[]>
  /** Lists every file, for checks. */
  all(): Promise<StoredFile[]>
  /** Lists the workspaces that were deleted. */
  listDeletedWorkspaces(): Promise<string[]>
}
