import type { ColumnType, Generated } from 'kysely'
import type { Batch } from '../../extensions/batches/store.ts'
import type { StoredLogin } from '../../extensions/tools/mcp/logins.ts'
import type { Assignment } from '../../limits/assignments/store.ts'
import type { Budget } from '../../limits/budgets/store.ts'
import type { LedgerRow } from '../../limits/chain.ts'
import type { Guardrail } from '../../limits/guardrails/store.ts'
import type { DaySpend, SubaccountSpend } from '../../limits/ledger.ts'
import type { Credit } from '../../limits/world.ts'
import type { Container, ContainerFile } from '../../network/containers/store.ts'
import type { Alert, Notice } from '../../observability/alerts/store.ts'
import type {
  DeliveryCounts,
  FailedDelivery,
} from '../../observability/destinations/deliveries/store.ts'
import type { Destination } from '../../observability/destinations/store.ts'
import type { Feedback } from '../../observability/feedback.ts'
import type {
  BatchResult,
  Generation,
  StoredTranscript,
} from '../../observability/generations/store.ts'
import type { StoredRefusal } from '../../observability/refusals.ts'
import type { EvictionCount } from '../../observability/retention.ts'
import type { AuditEntry } from '../../resources/audit/store.ts'
import type { AuthCode } from '../../resources/auth-codes/store.ts'
import type { ByokKey } from '../../resources/byok/store.ts'
import type { StoredFile } from '../../resources/files/store.ts'
import type { IdempotentAnswer } from '../../resources/idempotency.ts'
import type { Key } from '../../resources/keys/store.ts'
import type { Member, WorkspaceMember } from '../../resources/members/store.ts'
import type { Preset, PresetVersion } from '../../resources/presets/store.ts'
import type { StoredResponse } from '../../resources/responses/store.ts'
import type { GroupMapping, ScimGroup, ScimToken, ScimUser, SyncJob } from '../../resources/scim.ts'
import type { SignIn } from '../../resources/sign-ins.ts'
import type { VideoJob } from '../../resources/videos.ts'
import type { Workspace } from '../../resources/workspaces/store.ts'
import type { BundleRow } from './outbox/bundles.ts'

/**
 * The tables as Kysely sees them: the nouns' own types, except booleans, bigints and lists, which
 * SQL lacks.
 */
export interface Tables {
  meta: { name: string; value: string }
  workspaces: WorkspaceTable
  budgets: Omit<Columns<Budget>, 'soft'> & { soft: number | null }
  members: Columns<Member>
  workspace_members: Columns<WorkspaceMember>
  scim_tokens: Columns<ScimToken>
  scim_users: Columns<Omit<ScimUser, 'resource'>> & {
    resource: string
    name_key: string
    external_id: string | null
  }
  scim_groups: Columns<ScimGroup> & { name_key: string }
  scim_group_members: { group_id: string; scim_user_id: string }
  scim_group_mappings: Columns<GroupMapping>
  scim_sync_jobs: Columns<SyncJob>
  keys: Columns<Key>
  presets: Columns<Preset>
  preset_versions: Columns<Omit<PresetVersion, 'config'>> & { config: string }
  byok: ByokTable
  audit: Omit<Columns<AuditEntry>, 'before' | 'after' | 'ifMatch'> & {
    sequence: Generated<number>
    before: string | null
    after: string | null
  }
  credits: Columns<Credit> & { sequence: Generated<number> }
  files: Columns<StoredFile>
  batches: Omit<Columns<Batch>, 'metadata' | 'errors'> & {
    metadata: string | null
    errors: string | null
  }
  batch_results: Columns<BatchResult>
  containers: Columns<Container>
  container_files: Columns<ContainerFile>
  guardrails: Omit<Columns<Guardrail>, 'mcp' | 'budgets'> & Record<'mcp' | 'budgets', string | null>
  guardrail_keys: AssignmentTable & { key_hash: string }
  guardrail_members: AssignmentTable & { user_id: string }
  refusals: Columns<Omit<StoredRefusal, 'sequence' | 'left_out' | 'left_out_until'>> & {
    sequence: Generated<number>
    left_out: Generated<number>
    left_out_until: Generated<string | null>
  }
  generations: Columns<Generation>
  spend: Columns<DaySpend>
  call_spend: Columns<SubaccountSpend>
  ledger: Columns<LedgerRow> & { several: Generated<number> }
  idempotency: Columns<IdempotentAnswer>
  auth_codes: Columns<AuthCode>
  sign_ins: Columns<SignIn>
  transcripts: Columns<StoredTranscript> & { sequence: Generated<number> }
  transcript_use: { bytes: number }
  responses: Columns<StoredResponse> & { sequence: Generated<number> }
  response_items: { key_hash: string; item_id: string; response_id: string }
  feedback: Columns<Feedback>
  evicted_days: { day: string; calls: number; corrections: number; charged: string }
  evictions: Columns<EvictionCount>
  videos: Columns<VideoJob>
  outbox: {
    [Name in keyof BundleRow]: Name extends 'topic' | 'generation_id' | 'payload' | 'created_at'
      ? BundleRow[Name]
      : Generated<BundleRow[Name]>
  }
  destinations: DestinationTable
  alerts: Columns<Alert>
  alert_notices: Columns<Notice>
  mcp_logins: StoredLogin
  deliveries: { destination_id: string; sequence: number; bytes: number; calls: Generated<number> }
  delivery_receivers: { destination_id: string }
  failed_deliveries: Omit<FailedDelivery, 'generation_id'> & { destination_id: string }
  delivery_counts: {
    [Name in keyof Omit<
      DeliveryCounts,
      'waiting' | 'bytes' | 'failed'
    >]: Name extends 'destination_id' ? string : Generated<DeliveryCounts[Name]>
  }
}

/** The row of a deleted workspace stays, because other rows refer to it. */
export type WorkspaceTable = Omit<
  Columns<Workspace>,
  'io_logging_api_key_ids' | 'disabled_server_tools'
> &
  Record<'io_logging_api_key_ids' | 'disabled_server_tools' | 'deleted_at', string | null>

/** The row of a deleted key stays, without the sealed credential. */
export type ByokTable = Omit<Columns<ByokKey>, Flags | Lists | 'sealed'> &
  Record<Exclude<Flags, 'declared_zdr'>, number> &
  Record<Lists | 'sealed' | 'deleted_at', string | null> & { declared_zdr: number | null }
type Flags = 'disabled' | 'is_fallback' | 'is_byok_only' | 'is_required' | 'declared_zdr'
type Lists = 'allowed_models' | 'allowed_api_key_hashes' | 'allowed_user_ids'

/** The row of a deleted destination stays, without its config. */
export type DestinationTable = Omit<
  Columns<Destination>,
  'api_key_hashes' | 'filter_rules' | 'sealed'
> &
  Record<'api_key_hashes' | 'filter_rules' | 'sealed' | 'deleted_at', string | null>

type AssignmentTable = Omit<Assignment, 'kind' | 'assignee'>

/** A record as the columns of its table. */
type Columns<T> = { [Name in keyof T]: Column<T[Name]> }
type Column<V> = boolean extends V
  ? number | Extract<V, null>
  : [V] extends [bigint | null]
    ? Money<V>
    : V extends unknown[]
      ? string
      : V
// Read as text and written as a bigint: a driver that reads a 64-bit column as a double would
// round it.
type Money<V> = ColumnType<V extends null ? string | null : string, V, V>
