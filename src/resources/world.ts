import type { Clock, Period } from '../base/clock.ts'
import type { Fingerprint } from '../base/fingerprint.ts'
import type { Ids } from '../base/ids.ts'
import type { Mirror } from '../base/mirror.ts'
import type { Config } from '../config.ts'
import type { AuditStore } from './audit/store.ts'
import type { KeyMirror } from './keys/mirror.ts'
import type { KeyStore } from './keys/store.ts'
import type { MemberStore } from './members/store.ts'
import type { ScimStore } from './scim.ts'
import type { Workloads } from './workloads/parts.ts'
import type { Owner, Workspace, WorkspaceStore } from './workspaces/store.ts'

/** The parts of the gateway that this room uses. */
export interface IdentityWorld {
  config: Config
  catalog: {
    models: {
      get(
        slug: string,
      ): { output_modalities: string[]; unlisted?: 'pattern' | 'passed' } | undefined
    }
  }
  store: {
    keys: KeyStore
    workspaces: WorkspaceStore
    members: MemberStore
    audit: AuditStore
    scim: ScimStore
  }
  memory: {
    owner: Owner
    keys: KeyMirror
    workspaces: Mirror<Workspace>
    credits: bigint
    forgetWorkspace(id: string): void
  }
  ledger: {
    getSpent(account: `key ${string}`, period: Period | null, byok: boolean): bigint
    getHeld(account: `key ${string}`, byok: boolean): bigint
  }
  traffic: { counters: { getFreeUsage(): { limit: number; used: number } | null | undefined } }
  secrets: { fingerprint: Fingerprint }
  /** Short-lived tokens of workloads, and the issuers whose word they are given on. */
  workloads: Workloads
  instance: { siteUrl: string }
  clock: Clock
  ids: Ids
  catchUp(): Promise<boolean>
}
