import { denied, GatewayError } from '../errors.ts'
import { type Actor, actorWith } from '../identity/actor.ts'
import { managedKey } from '../identity/keys.ts'
import { managedWorkspace } from '../identity/management.ts'
import { usdOf } from '../kernel/money.ts'
import type { Kind, Work } from '../language/work.ts'
import type { Amounts, Need } from '../ledger/ledger.ts'
import { type Policy, policyFor } from '../policy/effective.ts'
import { mayStill, mustBeAdmissible } from './admit.ts'
import { explainedDrop, notPayable, notPicked } from './explain/dropped.ts'
import type { Explanation } from './explain/explanation.ts'
import { closing, explainedPolicy, type Question } from './explain/policy.ts'
import { explainedEndpoint, type Route } from './explain/route.ts'
import type { Filtering } from './filters/filtering.ts'
import { filteredBy } from './filters.ts'
import { candidatesOf } from './infer.ts'
import { needOf } from './need.ts'
import { chancesOf } from './plan/chance.ts'
import { askedOf } from './plan/wanted.ts'
import { type Candidates, type Plan, planAmong } from './plan.ts'
import { isPayable } from './running.ts'
import type { InferenceWorld } from './world.ts'

export { Explanation } from './explain/explanation.ts'

/** As whom a dry run is made: with the key of this hash, or with none in a workspace, the asker's own where none is named. */
export interface As {
  key?: string | undefined
  workspace_id?: string | undefined
}

/**
 * What would become of a call, by the very functions that let one go out, and without it: nothing is counted, set aside, remembered,
 * recorded or sent. `understand` makes the call of whoever asks. Of what others manage, and it is held to, he hears neither the names nor
 * what is left, and only such sums as stand in refusals. Throws 403 for an inference key, 404 for a key that the asker does not manage,
 * 400 for such a workspace; whatever the call itself would be refused for is told in the answer.
 */
export async function explain<K extends Kind>(
  gateway: InferenceWorld,
  asker: Actor,
  as: As,
  kind: K,
  understand: (actor: Actor) => Work[K]['call'],
): Promise<Explanation> {
  if (asker.kind !== 'management' && asker.kind !== 'operator') throw denied('Only management keys can make dry runs')
  const actor = actorAs(gateway, asker, as)
  const policy = policyFor(gateway, actor)
  const known = await followed(gateway, actor, policy, kind, understand)
  return explanationOf(gateway, { asker, actor, policy }, kind, known)
}

function actorAs(gateway: InferenceWorld, asker: Actor, { key, workspace_id }: As): Actor {
  if (key !== undefined) return actorWith(gateway, managedKey(gateway, asker, key))
  return { kind: 'inference', user_id: '', workspace_id: managedWorkspace(gateway, asker, workspace_id), key_hash: null }
}

/** What is known of a call as far as it comes. */
interface Known<K extends Kind> {
  call: Work[K]['call'] | null
  filtering: Filtering | null
  candidates: Candidates<K> | null
  plan: Plan<K> | null
  need: Need | null
  amounts: Amounts | null
  error: GatewayError | null
}

/** A call's way up to where it would go out, by the steps of `infer`. */
async function followed<K extends Kind>(
  gateway: InferenceWorld,
  actor: Actor,
  policy: Policy,
  kind: K,
  understand: (actor: Actor) => Work[K]['call'],
): Promise<Known<K>> {
  const known: Known<K> = { call: null, filtering: null, candidates: null, plan: null, need: null, amounts: null, error: null }
  try {
    known.call = understand(actor)
    mustBeAdmissible(gateway, actor, known.call, policy)
    const { call, error, filtering } = await filteredBy(policy, kind, known.call)
    known.filtering = filtering
    if (error) throw error
    known.call = call
    mayStill(gateway, actor)
    known.candidates = candidatesOf(gateway, actor, kind, call)
    known.plan = planAmong(gateway, kind, call, known.candidates)
    known.need = needOf(gateway, kind, call, known.plan.endpoints, known.plan.models)
    known.amounts = gateway.ledger.grant(known.need, policy.bounds)
  } catch (thrown) {
    known.error = GatewayError.from(thrown)
  }
  return known
}

