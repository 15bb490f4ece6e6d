import type { AuditEntry } from '../../resources/audit/store.ts'
import type { AlertCause, AlertWindow } from './schema.ts'

/** What a workspace wants to be told of, and by whom. Times are ISO 8601. */
export interface Alert {
  id: string
  workspace_id: string
  name: string
  cause: AlertCause
  /** From the least severe to the most; empty for a cause that either is or is not. */
  thresholds: number[]
  /** The window in which each threshold is told once; null where the cause has windows of its own. */
  window: AlertWindow | null
  /** What it looks at alone: null means all that its workspace has. */
  key_hash: string | null
  provider: string | null
  destination_id: string | null
  /** Its receiver as JSON, sealed for this id. */
  sealed: string
  disabled: boolean
  created_at: string
  updated_at: string
}

/** How far a notice is. It is due until it is delivered or given up. */
export interface NoticeState {
  state: 'waiting' | 'delivered' | 'failed'
  /** When it is sent next; null once it is over. */
  due_at: string | null
  attempts: number
  /** Why the last attempt failed. */
  error: string | null
}

/** What an alert has decided to tell, once for a threshold and a window. */
export interface Notice extends NoticeState {
  /** Derived from what it tells, so that another decision of the same makes the same id. */
  id: string
  alert_id: string
  /** What is told, as JSON: always the same. */
  content: string
  created_at: string
  /**
   * When its window is over and it may be forgotten; null for never, and as long as the end of what
   * it tells is not told.
   */
  ends_at: string | null
}

/** A notice whose end is told, or in whose place is another: when it may be forgotten. */
export type EndedNotice = { id: string; ends_at: string }

/** What became of what an alert has told, as far as its windows are not forgotten. */
export interface NoticeCounts extends Record<NoticeState['state'], number> {
  /** When the newest was decided, and why the newest of those that failed did. */
  last_at: string | null
  last_error: string | null
}

/** Stores alerts and their notices. A change of an alert is one transaction with its audit entry. */
export interface AlertStore {
  /** Lists all alerts, or those that have these ids. */
  all(ids?: string[]): Promise<Alert[]>
  /** Inserts an alert. Throws 400 where its workspace is gone, and 409 where that has `most`. */
  insert(alert: Alert, most: number, entry: AuditEntry): Promise<void>
  /** Changes only these fields: another process may have changed the others. */
  update(id: string, change: Partial<Alert>, entry: AuditEntry): Promise<void>
  /** Removes an alert with its notices. */
  remove(id: string, entry: AuditEntry): Promise<void>
  /**
   * Adds notices, and lets those that they end be forgotten. One whose id is there already, and one
   * of an alert that is gone, are left out.
   */
  addNotices(notices: Notice[], ended?: EndedNotice[]): Promise<void>
  /** Lists the ids of all notices. */
  listNoticeIds(): Promise<string[]>
  /** Lists the notices that are never forgotten as they are. */
  listLasting(): Promise<Notice[]>
  /** Lists the notices that are to be sent, those that are due first. */
  listWaiting(): Promise<Notice[]>
  /** Counts the notices of an alert by their states. */
  countNotices(alert_id: string): Promise<NoticeCounts>
  noteNotice(id: string, state: NoticeState): Promise<void>
  /** Forgets the notices whose window was over before a time, unless they are to be sent. */
  removeNotices(before: string): Promise<void>
}
