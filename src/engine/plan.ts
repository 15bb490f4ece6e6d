import type { RoutingPreferences, SortKey } from '../language/routing.ts'
import type { Kind, Work } from '../language/work.ts'
import type { Limit } from '../limits/ledger.ts'
import type { Rule } from '../limits/policy-world.ts'
import type { DecryptedKey } from '../resources/byok/decrypted-keys.ts'
import { listUsableByokKeys } from '../resources/byok.ts'
import type { Catalog, Endpoint, Model } from '../resources/models/catalog.ts'
import { listSpoken } from '../resources/models.ts'
import { getPublicSlug } from '../resources/providers/names.ts'
import type { ExtendedWorld } from './extension.ts'
import { kinds } from './kinds.ts'
import type {
  CandidateGroup,
  Candidates,
  Plan,
  PlanInputs,
  ResolvedModel,
} from './plan/candidates.ts'
import {
  BYOK_ONLY,
  findGeneralConstraint,
  findViolatedConstraint,
  UNKNOWN_PRICE,
} from './plan/constraints.ts'
import {
  deferEndpoints,
  findPoorToolCallers,
  moveNamedFirst,
  moveTierFirst,
  NO_ENDPOINTS,
  shuffleByWeight,
  sortByNumber,
  sortEndpoints,
} from './plan/order.ts'
import { type DroppedEndpoint, noEndpointsLeft } from './plan/refusal.ts'
import { resolveModels } from './plan/resolve-models.ts'
import type { Step } from './run.ts'
import { findSession } from './traffic.ts'

/**
 * Plans which endpoints may serve the call, and in which order. Of each model that the call names
 * it takes the endpoints that neither a constraint of the call nor one of the `rules` excludes.
 * They stand in the order that the caller asks for, or else are shuffled, cheaper ones more likely
 * to come first. `byokKeys` are the provider keys that may be used; endpoints with them come before
 * the gateway's own. The endpoint that last answered the `session` takes precedence over the
 * shuffle. Endpoints that miss a preference go behind, and those in a cooldown last. Throws 400 for
 * a model that is not in the catalogue or does another kind of work, and 404 when a constraint or a
 * guardrail excludes the last endpoint, naming it.
 */
export const planRoute = <K extends Kind>(
  world: ExtendedWorld,
  kind: K,
  call: Work[K]['call'],
  inputs: Partial<PlanInputs> = {},
): Plan<K> =>
  orderCandidates(
    world,
    kind,
    call,
    findCandidates(world, kind, call, { byokKeys: [], rules: [], session: null, ...inputs }),
  )

/**
 * Plans a step: finds its candidates by what holds at this moment, and orders them. Throws as
 * `planRoute` does.
 */
export function planStep<K extends Kind>(world: ExtendedWorld, step: Step<K>): void {
  step.candidates = findStepCandidates(world, step)
  step.plan = orderCandidates(world, step.run.kind, step.call, step.candidates)
}

/**
 * Finds the candidates of a step. A step stays at the endpoint that answered the previous one, if
 * that is still allowed. Throws 400 as `planRoute` does.
 */
export function findStepCandidates<K extends Kind>(
  world: ExtendedWorld,
  { run, call }: Step<K>,
): Candidates<K> {
  const { actor, kind, policy } = run
  const { bounds, budgets } = policy
  const limits = budgets ? [...bounds, ...budgets] : bounds
  const previousEndpointId = run.steps.at(-2)?.answer?.endpoint.id
  const byokKeys = world.memory.byok.size > 0 ? listUsableByokKeys(world, actor) : NO_KEYS
  return findCandidates(world, kind, call, {
    byokKeys,
    rules: policy.rules,
    bounds: actor.key_hash !== null || run.isDry ? limits : NO_BOUNDS,
    session: findSession(actor, kind, call),
    ...(previousEndpointId ? { previousEndpointId } : {}),
  })
}

const NO_KEYS: DecryptedKey[] = []

const NO_BOUNDS: Limit[] = []

/**
 * The first half of `planRoute`: finds all endpoints that may serve, and why others may not. Throws
 * 400 as it does.
 */
export function findCandidates<K extends Kind>(
  world: ExtendedWorld,
  kind: K,
  call: Work[K]['call'],
  inputs: PlanInputs,
): Candidates<K> {
  const { byokKeys, rules, bounds, session, previousEndpointId } = inputs
  const dropped: DroppedEndpoint[] = []
  const { models, strategy, stages } = resolveModels(world, kind, call, inputs)
  const isAllowed = (endpoint: Endpoint, resolved: ResolvedModel<K>) => {
    const droppedEndpoint =
      findDrop(endpoint, kind, resolved, rules) ??
      (resolved.model.unlisted ? findUncounted(endpoint, bounds) : undefined)
    if (droppedEndpoint) dropped.push(droppedEndpoint)
    return !droppedEndpoint
  }
  const candidates = models.map((resolved): CandidateGroup => {
    const { model, sort } = resolved
    const tiers = buildTiers(world, model, call, { byokKeys, dropped }).map(tier =>
      tier.filter(endpoint => isAllowed(endpoint, resolved)),
    )
    return {
      sort,
      tiers,
      stickyEndpointId:
        previousEndpointId ??
        (session ? world.traffic.sessions.findStickyId(session, model.id) : undefined),
    }
  })
  const groups = call.routing.partition === 'none' ? mergeGroups(candidates) : candidates
  return { groups, dropped, models, strategy, stages }
}

