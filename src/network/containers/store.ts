import type { AuditEntry } from '../../resources/audit/store.ts'

/** A home that commands run in. Times are ISO 8601. */
export interface Container {
  /** 32 hexadecimal digits. Paths on disk are made of nothing else. */
  id: string
  workspace_id: string
  /** The id that callers know it by: `sess_…`, `gen_…` or one of their own. */
  name: string
  created_at: string
  last_used_at: string
  /** When it was ended; null while it can be used. Its name stays taken. */
  ended_at: string | null
}

/** A file of a container’s home as it was after the last command. Its bytes are a blob. */
export interface ContainerFile {
  container_id: string
  /** Its path from the home: a text for people. It is part of no path of the host. */
  path: string
  size_bytes: number
  /** Of its bytes, in hexadecimal digits; null where an earlier version has written them. */
  sha256: string | null
  /** The permissions, as of Unix. */
  mode: number
  /** The name of the blob. A file that changes gets another. */
  blob: string
  /** The file of the workspace that was made of it; null if none was. */
  promoted_id: string | null
  created_at: string
}

/** Which files of a container are listed: those behind a path, in the order of their bytes. */
interface ContainerFileRange {
  container_id: string
  after?: string | undefined
  limit: number
}

/** What has changed in a home. */
interface HomeChange {
  container_id: string
  /** Files that are new or replace those of the same path. */
  put: ContainerFile[]
  /** Paths that are gone. */
  removed: string[]
  last_used_at: string
}

/** What homes take: entries, and the bytes of the blocks on disk that hold them. */
export interface HomeUse {
  files: number
  bytes: number
}

/** What the homes of one workspace may take. */
export interface HomeQuota extends HomeUse {
  workspace_id: string
}

/** Stores containers and the records of their files. */
export interface ContainerStore {
  /** Inserts a container. Throws 400 where the workspace no longer exists, 409 for a taken name. */
  insert(container: Container): Promise<void>
  /** Returns a container by its name; undefined if there is none. */
  find(workspace_id: string, name: string): Promise<Container | undefined>
  /** Returns the newest container that can be used of those that followed one of this name. */
  findSuccessor(workspace_id: string, name: string): Promise<Container | undefined>
  /** Lists all containers that can be used, oldest use first; of one workspace if it is named. */
  listUsable(workspace_id?: string): Promise<(Container & { files: number; bytes: number })[]>
  /**
   * Changes the files of a home, all or none. Throws 404 for a container that was ended, and 403
   * where the homes of the workspace would take more than the quota.
   */
  changeFiles(change: HomeChange, quota: HomeQuota): Promise<void>
  listFiles(range: ContainerFileRange): Promise<ContainerFile[]>
  findFile(container_id: string, path: string): Promise<ContainerFile | undefined>
  /**
   * Ends a container and forgets its files. Without a time its name can be used again. Throws 404
   * if that was done before. The entry is null for what ends by itself.
   */
  end(container_id: string, ended_at: string | null, entry: AuditEntry | null): Promise<void>
  /** Tells whether a file of a workspace’s containers has its bytes in this blob. */
  hasBlob(workspace_id: string, blob: string): Promise<boolean>
}
