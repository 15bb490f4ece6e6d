import { getIsoTime } from '../base/clock.ts'
import { denied, invalid } from '../base/errors.ts'
import { omitUndefined, pickDefined } from '../base/json.ts'
import { toNanos } from '../base/money.ts'
import { toPage } from '../base/pages.ts'
import { compareOldestFirst } from '../base/sorting.ts'
import {
  type Actor,
  canManage,
  canManageAll,
  requireManaged,
  resolveWorkspaceId,
} from '../resources/actor.ts'
import { PUBLIC_PROVIDERS } from '../resources/byok/providers.data.ts'
import { getDefaultGuardrailId } from '../resources/default-guardrail.ts'
import { findModel } from '../resources/models.ts'
import { findProviderSlugs } from '../resources/providers/names.ts'
import { findRouterModel } from '../resources/routers.ts'
import type { Workspace } from '../resources/workspaces/store.ts'
import { ASSIGNMENT_MARKS } from './assignments/packing.ts'
import { EXPECTED_TAG, isTag } from './call-budgets.ts'
import { checkPattern } from './filters.ts'
import { checkMcpRule } from './guardrails/mcp-rule.ts'
import {
  FIELDS,
  type GuardrailChange,
  type GuardrailQuery,
  type NewGuardrail,
} from './guardrails/schema.ts'
import type { Guardrail, StoredCallBudget } from './guardrails/store.ts'
import { auditGuardrail, showGuardrailSpending } from './guardrails/view.ts'
import type { PolicyWorld } from './policy-world.ts'

/**
 * Creates a guardrail, which applies to no calls until it is assigned. Throws 400 for a workspace,
 * a model or a provider that does not exist, for an invalid pattern, and for a limit without an
 * interval or an interval without a limit.
 */
export async function createGuardrail(
  world: PolicyWorld,
  actor: Actor,
  { name, workspace_id, ...change }: NewGuardrail,
) {
  const workspace = resolveWorkspaceId(world, actor, workspace_id)
  const guardrail = { id: world.ids.uuid(), workspace_id: workspace, name }
  return { data: await insertGuardrail(world, actor, guardrail, change) }
}

async function insertGuardrail(
  world: PolicyWorld,
  actor: Actor,
  identity: Pick<Guardrail, 'id' | 'workspace_id' | 'name'>,
  change: GuardrailChange,
) {
  const created_at = getIsoTime(world)
  const guardrail = {
    ...EMPTY_FIELDS,
    ...(await readGuardrailFields(world, change)),
    ...identity,
    revision: 1,
    created_at,
    updated_at: null,
  }
  checkBudget(guardrail)
  await world.store.guardrails.insert(guardrail, auditGuardrail(world, actor, null, guardrail))
  return rememberGuardrail(world, guardrail)
}

/**
 * Lists one page of a workspace's guardrails, oldest first. Throws 400 for a workspace that does
 * not exist.
 */
export function listGuardrails(
  world: PolicyWorld,
  actor: Actor,
  { workspace_id, ...page }: GuardrailQuery,
) {
  const workspace = resolveWorkspaceId(world, actor, workspace_id)
  const guardrails = world.memory.guardrails.filter(
    guardrail => guardrail.workspace_id === workspace,
  )
  return toPage(guardrails.sort(compareOldestFirst), page, one => showGuardrailSpending(world, one))
}

/**
 * Returns one guardrail. Throws 404, also for another workspace's and for a workspace's default one
 * before its first change.
 */
export const getGuardrail = (world: PolicyWorld, actor: Actor, id: string) => ({
  data: showGuardrailSpending(world, requireManagedGuardrail(world, actor, id)),
})

/**
 * Changes a guardrail: lists are replaced, null clears. The first change of a workspace's default
 * guardrail creates it. Throws 404, 400 as `createGuardrail` does and for renaming a default one,
 * 403 as `deleteGuardrail` does, and 409 when someone else changed it at the same moment.
 */
export async function updateGuardrail(
  world: PolicyWorld,
  actor: Actor,
  id: string,
  { name, ...change }: GuardrailChange,
) {
  await world.catchUp()
  const workspace = findDefaultGuardrailWorkspace(world, actor, id)
  if (workspace && name !== undefined && name !== buildDefaultName(workspace))
    throw invalid('name: a default guardrail cannot be renamed', 'name')
  if (workspace && !world.memory.guardrails.has(id)) {
    const guardrail = { id, workspace_id: workspace.id, name: buildDefaultName(workspace) }
    return { data: await insertGuardrail(world, actor, guardrail, change) }
  }
  const before = requireManagedGuardrail(world, actor, id)
  refuseForMembers(world, actor, before)
  const changes = {
    ...(await readGuardrailFields(world, change)),
    ...(name === undefined ? {} : { name }),
  }
  const after = {
    ...before,
    ...changes,
    revision: before.revision + 1,
    updated_at: getIsoTime(world),
  }
  checkBudget(after)
  await world.store.guardrails.replace(after, auditGuardrail(world, actor, before, after))
  return { data: rememberGuardrail(world, after) }
}