// The caller's own constraints come first, so that a guardrail is named exactly when the call would
// have been served without it.
function findDrop<K extends Kind>(
  endpoint: Endpoint,
  kind: K,
  { model, effectiveCall, sort }: ResolvedModel<K>,
  rules: Rule[],
): DroppedEndpoint | undefined {
  const excludedBy =
    isUnbound(kind, effectiveCall, model, sort) && isForAll(endpoint, model, kind, effectiveCall)
      ? findUnfit(endpoint, kind, effectiveCall)
      : findViolatedConstraint(endpoint, model, kind, effectiveCall, sort)
  if (excludedBy !== undefined) return { endpoint, excludedBy }
  const rule = rules.find(candidate => candidate.excludes(endpoint))
  return rule && { endpoint, excludedBy: rule.excludedBy, rule }
}

// Most calls have no preference, and most models refuse no content.
function isUnbound<K extends Kind>(
  kind: K,
  call: Work[K]['call'],
  { refused_modalities }: Model,
  sort: SortKey | undefined,
): boolean {
  if (sort || refused_modalities.length > 0) return false
  for (const _ in call.routing) return false
  return kinds[kind].understanding.getServiceTier(call) === undefined
}

/** Whether an endpoint may serve every such call that it can: found once for each. */
function isForAll<K extends Kind>(
  endpoint: Endpoint,
  model: Model,
  kind: K,
  call: Work[K]['call'],
): boolean {
  const known = forAll.get(endpoint)
  if (known?.kind === kind) return known.isForAll
  const found = findGeneralConstraint(endpoint, model, kind, call) === undefined
  forAll.set(endpoint, { kind, isForAll: found })
  return found
}

const forAll = new WeakMap<Endpoint, { kind: Kind; isForAll: boolean }>()

/** Finds what a call contains or asks for that an endpoint cannot do. */
function findUnfit<K extends Kind>(
  endpoint: Endpoint,
  kind: K,
  call: Work[K]['call'],
): string | undefined {
  const verdict = kinds[kind].understanding.checkEndpoint(call, endpoint)
  return verdict === true ? undefined : verdict
}

// A limit of money cannot hold what it cannot count.
const findUncounted = (
  endpoint: Endpoint,
  bounds: Limit[] = NO_BOUNDS,
): DroppedEndpoint | undefined =>
  endpoint.prices === null && bounds.some(({ byok }) => byok || !endpoint.is_byok)
    ? { endpoint, excludedBy: UNKNOWN_PRICE }
    : undefined

/**
 * The second half of `planRoute`: returns the candidates in the order in which they are tried.
 * Throws 404 as it does.
 */
export function orderCandidates<K extends Kind>(
  world: ExtendedWorld,
  kind: K,
  call: Work[K]['call'],
  candidates: Candidates<K>,
): Plan<K> {
  const { groups, dropped } = candidates
  let endpoints: Endpoint[] = []
  for (const group of groups) {
    const ordered: Endpoint[] = []
    for (const tier of group.tiers) ordered.push(...orderTier(world, tier, kind, call, group))
    endpoints.push(...applyFallbackPreference(world, ordered, call.routing))
  }
  if (endpoints.length === 0) {
    const models = candidates.models.map(({ model }) => model)
    throw noEndpointsLeft(kind, call, dropped, models)
  }
  // One needs no order.
  if (endpoints.length > 1) endpoints = deferEndpoints(world, endpoints, call.routing)
  return { ...candidates, endpoints }
}

/** Merges the endpoints of all models into the group of the first. */
function mergeGroups(groups: CandidateGroup[]): CandidateGroup[] {
  const [first] = groups
  if (!first) return []
  return [
    { ...first, tiers: first.tiers.map((_, i) => groups.flatMap(({ tiers }) => tiers[i] ?? [])) },
  ]
}

/** An order that the caller asks for leaves nothing to chance. */
function orderTier<K extends Kind>(
  world: ExtendedWorld,
  tier: Endpoint[],
  kind: K,
  call: Work[K]['call'],
  group: CandidateGroup,
) {
  if (tier.length < 2) return tier
  const { order } = call.routing
  if (order) return moveNamedFirst(tier, order)
  const sortKey = getSortKey(call.routing, group)
  const ordered = sortKey
    ? sortEndpoints(world, tier, sortKey, call.stream)
    : listTieBreakers(world, kind, call, group, tier).reduceRight(
        sortByNumber,
        shuffleByWeight(world, tier),
      )
  const requested = kinds[kind].understanding.getServiceTier(call)
  return moveTierFirst(world, ordered, requested, call.stream)
}

