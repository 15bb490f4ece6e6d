import type { Endpoint } from '../catalog/models.ts'
import { denied, GatewayError } from '../errors.ts'
import { type Actor, buildKeyActor } from '../identity/actor.ts'
import { requireManagedKey } from '../identity/keys.ts'
import { resolveWorkspaceId } from '../identity/management.ts'
import { toUsd } from '../kernel/money.ts'
import type { Kind, Work } from '../language/work.ts'
import { getPolicy } from '../policy/effective.ts'
import { explainDrop, explainNotPayable, explainNotPicked } from './explain/dropped.ts'
import type { Explanation } from './explain/explanation.ts'
import { explainPolicy, listExhaustedBounds, type Question } from './explain/policy.ts'
import { explainEndpoint, type RouteExplanation } from './explain/route.ts'
import { startRun } from './infer.ts'
import { computeProbabilities } from './plan/probability.ts'
import { getEffectiveCall } from './plan/resolve-models.ts'
import type { CandidateGroup } from './plan.ts'
import { isPayable } from './reserve.ts'
import { buildToolStages } from './routing-metadata/tool-stages.ts'
import { type Run, Step } from './run.ts'
import { listStagesBeforeSending, runStages } from './stages.ts'
import type { InferenceWorld } from './world.ts'

export { Explanation } from './explain/explanation.ts'

/**
 * The identity of a dry run: the key of this hash, or no key and a workspace, by default the
 * asker's own.
 */
export interface DryRunIdentity {
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
  world: InferenceWorld,
  asker: Actor,
  identity: DryRunIdentity,
  kind: K,
  understand: (actor: Actor) => Work[K]['call'],
): Promise<Explanation> {
  if (asker.kind !== 'management' && asker.kind !== 'operator')
    throw denied('Only management keys can make dry runs')
  const actor = resolveActor(world, asker, identity)
  const dryRun = await makeDryRun(world, actor, kind, understand)
  return buildExplanation(
    world,
    { asker, actor, policy: dryRun.run?.policy ?? getPolicy(world, actor) },
    kind,
    dryRun,
  )
}

function resolveActor(
  world: InferenceWorld,
  asker: Actor,
  { key, workspace_id }: DryRunIdentity,
): Actor {
  if (key !== undefined) return buildKeyActor(world, requireManagedKey(world, asker, key))
  return {
    kind: 'inference',
    user_id: '',
    workspace_id: resolveWorkspaceId(world, asker, workspace_id),
    key_hash: null,
  }
}

/** A dry run as far as it got. `run` is null if the call could not be parsed. */
interface DryRun<K extends Kind> {
  run: Run<K> | null
  error: GatewayError | null
}

/** Runs the stages of `infer` up to where the call would be sent. */
async function makeDryRun<K extends Kind>(
  world: InferenceWorld,
  actor: Actor,
  kind: K,
  understand: (actor: Actor) => Work[K]['call'],
): Promise<DryRun<K>> {
  let run: Run<K> | null = null
  try {
    run = startRun(world, actor, kind, understand(actor), true)
    await runStages(world, world.stages.open, run)
    if (run.blocked) throw run.blocked
    await runStages(world, listStagesBeforeSending(world.stages.step), new Step(run, run.call))
    return { run, error: null }
  } catch (thrown) {
    return { run, error: GatewayError.from(thrown) }
  }
}

