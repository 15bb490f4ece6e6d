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

/** The endpoints to try, in order, out of all that there are. */
export interface Plan<K extends Kind = Kind> extends Candidates<K> {
  endpoints: Endpoint[]
}

/** A plan to ask just these. */
export const planTo = <K extends Kind>(endpoints: Endpoint[]): Plan<K> => ({
  endpoints,
  groups: [{ turns: [endpoints], sort: undefined, place: undefined }],
  dropped: [],
  models: [],
  strategy: 'direct',
  stages: [],
})

/** A plan that nobody will follow: all who may serve, in no order. */
export const unordered = <K extends Kind>(candidates: Candidates<K>): Plan<K> => ({
  ...candidates,
  endpoints: candidates.groups.flatMap(({ turns }) => turns.flat()),
})

/**
 * Who may serve the call. Of each model that it names: the endpoints that there are, without those that a wish of the call or one of the
 * `rules` excludes, in the order that the caller asks for, or else drawn at random, the cheaper the likelier. `own` are the provider keys that
 * may be used for it, which have their turn before the gateway's. Where its `session` was answered last comes before chance. Those that
 * miss what is preferred stand behind, and those that rest last. Throws 400 for a model that is not in the catalogue or does another kind
 * of work, and 404 when a wish or a guardrail excludes the last endpoint, naming it.
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

/** Plans a step: who may serve it by all that holds at this moment, and in which order they are asked. Throws as `planRoute` does. */
export function planStep<K extends Kind>(world: InferenceWorld, step: Step<K>): void {
  step.candidates = findCandidates(world, step)
  step.plan = planAmong(world, step.run.kind, step.call, step.candidates)
}

/** Who may serve a step. A step stays where the one before it was answered, if it may. Throws 400 as `planRoute` does. */
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

/** Who may serve a call, before anybody is put in order, and why the others may not. */
export interface Candidates<K extends Kind = Kind> extends Wanted<K> {
  groups: Group[]
  dropped: Dropped[]
}

/** The first half of `planRoute`: all that may serve, and why the others may not. Throws 400 as it does. */
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

// The caller's own wishes first, so that a guardrail is named exactly where the call would have gone somewhere without it.
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

/** The second half: these in the order in which they are tried. Throws 404 as it does. */
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

/** Endpoints that are put in order together, turn by turn. */
export interface Group {
  turns: Endpoint[][]
  /** What the model's variant says. */
  sort: SortKey | undefined
  /** The id of the endpoint where the call's session is. */
  place: string | undefined
}

/** The endpoints of all models as if they were of one, the first. */
function asOne(groups: Group[]): Group[] {
  const [first] = groups
  if (!first) return []
  return [
    { ...first, turns: first.turns.map((_, i) => groups.flatMap(({ turns }) => turns[i] ?? [])) },
  ]
}

/** An order that was asked for leaves nothing to chance. */
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
 * What rules over the lot, the weightiest first: of two endpoints whose numbers differ the one with the smaller goes first. Of those who call
 * tools worse than others none goes first for being where the call's session is.
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

/** What the endpoints are sorted by, if by anything: the caller's word, the variant's, the workspace's. */
export const sortFor = (
  { sort, usualSort }: RoutingPreferences,
  group: Pick<Group, 'sort'>,
): SortKey | undefined => sort ?? group.sort ?? usualSort

/** Without fallbacks the first that the caller left to us is the only one. */
const picked = (gateway: InferenceWorld, endpoints: Endpoint[], routing: RoutingPreferences) =>
  routing.allow_fallbacks === false && !routing.order
    ? deferred(gateway, endpoints, routing).slice(0, 1)
    : endpoints

/**
 * A model's endpoints in their turns: with the callers' own keys first, then with the gateway's credential, and last with those keys
 * that are fallbacks (wire reference K.1). Where a key wants no other credential beside it, the gateway's is dropped.
 */
export function turnsOf(
  { catalog }: InferenceWorld,
  model: Model,
  own: OpenedKey[],
  dropped: Dropped[],
): Endpoint[][] {
  if (own.length === 0) return [model.endpoints]
  // A list may have the model's other names.
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

// Made once for a key, not for each call.
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
