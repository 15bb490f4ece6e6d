import type { Endpoint } from '../catalog/models.ts'
import { denied, GatewayError } from '../errors.ts'
import { type Actor, actorWith } from '../identity/actor.ts'
import { managedKey } from '../identity/keys.ts'
import { managedWorkspace } from '../identity/management.ts'
import { usdOf } from '../kernel/money.ts'
import type { Kind, Work } from '../language/work.ts'
import { policyFor } from '../policy/effective.ts'
import { explainedDrop, notPayable, notPicked } from './explain/dropped.ts'
import type { Explanation } from './explain/explanation.ts'
import { closing, explainedPolicy, type Question } from './explain/policy.ts'
import { explainedEndpoint, type Route } from './explain/route.ts'
import { startRun } from './infer.ts'
import { chancesOf } from './plan/chance.ts'
import { askedOf } from './plan/wanted.ts'
import type { Group } from './plan.ts'
import { isPayable } from './reserve.ts'
import { type Run, Step } from './run.ts'
import { unsent, walk } from './stages.ts'
import type { InferenceWorld } from './world.ts'

export { Explanation } from './explain/explanation.ts'

/**
 * The identity of a dry run: the key of this hash, or no key and a workspace, by default the
 * asker's own.
 */
export interface As {
  key?: string | undefined
  workspace_id?: string | undefined
}

/**
 * Explains what would become of a call. It runs the same functions as a real call, up to where that
 * would be sent: nothing is counted, set aside, remembered, recorded or sent. `understand` makes
 * the call for the actor of the dry run. Of guardrails and limits that the asker does not manage it
 * shows neither names nor remaining amounts, and only such sums as stand in refusals. Throws 403
 * for an inference key, 404 for a key that the asker does not manage, and 400 for such a workspace.
 * What the call itself would be refused for is part of the explanation.
 */
export async function explain<K extends Kind>(
  gateway: InferenceWorld,
  asker: Actor,
  as: As,
  kind: K,
  understand: (actor: Actor) => Work[K]['call'],
): Promise<Explanation> {
  if (asker.kind !== 'management' && asker.kind !== 'operator')
    throw denied('Only management keys can make dry runs')
  const actor = actorAs(gateway, asker, as)
  const known = await followed(gateway, actor, kind, understand)
  return explanationOf(
    gateway,
    { asker, actor, policy: known.run?.policy ?? policyFor(gateway, actor) },
    kind,
    known,
  )
}

function actorAs(gateway: InferenceWorld, asker: Actor, { key, workspace_id }: As): Actor {
  if (key !== undefined) return actorWith(gateway, managedKey(gateway, asker, key))
  return {
    kind: 'inference',
    user_id: '',
    workspace_id: managedWorkspace(gateway, asker, workspace_id),
    key_hash: null,
  }
}

/** A dry run as far as it got. `run` is null if the call could not be parsed. */
interface Known<K extends Kind> {
  run: Run<K> | null
  error: GatewayError | null
}

/** Runs the stages of `infer` up to where the call would be sent. */
async function followed<K extends Kind>(
  world: InferenceWorld,
  actor: Actor,
  kind: K,
  understand: (actor: Actor) => Work[K]['call'],
): Promise<Known<K>> {
  let run: Run<K> | null = null
  try {
    run = startRun(world, actor, kind, understand(actor), true)
    await walk(world, world.stages.open, run)
    if (run.blocked) throw run.blocked
    await walk(world, unsent(world.stages.step), new Step(run, run.call))
    return { run, error: null }
  } catch (thrown) {
    return { run, error: GatewayError.from(thrown) }
  }
}

async function explanationOf<K extends Kind>(
  world: InferenceWorld,
  question: Question,
  kind: K,
  { run, error }: Known<K>,
): Promise<Explanation> {
  const { actor } = question
  const { candidates = null, need = null, amounts = null } = run?.step ?? {}
  return {
    workspace: {
      id: actor.workspace_id,
      slug: world.memory.workspaces.get(actor.workspace_id)?.slug ?? null,
    },
    key: keyOf(world, actor),
    policy: await explainedPolicy(world, question, run?.filtering?.findings ?? null, need),
    region: run?.call.origin.region ?? null,
    preset: presetOf(world, run?.call.preset_id ?? null),
    requested: run?.call.models ?? [],
    models: candidates?.models.map(({ model }) => model.id) ?? [],
    strategy: candidates?.strategy ?? null,
    stages: candidates?.stages ?? [],
    endpoints: run?.step ? endpointsOf(world, kind, run.step) : [],
    dropped: run?.step ? droppedOf(world, kind, run.step) : [],
    set_aside: amounts && { credits: usdOrNull(amounts.own), byok: usdOrNull(amounts.byok) },
    error: error && refusalOf(error),
  }
}

function keyOf({ memory: { keys } }: InferenceWorld, { key_hash }: Actor): Explanation['key'] {
  const key = keys.get(key_hash ?? '')
  return key ? { hash: key.hash, name: key.name, label: key.label } : null
}

function presetOf(
  { memory: { presets } }: InferenceWorld,
  preset_id: string | null,
): Explanation['preset'] {
  const preset =
    preset_id === null ? undefined : [...presets.values()].find(({ id }) => id === preset_id)
  return preset
    ? { id: preset.id, slug: preset.slug, version: preset.designated_version.version }
    : null
}

function endpointsOf<K extends Kind>(
  world: InferenceWorld,
  kind: K,
  step: Step<K>,
): Explanation['endpoints'] {
  const { call, candidates, plan, amounts, isBounded } = step
  if (!candidates || !plan) return []
  const isLeft = (endpoint: Endpoint) => !amounts || isPayable(amounts, endpoint)
  const groups = candidates.groups.map(
    (group): Group => ({
      ...group,
      turns: group.turns.map(turn => turn.filter(isLeft)),
    }),
  )
  const endpoints = plan.endpoints.filter(isLeft)
  const route: Route<K> = {
    kind,
    call,
    plan: { ...plan, endpoints },
    amounts: isBounded ? amounts : null,
    // If the models are drawn at random too, each probability is one among the models that were
    // drawn.
    chances: plan.strategy === 'free' ? new Map() : chancesOf(world, kind, call, groups),
    places: new Set(groups.flatMap(({ place }) => place ?? [])),
  }
  return endpoints.map(endpoint =>
    explainedEndpoint(world, { ...route, call: askedOf(plan.models, call, endpoint) }, endpoint),
  )
}

function droppedOf<K extends Kind>(
  { ledger }: InferenceWorld,
  kind: K,
  step: Step<K>,
): Explanation['dropped'] {
  const { candidates, plan, need, amounts, run } = step
  const excluded = candidates?.dropped.map(one => explainedDrop(kind, one)) ?? []
  if (!candidates || !plan) return excluded
  const passedOver = notPicked(
    candidates.groups.flatMap(({ turns }) => turns.flat()),
    plan.endpoints,
  )
  const unpaid =
    need && amounts
      ? notPayable(plan.endpoints, amounts, closing(ledger, run.policy.bounds, need))
      : []
  return [...excluded, ...passedOver, ...unpaid]
}

const usdOrNull = (nanos: bigint | null): number | null => (nanos === null ? null : usdOf(nanos))

/** Renders the failure as the error envelope does, without the ids of a request. */
const refusalOf = ({ status, type, message, metadata }: GatewayError): Explanation['error'] => ({
  code: status,
  message,
  metadata: { error_type: type, ...metadata },
})