async function buildExplanation<K extends Kind>(
  world: InferenceWorld,
  question: Question,
  kind: K,
  { run, error }: DryRun<K>,
): Promise<Explanation> {
  const { actor } = question
  const { candidates = null, costEstimate = null, amounts = null } = run?.step ?? {}
  return {
    workspace: {
      id: actor.workspace_id,
      slug: world.memory.workspaces.get(actor.workspace_id)?.slug ?? null,
    },
    key: explainKey(world, actor),
    policy: await explainPolicy(world, question, run?.filtering?.findings ?? null, costEstimate),
    region: run?.call.origin.region ?? null,
    preset: explainPreset(world, run?.call.preset_id ?? null),
    requested: run?.call.models ?? [],
    models: candidates?.models.map(({ model }) => model.id) ?? [],
    strategy: candidates?.strategy ?? null,
    stages: [
      ...(candidates?.stages ?? []),
      ...(candidates?.models[0]?.stages ?? []),
      ...(run?.pluginStages ?? []),
      ...buildToolStages(run?.toolLoop ?? null),
    ],
    endpoints: run?.step ? explainEndpoints(world, kind, run.step) : [],
    dropped: run?.step ? explainDropped(world, kind, run.step) : [],
    set_aside: amounts && { credits: toUsdOrNull(amounts.own), byok: toUsdOrNull(amounts.byok) },
    error: error && renderRefusal(error),
  }
}

function explainKey({ memory: { keys } }: InferenceWorld, { key_hash }: Actor): Explanation['key'] {
  const key = keys.get(key_hash ?? '')
  return key ? { hash: key.hash, name: key.name, label: key.label } : null
}

function explainPreset(
  { memory: { presets } }: InferenceWorld,
  preset_id: string | null,
): Explanation['preset'] {
  const preset =
    preset_id === null ? undefined : [...presets.values()].find(({ id }) => id === preset_id)
  return preset
    ? { id: preset.id, slug: preset.slug, version: preset.designated_version.version }
    : null
}

function explainEndpoints<K extends Kind>(
  world: InferenceWorld,
  kind: K,
  step: Step<K>,
): Explanation['endpoints'] {
  const { call, candidates, plan, amounts, run } = step
  if (!candidates || !plan) return []
  const isStillPayable = (endpoint: Endpoint) => !amounts || isPayable(amounts, endpoint)
  const groups = candidates.groups.map(
    (group): CandidateGroup => ({
      ...group,
      tiers: group.tiers.map(tier => tier.filter(isStillPayable)),
    }),
  )
  const endpoints = plan.endpoints.filter(isStillPayable)
  const route: RouteExplanation<K> = {
    kind,
    call,
    plan: { ...plan, endpoints },
    amounts: run.policy.bounds.length > 0 ? amounts : null,
    // If the models are drawn at random too, each probability is one among the models that were
    // drawn.
    probabilities:
      plan.strategy === 'free' ? new Map() : computeProbabilities(world, kind, call, groups),
    stickyEndpointIds: new Set(groups.flatMap(({ stickyEndpointId }) => stickyEndpointId ?? [])),
  }
  return endpoints.map(endpoint =>
    explainEndpoint(
      world,
      { ...route, call: getEffectiveCall(plan.models, call, endpoint) },
      endpoint,
    ),
  )
}

function explainDropped<K extends Kind>(
  { ledger }: InferenceWorld,
  kind: K,
  step: Step<K>,
): Explanation['dropped'] {
  const { candidates, plan, costEstimate, amounts, run } = step
  const excluded = candidates?.dropped.map(drop => explainDrop(kind, drop)) ?? []
  if (!candidates || !plan) return excluded
  const passedOver = explainNotPicked(
    candidates.groups.flatMap(({ tiers }) => tiers.flat()),
    plan.endpoints,
  )
  const unpaid =
    costEstimate && amounts
      ? explainNotPayable(
          plan.endpoints,
          amounts,
          listExhaustedBounds(ledger, run.policy.bounds, costEstimate),
        )
      : []
  return [...excluded, ...passedOver, ...unpaid]
}

const toUsdOrNull = (nanos: bigint | null): number | null => (nanos === null ? null : toUsd(nanos))

/** Renders the failure as the error envelope does, without the ids of a request. */
const renderRefusal = ({
  status,
  type,
  message,
  metadata,
}: GatewayError): Explanation['error'] => ({
  code: status,
  message,
  metadata: { error_type: type, ...metadata },
})
