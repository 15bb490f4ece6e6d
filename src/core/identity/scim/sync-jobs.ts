import { GatewayError, requireFound } from '../../errors.ts'
import { isoNow, nextTurn } from '../../kernel/clock.ts'
import type { Actor } from '../actor.ts'
import { byId, defineAudit } from '../audit/entry.ts'
import type { AuditEntry } from '../audit.ts'
import { mustManageAll } from '../management.ts'
import type { IdentityWorld } from '../world.ts'
import { type Mover, moverFor } from './memberships.ts'

/** That every mapping is applied again. Times in ISO 8601. */
export interface SyncJob {
  id: string
  status: 'queued' | 'running' | 'succeeded' | 'failed'
  synced_groups: number | null
  deleted_groups: number | null
  error_message: string | null
  created_at: string
  started_at: string | null
  finished_at: string | null
}

/** Remembers jobs, and does their work a workspace at a time. */
export interface SyncJobStore {
  byId(id: string): Promise<SyncJob | undefined>
  insert(job: SyncJob, entry: AuditEntry): Promise<void>
  /** Changes a job that has not ended. */
  update(id: string, change: Partial<SyncJob>): Promise<void>
  /** The workspaces that groups are mapped to, or were. */
  workspaces(): Promise<string[]>
  /** Sees to it that everybody is in this workspace as his groups say. */
  apply(workspace_id: string, move: Mover): Promise<void>
}

/** Nobody works on a job for longer than this without a sign: then its process has ended. */
const PATIENCE = 60_000

/** Begins to apply every mapping again, and gives the job to ask for. Throws 403 for who manages one workspace only. */
export async function createSyncJob(gateway: IdentityWorld, actor: Actor) {
  const job = await queued(gateway, actor)
  void run(gateway, actor, job.id)
  return { data: job }
}

/** The same, to its end. */
export async function finishSyncJob(gateway: IdentityWorld, actor: Actor) {
  const { id } = await queued(gateway, actor)
  await run(gateway, actor, id)
  return getSyncJob(gateway, actor, id)
}

/** A job as it stands. One whose process has ended has failed. Throws 403, and 404. */
export async function getSyncJob(gateway: IdentityWorld, actor: Actor, id: string) {
  mustManageAll(gateway, actor)
  const job = requireFound(await gateway.store.scim.jobs.byId(id), 'SCIM sync job')
  return { data: isAbandoned(job, gateway.clock.now()) ? await abandoned(gateway, job) : job }
}

async function queued(gateway: IdentityWorld, actor: Actor): Promise<SyncJob> {
  mustManageAll(gateway, actor)
  const nothing = {
    synced_groups: null,
    deleted_groups: null,
    error_message: null,
    started_at: null,
    finished_at: null,
  }
  const job: SyncJob = {
    id: gateway.ids.uuid(),
    status: 'queued',
    ...nothing,
    created_at: isoNow(gateway),
  }
  await gateway.store.scim.jobs.insert(job, auditJob(gateway, actor, null, job))
  return job
}

/** Does the work of a job and writes down how it ended. Never throws: nobody waits for it who could be told. */
async function run(gateway: IdentityWorld, actor: Actor, id: string): Promise<void> {
  try {
    await gateway.store.scim.jobs.update(id, { status: 'running', started_at: isoNow(gateway) })
    const synced_groups = await applied(gateway, actor)
    // A group that the identity provider has deleted went at once, with all that it gave.
    await ended(gateway, id, { status: 'succeeded', synced_groups, deleted_groups: 0 })
  } catch (thrown) {
    await ended(gateway, id, {
      status: 'failed',
      error_message: GatewayError.from(thrown).message,
    }).catch(() => undefined)
  }
}

async function applied(gateway: IdentityWorld, actor: Actor): Promise<number> {
  const { jobs, groups } = gateway.store.scim
  const count = await groups.count()
  for (const workspace_id of await jobs.workspaces()) {
    await jobs.apply(workspace_id, moverFor(gateway, actor))
    // Streams go on between two workspaces.
    await nextTurn()
  }
  return count
}

const isAbandoned = ({ status, started_at, created_at }: SyncJob, now: Date): boolean =>
  (status === 'queued' || status === 'running') &&
  now.getTime() - Date.parse(started_at ?? created_at) > PATIENCE

async function abandoned(gateway: IdentityWorld, job: SyncJob): Promise<SyncJob> {
  const change = {
    status: 'failed' as const,
    error_message: 'The gateway was stopped before the sync ended. Please start another.',
    finished_at: isoNow(gateway),
  }
  await gateway.store.scim.jobs.update(job.id, change)
  return { ...job, ...change }
}

const ended = (gateway: IdentityWorld, id: string, change: Partial<SyncJob>) =>
  gateway.store.scim.jobs.update(id, { ...change, finished_at: isoNow(gateway) })

const auditJob = defineAudit<SyncJob>('scim_sync_jobs', { identify: byId })