/**
 * Lists what takes precedence over the shuffle, the most important first: of two endpoints whose
 * numbers differ, the smaller goes first. An endpoint that calls tools worse than others does not
 * go first because it serves the session.
 */
export function listTieBreakers<K extends Kind>(
  world: ExtendedWorld,
  kind: K,
  call: Work[K]['call'],
  { stickyEndpointId }: Pick<CandidateGroup, 'stickyEndpointId'>,
  tier: Endpoint[],
): ((endpoint: Endpoint) => number)[] {
  const poorToolCallers = kinds[kind].understanding.offersTools(call)
    ? findPoorToolCallers(world, tier)
    : NO_ENDPOINTS
  return [
    endpoint => Number(endpoint.id !== stickyEndpointId || poorToolCallers.has(endpoint)),
    endpoint => Number(!kinds[kind].understanding.supportsPreferred(call, endpoint)),
    endpoint => Number(poorToolCallers.has(endpoint)),
  ]
}

/**
 * Returns what the endpoints are sorted by, if anything: by the caller, the variant or the
 * workspace.
 */
export const getSortKey = (
  { sort, defaultSort }: RoutingPreferences,
  group: Pick<CandidateGroup, 'sort'>,
): SortKey | undefined => sort ?? group.sort ?? defaultSort

/** Without fallbacks only the first endpoint is tried, unless the caller gives an order. */
const applyFallbackPreference = (
  world: ExtendedWorld,
  endpoints: Endpoint[],
  routing: RoutingPreferences,
) =>
  routing.allow_fallbacks === false && !routing.order
    ? deferEndpoints(world, endpoints, routing).slice(0, 1)
    : endpoints

/**
 * Builds the tiers of a model: endpoints with the callers' own keys, then with the gateway's
 * credential, then with own keys that are fallbacks (wire reference K.1). The gateway's endpoint is
 * dropped if a key allows no other credential beside it.
 */
export function buildTiers(
  { catalog }: ExtendedWorld,
  model: Model,
  call: Work[Kind]['call'],
  { byokKeys, dropped }: { byokKeys: DecryptedKey[]; dropped: DroppedEndpoint[] },
): Endpoint[][] {
  const spoken = call.kind === 'text' && model.spoken ? listSpoken(model, call.dialect) : null
  const endpoints = spoken ?? model.endpoints
  if (byokKeys.length === 0) return [endpoints]
  return buildOwnTiers(catalog, model, endpoints, { byokKeys, dropped })
}

function buildOwnTiers(
  catalog: Catalog,
  model: Model,
  endpoints: Endpoint[],
  { byokKeys, dropped }: { byokKeys: DecryptedKey[]; dropped: DroppedEndpoint[] },
): Endpoint[][] {
  // A list may hold other names of the model.
  const isThisModel = (slug: string) =>
    slug === model.id || catalog.models.get(slug)?.id === model.id
  const applicable = byokKeys.filter(({ key }) => key.allowed_models?.some(isThisModel) ?? true)
  const shared = endpoints.filter(endpoint => {
    const isWithheld = isGatewayKeyWithheld(
      byokKeys,
      applicable,
      getPublicSlug(endpoint.provider.slug),
    )
    if (isWithheld) dropped.push({ endpoint, excludedBy: BYOK_ONLY })
    return !isWithheld
  })
  return [
    listByokEndpoints(endpoints, applicable, false),
    shared,
    listByokEndpoints(endpoints, applicable, true),
  ]
}

const isGatewayKeyWithheld = (
  byokKeys: DecryptedKey[],
  applicable: DecryptedKey[],
  provider: string,
) =>
  byokKeys.some(({ key }) => key.is_byok_only && key.provider === provider) ||
  applicable.some(({ key }) => key.is_required && key.provider === provider)

const listByokEndpoints = (
  endpoints: Endpoint[],
  applicable: DecryptedKey[],
  isFallback: boolean,
): Endpoint[] =>
  endpoints.flatMap(endpoint =>
    applicable
      .filter(({ key }) => key.is_fallback === isFallback)
      .flatMap(key => toByokEndpoint(endpoint, key) ?? []),
  )

// Created once per key, not per call.
function toByokEndpoint(
  endpoint: Endpoint,
  { key, credentialVersion, providers, endpoints }: DecryptedKey,
): Endpoint | undefined {
  const provider = providers.get(endpoint.provider.slug)
  if (!provider) return undefined
  const existing = endpoints.get(endpoint)
  if (existing) return existing
  const id = `${endpoint.id} ${key.id} ${credentialVersion}`
  const created: Endpoint = {
    ...endpoint,
    id,
    provider,
    data_policy: toDataPolicy(endpoint, key.declared_zdr),
    is_byok: true,
  }
  endpoints.set(endpoint, created)
  return created
}

function toDataPolicy(
  { data_policy }: Endpoint,
  declared_zdr: boolean | null,
): Endpoint['data_policy'] {
  if (declared_zdr === null) return data_policy
  if (declared_zdr) return { ...data_policy, retention_days: 0 }
  return data_policy.retention_days === 0 ? { ...data_policy, retention_days: null } : data_policy
}
