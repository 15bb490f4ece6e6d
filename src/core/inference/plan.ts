import type { OpenedKey } from '../catalog/byok/opened.ts'
import { byokKeysFor } from '../catalog/byok.ts'
import type { Endpoint, Model } from '../catalog/models.ts'
import { publicSlugOf } from '../catalog/providers/called.ts'
import type { RoutingPreferences, SortKey } from '../language/routing.ts'
import type { Kind, Work } from '../language/work.ts'
import type { Rule } from '../policy/rules.ts'
import { kinds } from './kinds.ts'
import type { Held } from './plan/choices.ts'
import { asNamed, by, deferred, drawn, NOBODY, sorted, worse } from './plan/order.ts'
import { type Dropped, nobodyLeft } from './plan/refusal.ts'
import { type Wanted, type WantedModel, wantedBy } from './plan/wanted.ts'
import { BYOK_ONLY, forbidding } from './plan/wishes.ts'
import type { Step } from './run.ts'
import { sessionOf } from './traffic.ts'
import type { InferenceWorld } from './world.ts'

/** The endpoints to try, in order, out of all candidates. */
export interface Plan<K extends Kind = Kind> extends Candidates<K> {
  endpoints: Endpoint[]
}

/** Creates a plan of just these endpoints. */
export const planTo = <K extends Kind>(endpoints: Endpoint[]): Plan<K> => ({
  endpoints,
  groups: [{ turns: [endpoints], sort: undefined, place: undefined }],
  dropped: [],
  models: [],
  strategy: 'direct',
  stages: [],
})

/** Returns a plan that is never carried out: all candidates, in no particular order. */
export const unordered = <K extends Kind>(candidates: Candidates<K>): Plan<K> => ({
  ...candidates,
  endpoints: candidates.groups.flatMap(({ turns }) => turns.flat()),
})

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
  gateway: InferenceWorld,
  kind: K,
  call: Work[K]['call'],
  held: Partial<Held> = {},
): Plan<K> =>
  planAmong(
    gateway,
    kind,
    call,
    candidatesFor(gateway, kind, call, { own: [], rules: [], session: null, ...held }),
  )

/**
 * Plans a step: finds its candidates by what holds at this moment, and orders them. Throws as
 * `planRoute` does.
 */
export function planStep<K extends Kind>(world: InferenceWorld, step: Step<K>): void {
  step.candidates = findCandidates(world, step)
  step.plan = planAmong(world, step.run.kind, step.call, step.candidates)
}

/**
 * Finds the candidates of a step. A step stays at the endpoint that answered the previous one, if
 * that is still allowed. Throws 400 as `planRoute` does.
 */
export function findCandidates<K extends Kind>(
  world: InferenceWorld,
  { run, call, number }: Step<K>,
): Candidates<K> {
  const { actor, kind, policy } = run
  const at = number > 1 ? run.steps[number - 2]?.begun?.endpoint.id : undefined
  const own = byokKeysFor(world, actor)
  return candidatesFor(world, kind, call, {
    own,
    rules: policy.rules,
    session: sessionOf(actor, kind, call),
    ...(at ? { at } : {}),
  })
}

/** The endpoints that may serve a call, before they are ordered, and why others may not. */
export interface Candidates<K extends Kind = Kind> extends Wanted<K> {
  groups: Group[]
  dropped: Dropped[]
}

/**
 * The first half of `planRoute`: finds all endpoints that may serve, and why others may not. Throws
 * 400 as it does.
 */
export function candidatesFor<K extends Kind>(
  gateway: InferenceWorld,
  kind: K,
  call: Work[K]['call'],
  held: Held,
): Candidates<K> {
  const { own, rules, session, at } = held
  const dropped: Dropped[] = []
  const { models, strategy, stages } = wantedBy(gateway, kind, call, held)
  const isAllowed = (endpoint: Endpoint, wanted: WantedModel<K>) => {
    const drop = dropOf(endpoint, kind, wanted, rules)
    if (drop) dropped.push(drop)
    return !drop
  }
  const candidates = models.map((wanted): Group => {
    const { model, sort } = wanted
    const turns = turnsOf(gateway, model, own, dropped).map(turn =>
      turn.filter(endpoint => isAllowed(endpoint, wanted)),
    )
    return {
      sort,
      turns,
      place: at ?? (session ? gateway.traffic.sessions.placeOf(session, model.id) : undefined),
    }
  })
  const groups = call.routing.partition === 'none' ? asOne(candidates) : candidates
  return { groups, dropped, models, strategy, stages }
}

// The caller's own constraints come first, so that a guardrail is named exactly when the call would
// have been served without it.
function dropOf<K extends Kind>(
  endpoint: Endpoint,
  kind: K,
  { model, asked }: WantedModel<K>,
  rules: Rule[],
): Dropped | undefined {
  const by = forbidding(endpoint, model, kind, asked)
  if (by !== undefined) return { endpoint, by }
  const rule = rules.find(one => one.excludes(endpoint))
  return rule && { endpoint, by: rule.by, rule }
}

/**
 * The second half of `planRoute`: returns the candidates in the order in which they are tried.
 * Throws 404 as it does.
 */
