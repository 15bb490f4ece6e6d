import { getIsoTime, yieldToEventLoop } from '../../base/clock.ts'
import { GatewayError, requireFound } from '../../base/errors.ts'
import type { Actor } from '../actor.ts'
import { defineAudit, identifyById } from '../audit/entry.ts'
import { assertCanManageAll } from '../management.ts'
import type { SyncJob } from '../scim.ts'
import type { IdentityWorld } from '../world.ts'
import { createMembershipDecider } from './memberships.ts'

/** A job that runs longer than this, in milliseconds, is abandoned: its process has ended. */
const PATIENCE = 60_000

/**
 * Starts to apply every mapping again, and returns the job. Throws 403 for actors who manage one
 * workspace only.
 */
export async function createSyncJob(world: IdentityWorld, actor: Actor) {
  const job = await queueJob(world, actor)
  void runJob(world, actor, job.id)
  return { data: job }
}

/** Applies every mapping again and returns the finished job. Throws 403. */
export async function finishSyncJob(world: IdentityWorld, actor: Actor) {
  const { id } = await queueJob(world, actor)
  await runJob(world, actor, id)
  return getSyncJob(world, actor, id)
}

/** Gets a job. A job whose process has ended counts as failed. Throws 403, and 404. */
export async function getSyncJob(world: IdentityWorld, actor: Actor, id: string) {
  assertCanManageAll(world, actor)
  const job = requireFound(await world.store.scim.jobs.byId(id), 'SCIM sync job')
  return {
    data: isAbandoned(job, world.clock.now()) ? await failAbandonedJob(world, job) : job,
  }
}

async function queueJob(world: IdentityWorld, actor: Actor): Promise<SyncJob> {
  assertCanManageAll(world, actor)
  const nothing = {
    synced_groups: null,
    deleted_groups: null,
    error_message: null,
    started_at: null,
    finished_at: null,
  }
  const job: SyncJob = {
    id: world.ids.uuid(),
    status: 'queued',
    ...nothing,
    created_at: getIsoTime(world),
  }
  await world.store.scim.jobs.insert(job, auditJob(world, actor, null, job))
  return job
}

/** Runs a job and records its result. Never throws, since no caller may be waiting for it. */
async function runJob(world: IdentityWorld, actor: Actor, id: string): Promise<void> {
  try {
    await world.store.scim.jobs.update(id, { status: 'running', started_at: getIsoTime(world) })
    const synced_groups = await applyMappings(world, actor)
    // A group that the identity provider deletes is removed at once, with all it granted.
    await endJob(world, id, { status: 'succeeded', synced_groups, deleted_groups: 0 })
  } catch (thrown) {
    await endJob(world, id, {
      status: 'failed',
      error_message: GatewayError.from(thrown).message,
    }).catch(() => undefined)
  }
}

async function applyMappings(world: IdentityWorld, actor: Actor): Promise<number> {
  const { jobs, groups } = world.store.scim
  const count = await groups.count()
  for (const workspace_id of await jobs.listWorkspaces()) {
    await jobs.apply(workspace_id, createMembershipDecider(world, actor))
    // Lets running streams continue between two workspaces.
    await yieldToEventLoop()
  }
  return count
}

const isAbandoned = ({ status, started_at, created_at }: SyncJob, now: Date): boolean =>
  (status === 'queued' || status === 'running') &&
  now.getTime() - Date.parse(started_at ?? created_at) > PATIENCE

async function failAbandonedJob(world: IdentityWorld, job: SyncJob): Promise<SyncJob> {
  const change = {
    status: 'failed' as const,
    error_message: 'The gateway was stopped before the sync ended. Please start another.',
    finished_at: getIsoTime(world),
  }
  await world.store.scim.jobs.update(job.id, change)
  return { ...job, ...change }
}

const endJob = (world: IdentityWorld, id: string, change: Partial<SyncJob>) =>
  world.store.scim.jobs.update(id, { ...change, finished_at: getIsoTime(world) })

const auditJob = defineAudit<SyncJob>('scim_sync_jobs', { identify: identifyById })
