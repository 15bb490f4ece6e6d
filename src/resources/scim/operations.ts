import { type Static, Type } from '@sinclair/typebox'
import { getIsoTime, yieldToEventLoop } from '../../base/clock.ts'
import { conflict, GatewayError, requireFound } from '../../base/errors.ts'
import { PAGE_SIZE } from '../../base/pages.ts'
import { oneOf, TrueOrFalse, Uuid } from '../../base/schema-builders.ts'
import { type Actor, assertCanManageAll } from '../actor.ts'
import { defineAudit, identifyById } from '../audit/entry.ts'
import { defineNoun, defineOperation, defineTerminalOperation } from '../operation.ts'
import { getOrganizationId } from '../organization.ts'
import { type GroupMapping, type MappingResult, ScimPageQuery, type SyncJob } from '../scim.ts'
import type { IdentityWorld } from '../world.ts'
import { listScimGroups } from './groups.ts'
import { createMembershipDecider, createMembershipKeeper } from './memberships.ts'

const Role = oneOf('admin', 'member')

/** The body of E1, `POST /scim/group-mappings`. */
export const NewGroupMapping = Type.Object({ scim_group_id: Uuid, workspace_id: Uuid, role: Role })

export type NewGroupMapping = Static<typeof NewGroupMapping>

/** The body of `PATCH /scim/group-mappings/{id}`. */
const GroupMappingChange = Type.Object({ role: Role })

type GroupMappingChange = Static<typeof GroupMappingChange>

/** The query of `DELETE /scim/group-mappings/{id}`. It must state what happens to the members. */
const GroupMappingDeletion = Type.Object({ keep_members: TrueOrFalse })

type GroupMappingDeletion = Static<typeof GroupMappingDeletion>

/**
 * E1: puts all members of a group into a workspace. An existing mapping with this role is applied
 * again. Throws 403 for actors who manage one workspace only, and 404 for a group or a workspace
 * that does not exist. Throws 409 when the group has another role there.
 */
export async function createGroupMapping(
  world: IdentityWorld,
  actor: Actor,
  input: NewGroupMapping,
) {
  assertCanManageAll(world, actor)
  const { scim_group_id, workspace_id, role } = input
  const now = getIsoTime(world)
  const mapping = {
    id: world.ids.uuid(),
    scim_group_id,
    workspace_id,
    role,
    created_at: now,
    updated_at: now,
  }
  const entry = auditMapping(world, actor, null, mapping)
  const decide = (existing: GroupMapping | undefined): MappingResult => {
    if (existing && existing.role !== role)
      throw conflict('This group already has another role in this workspace')
    return existing ? { mapping: existing, entry: null } : { mapping, entry }
  }
  const created = await world.store.scim.mappings.insert(
    mapping,
    decide,
    createMembershipDecider(world, actor),
  )
  return { data: showMapping(world, created.mapping) }
}

/** Lists one page of the mappings, the oldest first. Throws 403. */
async function listGroupMappings(
  world: IdentityWorld,
  actor: Actor,
  { offset = 0, limit = PAGE_SIZE }: ScimPageQuery,
) {
  assertCanManageAll(world, actor)
  const { mappings } = world.store.scim
  const page = await mappings.listPage(offset, limit)
  return {
    data: page.map(mapping => showMapping(world, mapping)),
    total_count: await mappings.count(),
  }
}

/** Gets a mapping. Throws 403, and 404. */
const getGroupMapping = async (world: IdentityWorld, actor: Actor, id: string) => ({
  data: showMapping(world, await requireMapping(world, actor, id)),
})

/** Changes the role of a group in its workspace. Throws 403, and 404. */
export async function updateGroupMapping(
  world: IdentityWorld,
  actor: Actor,
  id: string,
  { role }: GroupMappingChange,
) {
  const mapping = await requireMapping(world, actor, id)
  const changed = { ...mapping, role, updated_at: getIsoTime(world) }
  const entry = auditMapping(world, actor, mapping, changed)
  await world.store.scim.mappings.update(changed, entry, createMembershipDecider(world, actor))
  return { data: showMapping(world, changed) }
}

/**
 * Deletes a mapping. With `keep_members`, the members that it added stay in the workspace as if
 * added by hand. Without it, they are removed unless another mapping adds them. Throws 403, and
 * 404.
 */
export async function deleteGroupMapping(
  world: IdentityWorld,
  actor: Actor,
  id: string,
  { keep_members }: GroupMappingDeletion,
) {
  const mapping = await requireMapping(world, actor, id)
  const entry = auditMapping(world, actor, mapping, null)
  const keep = keep_members === 'true' ? createMembershipKeeper(world, actor) : null
  await world.store.scim.mappings.remove(
    mapping,
    entry,
    createMembershipDecider(world, actor),
    keep,
  )
  return { deleted: true as const }
}

async function requireMapping(
  world: IdentityWorld,
  actor: Actor,
  id: string,
): Promise<GroupMapping> {
  assertCanManageAll(world, actor)
  return requireFound(await world.store.scim.mappings.byId(id), 'SCIM group mapping')
}

const showMapping = (world: IdentityWorld, mapping: GroupMapping) => ({
  ...mapping,
  organization_id: getOrganizationId(world),
})

const auditMapping = defineAudit<GroupMapping>('scim_group_mappings', { identify: identifyById })

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
async function getSyncJob(world: IdentityWorld, actor: Actor, id: string) {
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

const resource = { tag: 'SCIM', access: 'management' } as const

/** What can be done with mappings of groups to workspaces: specification E1, wire reference J.4. */
export const mappings = defineNoun(
  { ...resource, params: { id: 'The mapping’s id' } },
  {
    list: defineOperation(
      'GET /scim/group-mappings',
      'listScimGroupMappings',
      'List SCIM group mappings',
      listGroupMappings,
      { query: ScimPageQuery },
    ),
    create: defineOperation(
      'POST /scim/group-mappings',
      'createScimGroupMapping',
      'Map a SCIM group to a workspace',
      createGroupMapping,
      { body: NewGroupMapping, status: 201, refusals: [404, 409] },
    ),
    get: defineOperation(
      'GET /scim/group-mappings/:id',
      'getScimGroupMapping',
      'Get a SCIM group mapping',
      getGroupMapping,
    ),
    update: defineOperation(
      'PATCH /scim/group-mappings/:id',
      'updateScimGroupMapping',
      'Change the role of a SCIM group mapping',
      updateGroupMapping,
      { body: GroupMappingChange },
    ),
    delete: defineOperation(
      'DELETE /scim/group-mappings/:id',
      'deleteScimGroupMapping',
      'Delete a SCIM group mapping',
      deleteGroupMapping,
      { query: GroupMappingDeletion },
    ),
  },
)

/** What can be done with the groups of an identity provider. */
export const groups = defineNoun(resource, {
  list: defineOperation('GET /scim/groups', 'listScimGroups', 'List SCIM groups', listScimGroups, {
    query: ScimPageQuery,
  }),
})

/** What can be done with jobs that apply every mapping again. */
export const syncJobs = defineNoun(
  { ...resource, params: { id: 'The job’s id' } },
  {
    create: defineOperation(
      'POST /scim/sync-jobs',
      'createScimSyncJob',
      'Apply every SCIM group mapping again',
      createSyncJob,
      { status: 202, location: started => `/api/v1/scim/sync-jobs/${started.data.id}` },
    ),
    get: defineOperation(
      'GET /scim/sync-jobs/:id',
      'getScimSyncJob',
      'Get a SCIM sync job',
      getSyncJob,
    ),
    finish: defineTerminalOperation(finishSyncJob),
  },
)