export function planAmong<K extends Kind>(
  gateway: InferenceWorld,
  kind: K,
  call: Work[K]['call'],
  candidates: Candidates<K>,
): Plan<K> {
  const { groups, dropped } = candidates
  const endpoints = groups.flatMap(group => {
    const ordered = group.turns.flatMap(turn => inOrder(gateway, turn, kind, call, group))
    return picked(gateway, ordered, call.routing)
  })
  if (endpoints.length === 0) throw nobodyLeft(kind, call, dropped)
  return { ...candidates, endpoints: deferred(gateway, endpoints, call.routing) }
}

/** Endpoints that are ordered together, tier by tier. */
export interface Group {
  turns: Endpoint[][]
  /** The sort key of the model's variant. */
  sort: SortKey | undefined
  /** The id of the endpoint that serves the call's session. */
  place: string | undefined
}

/** Merges the endpoints of all models into the group of the first. */
function asOne(groups: Group[]): Group[] {
  const [first] = groups
  if (!first) return []
  return [
    { ...first, turns: first.turns.map((_, i) => groups.flatMap(({ turns }) => turns[i] ?? [])) },
  ]
}

/** An order that the caller asks for leaves nothing to chance. */
function inOrder<K extends Kind>(
  gateway: InferenceWorld,
  turn: Endpoint[],
  kind: K,
  call: Work[K]['call'],
  group: Group,
) {
  const { order } = call.routing
  if (order) return asNamed(turn, order)
  const key = sortFor(call.routing, group)
  if (key) return sorted(gateway, turn, key, call.stream)
  return leaningsOf(gateway, kind, call, group, turn).reduceRight(by, drawn(gateway, turn))
}

/**
 * Lists what takes precedence over the shuffle, the most important first: of two endpoints whose
 * numbers differ, the smaller goes first. An endpoint that calls tools worse than others does not
 * go first because it serves the session.
 */
export function leaningsOf<K extends Kind>(
  gateway: InferenceWorld,
  kind: K,
  call: Work[K]['call'],
  { place }: Pick<Group, 'place'>,
  turn: Endpoint[],
): ((endpoint: Endpoint) => number)[] {
  const behind = kinds[kind].understanding.offersTools(call) ? worse(gateway, turn) : NOBODY
  return [
    endpoint => Number(endpoint.id !== place || behind.has(endpoint)),
    endpoint => Number(!kinds[kind].understanding.suits(call, endpoint)),
    endpoint => Number(behind.has(endpoint)),
  ]
}

/**
 * Returns what the endpoints are sorted by, if anything: by the caller, the variant or the
 * workspace.
 */
export const sortFor = (
  { sort, usualSort }: RoutingPreferences,
  group: Pick<Group, 'sort'>,
): SortKey | undefined => sort ?? group.sort ?? usualSort

/** Without fallbacks only the first endpoint is tried, unless the caller gives an order. */
const picked = (gateway: InferenceWorld, endpoints: Endpoint[], routing: RoutingPreferences) =>
  routing.allow_fallbacks === false && !routing.order
    ? deferred(gateway, endpoints, routing).slice(0, 1)
    : endpoints

/**
 * Builds the tiers of a model: endpoints with the callers' own keys, then with the gateway's
 * credential, then with own keys that are fallbacks (wire reference K.1). The gateway's endpoint is
 * dropped if a key allows no other credential beside it.
 */
export function turnsOf(
  { catalog }: InferenceWorld,
  model: Model,
  own: OpenedKey[],
  dropped: Dropped[],
): Endpoint[][] {
  if (own.length === 0) return [model.endpoints]
  // A list may hold other names of the model.
  const isIt = (slug: string) => slug === model.id || catalog.models.get(slug)?.id === model.id
  const fitting = own.filter(({ key }) => key.allowed_models?.some(isIt) ?? true)
  const shared = model.endpoints.filter(endpoint => {
    const isWithheld = withholds(own, fitting, publicSlugOf(endpoint.provider.slug))
    if (isWithheld) dropped.push({ endpoint, by: BYOK_ONLY })
    return !isWithheld
  })
  return [withKeys(model, fitting, false), shared, withKeys(model, fitting, true)]
}

const withholds = (own: OpenedKey[], fitting: OpenedKey[], provider: string) =>
  own.some(({ key }) => key.is_byok_only && key.provider === provider) ||
  fitting.some(({ key }) => key.is_required && key.provider === provider)

const withKeys = ({ endpoints }: Model, fitting: OpenedKey[], isFallback: boolean): Endpoint[] =>
  endpoints.flatMap(endpoint =>
    fitting
      .filter(({ key }) => key.is_fallback === isFallback)
      .flatMap(one => withKey(endpoint, one) ?? []),
  )

// Created once per key, not per call.
function withKey(
  endpoint: Endpoint,
  { key, credentials, providers, endpoints }: OpenedKey,
): Endpoint | undefined {
  const provider = providers.get(endpoint.provider.slug)
  if (!provider) return undefined
  const known = endpoints.get(endpoint)
  if (known) return known
  const id = `${endpoint.id} ${key.id} ${credentials}`
  const made: Endpoint = {
    ...endpoint,
    id,
    provider,
    data_policy: policyOf(endpoint, key.declared_zdr),
    is_byok: true,
  }
  endpoints.set(endpoint, made)
  return made
}

function policyOf(
  { data_policy }: Endpoint,
  declared_zdr: boolean | null,
): Endpoint['data_policy'] {
  if (declared_zdr === null) return data_policy
  if (declared_zdr) return { ...data_policy, retention_days: 0 }
  return data_policy.retention_days === 0 ? { ...data_policy, retention_days: null } : data_policy
}
