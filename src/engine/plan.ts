import { getOwn } from '../base/json.ts'
import type { TextCall } from '../language/call.ts'
import type { Router, RoutingPreferences, SortKey } from '../language/routing.ts'
import type { Kind, Work } from '../language/work.ts'
import type { Limit } from '../limits/ledger.ts'
import type { Rule } from '../limits/policy-world.ts'
import type { DecryptedKey } from '../resources/byok/decrypted-keys.ts'
import { listUsableByokKeys } from '../resources/byok.ts'
import type { Catalog, Endpoint, Model } from '../resources/models/catalog.ts'
import { changeEndpoints } from '../resources/models/derived.ts'
import { listSpoken } from '../resources/models.ts'
import { getPublicSlug } from '../resources/providers/names.ts'
import { findRouterModel } from '../resources/routers.ts'
import type { ExtendedWorld } from './extension.ts'
import { kinds } from './kinds.ts'
import type {
  CandidateGroup,
  Candidates,
  ModelResolution,
  PipelineStage,
  Plan,
  PlanInputs,
  ResolvedModel,
  RouterDecision,
  RouterReference,
  Strategy,
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
import {
  type DroppedEndpoint,
  noEndpointsLeft,
  unknownModel,
  unknownVariant,
  wrongEndpoint,
} from './plan/refusal.ts'
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

/**
 * Resolves the names in a call to models. Two names of one model are one model, and a router's name
 * stands for the models that it picks. Throws 400 for a name that is not in the catalogue or does
 * another kind of work. Throws 404 if the call names only routers and they have nothing to pick
 * from.
 */
function resolveModels<K extends Kind>(
  world: ExtendedWorld,
  kind: K,
  call: Work[K]['call'],
  inputs: PlanInputs,
): ModelResolution<K> {
  const [first = ''] = call.models
  // As most calls: one model, which the catalogue has by this name.
  const found = call.models.length === 1 ? world.catalog.models.get(first) : undefined
  if (!found) return resolveEach(world, kind, call, inputs)
  const strategy = first.startsWith('~') ? 'latest' : found.id === first ? 'direct' : 'alias'
  return { models: [resolveListed(world, kind, call, first, found)], strategy, stages: [] }
}

function resolveEach<K extends Kind>(
  world: ExtendedWorld,
  kind: K,
  call: Work[K]['call'],
  inputs: PlanInputs,
): ModelResolution<K> {
  const models = new Map<string, ResolvedModel<K>>()
  const decisions: RouterDecisions = new Map()
  for (const slug of call.models) {
    const router = findRouterReference(world, slug)
    const resolved = router
      ? resolveRouter(world, router, { kind, call, inputs, decisions })
      : [resolveModel(world, kind, call, slug)]
    for (const resolvedModel of resolved)
      if (!models.has(resolvedModel.model.id)) models.set(resolvedModel.model.id, resolvedModel)
  }
  const decided = [...decisions.values()]
  const refusal = decided.find(resolvedModel => resolvedModel.refusal)?.refusal
  if (models.size === 0 && refusal) throw refusal
  const [first = ''] = call.models
  return {
    models: rankModels(world, call, [...models.values()]),
    strategy: findStrategy(world, first),
    stages: decided.map(({ stage }) => stage),
  }
}

/** What routers have picked for a call, by the router and the variant, unless that only sorts. */
type RouterDecisions = Map<string, RouterDecision>

/** A call that names a router, and what is known of it. */
interface RouterCall<K extends Kind> {
  kind: K
  call: Work[K]['call']
  inputs: PlanInputs
  decisions: RouterDecisions
}

// A second name of the same router would pick the same models, and adds nothing.
function resolveRouter<K extends Kind>(
  world: ExtendedWorld,
  reference: RouterReference,
  { kind, call, inputs, decisions }: RouterCall<K>,
): ResolvedModel<K>[] {
  const { slug, variant, model: routerModel } = reference
  const sort = getOwn(SORTS, variant)
  const isKnown = sort || kinds[kind].understanding.listVariants(routerModel).includes(variant)
  if (variant !== '' && !isKnown) throw unknownModel(world.catalog, slug)
  const decisionKey = reference.router + (sort ? '' : variant)
  if (decisions.has(decisionKey)) return []
  const effectiveCall = toEffectiveCall(world, kind, call, variant)
  const decision = decideWithRouter(world, kind, reference, effectiveCall, inputs)
  decisions.set(decisionKey, decision)
  return decision.models.map((model): ResolvedModel<K> => {
    const fitted = fitToModel<K>(world, effectiveCall, model)
    return { model, sort, effectiveCall: fitted.call, stages: fitted.stages, router: reference }
  })
}

/** Returns the call as a model gets it under this variant of its name, with what plugins add. */
function toEffectiveCall<K extends Kind>(
  world: ExtendedWorld,
  kind: K,
  call: Work[K]['call'],
  variant: string,
): Work[K]['call'] {
  const variantCall = kinds[kind].understanding.applyVariant(call, variant)
  return variantCall.plugins ? extendCall<K>(world, variantCall) : variantCall
}

function extendCall<K extends Kind>(world: ExtendedWorld, call: Work[K]['call']): Work[K]['call'] {
  let extended = call
  for (const { choose } of world.extensions)
    if (choose) extended = choose.extend<K>(world, extended)
  return extended
}

/**
 * Returns the call as this model gets it, and what is told of that. Most calls are not changed, and
 * then nothing is looked at but the model.
 */
function fitToModel<K extends Kind>(
  world: ExtendedWorld,
  call: Work[K]['call'],
  model: Model,
): { call: Work[K]['call']; stages: PipelineStage[] } {
  if (!call.plugins && !isFittedUnasked(world, model)) return { call, stages: NO_STAGES }
  let fitted = { call, stages: NO_STAGES }
  for (const { choose } of world.extensions) {
    const more = choose?.fit<K>(world, fitted.call, model)
    if (more) fitted = { call: more.call, stages: [...fitted.stages, ...more.stages] }
  }
  return fitted
}

const NO_STAGES: PipelineStage[] = []

/** Tells whether calls to this model are fitted unasked: to most they are not. Models do not change. */
function isFittedUnasked(world: ExtendedWorld, model: Model): boolean {
  const { extensions } = world
  const known = unasked.get(model)
  if (known?.extensions === extensions) return known.isFitted
  const isFitted = extensions.some(({ choose }) => choose?.fitsUnasked(world, model) ?? false)
  unasked.set(model, { extensions, isFitted })
  return isFitted
}

const unasked = new WeakMap<Model, { extensions: ExtendedWorld['extensions']; isFitted: boolean }>()

/** Sorts the models of a call as extensions ask for. Most calls have one, and nothing to sort. */
function rankModels<K extends Kind>(
  world: ExtendedWorld,
  call: Work[K]['call'],
  models: ResolvedModel<K>[],
): ResolvedModel<K>[] {
  if (models.length < 2) return models
  let sorted = models
  for (const { choose } of world.extensions) if (choose) sorted = choose.rank(world, call, sorted)
  return sorted
}

/** Variants that only sort (wire reference K.4). */
const SORTS: Record<string, SortKey> = {
  ':nitro': 'throughput',
  ':floor': 'price',
  ':exacto': 'exacto',
}

function resolveModel<K extends Kind>(
  world: ExtendedWorld,
  kind: K,
  call: Work[K]['call'],
  slug: string,
): ResolvedModel<K> {
  const { catalog } = world
  const listed = catalog.models.get(slug)
  if (listed) return resolveListed(world, kind, call, slug, listed)
  const { base, variant } = splitVariant(slug)
  const found = catalog.models.get(base)
  if (!found) throw unknownModel(catalog, slug)
  const model = requireWork(kind, slug, found)
  const sort = getOwn(SORTS, variant)
  if (!sort) {
    const variants = kinds[kind].understanding.listVariants(model)
    if (!variants.includes(variant))
      throw unknownVariant(catalog, base, variant, [...Object.keys(SORTS), ...variants])
  }
  const { call: effectiveCall, stages } = fitToModel<K>(
    world,
    toEffectiveCall(world, kind, call, variant),
    model,
  )
  return { model, sort, effectiveCall, stages }
}

/** Resolves a name of a model that has no variant. */
function resolveListed<K extends Kind>(
  world: ExtendedWorld,
  kind: K,
  call: Work[K]['call'],
  slug: string,
  found: Model,
): ResolvedModel<K> {
  const model = requireWork(kind, slug, found)
  const asked = call.plugins ? extendCall<K>(world, call) : call
  const { call: effectiveCall, stages } = fitToModel<K>(world, asked, model)
  return { model, sort: undefined, effectiveCall, stages }
}

/** Returns a model that does this kind of work, or may. Throws 400 for one that does another. */
function requireWork<K extends Kind>(kind: K, slug: string, found: Model): Model {
  const { matchesModalities, outputName } = kinds[kind]
  const model = found.unlisted ? assumeOutput(found, outputName) : found
  if (!matchesModalities(model.output_modalities))
    throw wrongEndpoint(slug, `gives ${model.output_modalities.join(' and ')}, not ${outputName}`)
  return model
}

// What a model that no list has answers with is not known: its provider refuses what it cannot do.
const assumeOutput = (model: Model, output: string): Model =>
  output === 'text' || model.output_modalities.join() !== 'text'
    ? model
    : {
        ...changeEndpoints(model, one => ({ ...one, output_modalities: [output] })),
        output_modalities: [output],
      }

/** Splits a slug into the model's name and its variant. */
function splitVariant(slug: string): { base: string; variant: string } {
  const at = slug.lastIndexOf(':')
  return at === -1
    ? { base: slug, variant: '' }
    : { base: slug.slice(0, at), variant: slug.slice(at) }
}

/** The public list has no word for `switchyard`: it chooses as the auto router does. */
const ROUTER_STRATEGIES: Record<Router, Strategy> = {
  auto: 'auto',
  'auto-beta': 'auto',
  free: 'free',
  'pareto-code': 'pareto',
  switchyard: 'auto',
  fusion: 'fusion',
  bodybuilder: 'bodybuilder',
}

// Another name of a model is an alias. A name that follows the newest model of a family is `latest`
// (wire reference K.4).
function findStrategy(world: ExtendedWorld, slug: string): Strategy {
  const { catalog } = world
  if (slug.startsWith('~')) return 'latest'
  const router = findRouterReference(world, slug)?.router
  if (router) return ROUTER_STRATEGIES[router]
  const name = catalog.models.has(slug) ? slug : splitVariant(slug).base
  return catalog.models.get(name)?.id !== name ? 'alias' : 'direct'
}

/**
 * Finds the router of this name. A model of the catalogue takes precedence over a router of the
 * same name.
 */
export function findRouterReference(
  { catalog, config }: ExtendedWorld,
  slug: string,
): RouterReference | undefined {
  if (catalog.models.has(slug)) return undefined
  const at = slug.indexOf(':')
  const name = at === -1 ? slug : slug.slice(0, at)
  const model = findRouterModel(config, name)
  return model?.router && { slug, router: model.router, variant: slug.slice(name.length), model }
}

/** Has a router pick models for a call. Throws 400 for a call that is not for text. */
function decideWithRouter<K extends Kind>(
  world: ExtendedWorld,
  kind: K,
  { slug, router }: RouterReference,
  call: Work[K]['call'],
  inputs: PlanInputs,
): RouterDecision {
  if (!isText(call)) throw wrongEndpoint(slug, `gives text, not ${kinds[kind].outputName}`)
  for (const { choose } of world.extensions) {
    const decision = choose?.decide(world, router, { ...inputs, call })
    if (decision) return decision
  }
  throw unknownModel(world.catalog, slug)
}

const isText = (call: Work[Kind]['call']): call is TextCall => call.kind === 'text'