/**
 * Deletes a guardrail: from the next call on it applies to no calls. Throws 404, and 403 for one that
 * members have, from an actor who manages only one workspace.
 */
export async function deleteGuardrail(world: PolicyWorld, actor: Actor, id: string) {
  const guardrail = requireManagedGuardrail(world, actor, id)
  refuseForMembers(world, actor, guardrail)
  await world.store.guardrails.remove(id, auditGuardrail(world, actor, guardrail, null))
  forgetGuardrail(world, id)
  return { deleted: true as const }
}

// It applies to all keys of a member, in any workspace: who may not assign it may not loosen it.
function refuseForMembers(world: PolicyWorld, actor: Actor, { id }: Guardrail): void {
  if (canManageAll(world, actor)) return
  const { total } = world.memory.assignments.pick({
    isInGroup: guardrail_id => guardrail_id === id,
    without: ASSIGNMENT_MARKS.key,
    order: 'oldest',
    count: 0,
  })
  if (total > 0)
    throw denied(
      'Members have this guardrail: only management keys of the default workspace can change it',
    )
}

function forgetGuardrail(world: PolicyWorld, id: string): void {
  world.memory.guardrails.delete(id)
  world.memory.assignments.deleteMentioning(id, ({ guardrail_id }) => guardrail_id === id)
}

/** Returns a guardrail that the actor may manage. Throws 404. */
export const requireManagedGuardrail = (world: PolicyWorld, actor: Actor, id: string): Guardrail =>
  requireManaged(world, actor, world.memory.guardrails.get(id), 'Guardrail')

/**
 * Finds the workspace whose default guardrail has this id, created or not, if the actor may manage
 * it.
 */
function findDefaultGuardrailWorkspace(
  world: PolicyWorld,
  actor: Actor,
  id: string,
): Workspace | undefined {
  const workspace = world.memory.workspaces
    .values()
    .find(candidate => getDefaultGuardrailId(candidate.id) === id)
  return workspace && canManage(world, actor, workspace.id) ? workspace : undefined
}

const buildDefaultName = ({ id }: Workspace) => `Workspace ${id} Default`

function checkBudget({
  limit_usd,
  reset_interval,
}: Pick<GuardrailFields, 'limit_usd' | 'reset_interval'>): void {
  if ((limit_usd === null) === (reset_interval === null)) return
  const [missing, present] =
    limit_usd === null ? ['limit_usd', 'reset_interval'] : ['reset_interval', 'limit_usd']
  throw invalid(`${missing}: expected together with ${present}, found nothing`, missing)
}

function rememberGuardrail(world: PolicyWorld, guardrail: Guardrail) {
  world.memory.guardrails.set(guardrail)
  return showGuardrailSpending(world, guardrail)
}

/** The settings of a guardrail, without its identity and dates. */
type GuardrailFields = Omit<
  Guardrail,
  'id' | 'workspace_id' | 'name' | 'revision' | 'created_at' | 'updated_at'
>

/** The fields of a guardrail that sets nothing. */
export const EMPTY_FIELDS: GuardrailFields = {
  description: null,
  allowed_data_regions: null,
  allowed_models: null,
  allowed_providers: null,
  ignored_models: null,
  ignored_providers: null,
  mcp: null,
  content_filter_builtins: null,
  content_filters: null,
  filterOutput: false,
  enable_free_model_publication: null,
  enable_free_model_training: null,
  enable_paid_model_training: null,
  enforce_zdr: null,
  enforce_zdr_anthropic: null,
  enforce_zdr_google: null,
  enforce_zdr_openai: null,
  enforce_zdr_other: null,
  enforce_zdr_xai: null,
  limit_usd: null,
  reset_interval: null,
  budgets: null,
  include_byok_in_budgets: false,
  requests_per_minute: null,
  tokens_per_minute: null,
  concurrent_requests: null,
}

const ZDR_FIELDS = [
  'enforce_zdr_anthropic',
  'enforce_zdr_google',
  'enforce_zdr_openai',
  'enforce_zdr_other',
  'enforce_zdr_xai',
] as const satisfies (keyof GuardrailFields)[]

/**
 * Reads the fields that a body sets, as they are stored. Models are stored by their slug, whichever
 * of their names the body uses; the deprecated `enforce_zdr` is copied into each group that is not
 * set. Throws 400 for an unknown model or provider, since a misspelt one would ignore nothing, and
 * for an invalid pattern. A model that is allowed may come later: until then nothing is called.
 */