async function explanationOf<K extends Kind>(gateway: InferenceWorld, question: Question, kind: K, known: Known<K>): Promise<Explanation> {
  const { actor, policy } = question
  const { call, filtering, candidates, need, amounts, error } = known
  return {
    workspace: { id: actor.workspace_id, slug: gateway.memory.workspaces.get(actor.workspace_id)?.slug ?? null },
    key: keyOf(gateway, actor),
    policy: await explainedPolicy(gateway, question, filtering?.findings ?? null, need),
    region: call?.origin.region ?? null,
    preset: presetOf(gateway, call?.preset_id ?? null),
    requested: call?.models ?? [],
    models: candidates?.models.map(({ model }) => model.id) ?? [],
    strategy: candidates?.strategy ?? null,
    stages: candidates?.stages ?? [],
    endpoints: endpointsOf(gateway, policy, kind, known),
    dropped: droppedOf(gateway, policy, kind, known),
    set_aside: amounts && { credits: usdOrNull(amounts.own), byok: usdOrNull(amounts.byok) },
    error: error && refusalOf(error),
  }
}

function keyOf({ memory: { keys } }: InferenceWorld, { key_hash }: Actor): Explanation['key'] {
  const key = keys.get(key_hash ?? '')
  return key ? { hash: key.hash, name: key.name, label: key.label } : null
}

function presetOf({ memory: { presets } }: InferenceWorld, preset_id: string | null): Explanation['preset'] {
  const preset = preset_id === null ? undefined : [...presets.values()].find(({ id }) => id === preset_id)
  return preset ? { id: preset.id, slug: preset.slug, version: preset.designated_version.version } : null
}

function endpointsOf<K extends Kind>(
  gateway: InferenceWorld,
  { bounds }: Policy,
  kind: K,
  { call, candidates, plan, amounts }: Known<K>,
): Explanation['endpoints'] {
  if (!call || !candidates || !plan) return []
  const isLeft = (endpoint: Plan['endpoints'][number]) => !amounts || isPayable(amounts, endpoint)
  const groups = candidates.groups.map(group => ({ ...group, turns: group.turns.map(turn => turn.filter(isLeft)) }))
  const endpoints = plan.endpoints.filter(isLeft)
  const route: Route<K> = {
    kind,
    call,
    plan: { ...plan, endpoints },
    amounts: bounds.length > 0 ? amounts : null,
    // Where models are drawn too, each endpoint's chance is one among those that were.
    chances: plan.strategy === 'free' ? new Map() : chancesOf(gateway, kind, call, groups),
    places: new Set(groups.flatMap(({ place }) => place ?? [])),
  }
  return endpoints.map(endpoint => explainedEndpoint(gateway, { ...route, call: askedOf(plan.models, call, endpoint) }, endpoint))
}

function droppedOf<K extends Kind>(
  { ledger }: InferenceWorld,
  { bounds }: Policy,
  kind: K,
  { candidates, plan, need, amounts }: Known<K>,
): Explanation['dropped'] {
  const excluded = candidates?.dropped.map(one => explainedDrop(kind, one)) ?? []
  if (!candidates || !plan) return excluded
  const passedOver = notPicked(
    candidates.groups.flatMap(({ turns }) => turns.flat()),
    plan.endpoints,
  )
  const unpaid = need && amounts ? notPayable(plan.endpoints, amounts, closing(ledger, bounds, need)) : []
  return [...excluded, ...passedOver, ...unpaid]
}

const usdOrNull = (nanos: bigint | null): number | null => (nanos === null ? null : usdOf(nanos))

/** The failure as the envelope has it, without the ids of a request. */
const refusalOf = ({ status, type, message, metadata }: GatewayError): Explanation['error'] => ({
  code: status,
  message,
  metadata: { error_type: type, ...metadata },
})