export async function readGuardrailFields(
  world: PolicyWorld,
  change: GuardrailChange,
): Promise<Partial<GuardrailFields>> {
  const {
    allowed_models,
    ignored_models,
    allowed_providers,
    ignored_providers,
    content_filter_builtins,
    content_filters,
    limit_usd,
    budgets,
    mcp,
  } = change
  for (const [i, { pattern }] of content_filters?.entries() ?? [])
    await checkPattern(pattern, `content_filters.${i}.pattern`)
  if (mcp) await checkMcpRule(world, mcp)
  const fields = {
    ...pickPlainFields(change),
    ...copyZdr(change),
    allowed_models: resolveModelSlugs(world, allowed_models, (name, i) =>
      keepModelSlug(world, name, `allowed_models.${i}`),
    ),
    ignored_models: resolveModelSlugs(world, ignored_models, (name, i) =>
      refuseUnknownModel(name, `ignored_models.${i}`),
    ),
    allowed_providers: checkProviderNames(world, 'allowed_providers', allowed_providers),
    ignored_providers: checkProviderNames(world, 'ignored_providers', ignored_providers),
    // Field by field: an entry may have more fields than are stored, and the label is the system's.
    content_filter_builtins:
      content_filter_builtins?.map(({ label: _, ...builtin }) => toBuiltinEntry(builtin)) ??
      (content_filter_builtins as null | undefined),
    content_filters:
      content_filters?.map(({ pattern, action, label = null }) => ({ pattern, action, label })) ??
      (content_filters as null | undefined),
    limit_usd: limit_usd == null ? limit_usd : toNanos(limit_usd),
    budgets: budgets == null ? budgets : readCallBudgets(world, budgets),
  }
  return omitUndefined(fields)
}

function pickPlainFields({
  filter_output,
  filterOutput,
  ...change
}: GuardrailChange): Partial<GuardrailFields> {
  const { filter_output: _, ...fields } = FIELDS
  if (filter_output !== undefined && filterOutput !== undefined)
    throw invalid('filterOutput: expected nothing beside filter_output', 'filterOutput')
  const named = { ...change, filterOutput: filter_output ?? filterOutput }
  const removeDuplicates = (value: unknown) => (Array.isArray(value) ? [...new Set(value)] : value)
  return Object.fromEntries(
    Object.entries(pickDefined(named, fields)).map(([name, value]) => [
      name,
      removeDuplicates(value),
    ]),
  )
}

function copyZdr({ enforce_zdr, ...groups }: GuardrailChange): Partial<GuardrailFields> {
  return enforce_zdr === undefined
    ? {}
    : Object.fromEntries(
        ZDR_FIELDS.filter(field => groups[field] === undefined).map(field => [field, enforce_zdr]),
      )
}

type BuiltinEntry = NonNullable<GuardrailChange['content_filter_builtins']>[number]

const toBuiltinEntry = ({ slug, action, scan_scope }: Omit<BuiltinEntry, 'label'>) => ({
  slug,
  action,
  ...(scan_scope === undefined ? {} : { scan_scope }),
})

function resolveModelSlugs(
  world: PolicyWorld,
  names: string[] | null | undefined,
  toUnknownSlug: (name: string, i: number) => string,
): string[] | null | undefined {
  const slugs = names?.map((name, i) => findModel(world, name)?.id ?? toUnknownSlug(name, i))
  return slugs ? [...new Set(slugs)] : (names as null | undefined)
}

// A router is no model: it picks one, which must be allowed.
function keepModelSlug({ config }: PolicyWorld, name: string, field: string): string {
  const isSlug = /^[^/\s*]+\/[^/\s*]+$/.test(name)
  if (isSlug && findRouterModel(config, name) === undefined) return name
  return throwUnknownName(field, name, 'the slug of a model, such as author/model')
}

// What restricts nothing but a misspelt name would restrict nothing.
const refuseUnknownModel = (name: string, field: string): never =>
  throwUnknownName(field, name, 'a model of this gateway')

function checkProviderNames(
  { catalog }: PolicyWorld,
  field: string,
  names: string[] | null | undefined,
): string[] | null | undefined {
  const isKnown = (name: string) =>
    PUBLIC_PROVIDERS.includes(name) ||
    findProviderSlugs(catalog.providers.values(), name).length > 0
  for (const [i, name] of names?.entries() ?? [])
    if (!isKnown(name)) throwUnknownName(`${field}.${i}`, name, 'a known provider')
  return names && [...new Set(names)]
}

function throwUnknownName(field: string, name: string, expected: string): never {
  throw invalid(`${field}: expected ${expected}, found ${JSON.stringify(name)}`, field)
}

// Of models each has a name: who calls chooses among few.
function readCallBudgets(
  world: PolicyWorld,
  budgets: NonNullable<GuardrailChange['budgets']>,
): StoredCallBudget[] {
  const places = new Set<string>()
  return budgets.map(({ by, name, limit_usd, reset_interval }, i) => {
    const field = `budgets.${i}.name`
    if (by === 'model' && name === undefined)
      throw invalid(`${field}: expected the slug of a model, found nothing`, field)
    const kept =
      by === 'model' && name !== undefined
        ? (findModel(world, name)?.id ?? refuseUnknownModel(name, field))
        : (name ?? null)
    if (by === 'tag' && kept !== null && !isTag(kept)) throwUnknownName(field, kept, EXPECTED_TAG)
    const place = JSON.stringify([by, kept, reset_interval])
    if (places.has(place))
      throw invalid(`budgets.${i}: expected one budget of a kind for each interval`, `budgets.${i}`)
    places.add(place)
    return { by, name: kept, limit_usd: toNanos(limit_usd), reset_interval }
  })
}
