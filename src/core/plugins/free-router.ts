import { FREE_VARIANT, isFreeEndpoint } from '../catalog/models/free.ts'
import type { Catalog, Model } from '../catalog/models.ts'
import { noRouterCandidates } from '../inference/plan/refusal.ts'
import {
  collectRequirements,
  type Exclusions,
  isSandbox,
  listRouterCandidates,
  listTextModels,
  type RouterCandidate,
  type RouterInputs,
} from '../inference/plan/router-candidates.ts'
import {
  buildRouterMemoryKey,
  MAX_ROUTER_MODELS,
  type RouterDecision,
} from '../inference/plan/router-decision.ts'
import type { InferenceWorld } from '../inference/world.ts'

/**
 * Picks free models at random from those that may serve the call and accept its content. A model
 * that answered the session before is kept. The sandbox is picked only if no free model is
 * configured.
 */
export function decideFreeRoute(world: InferenceWorld, asked: RouterInputs): RouterDecision {
  const { call, session } = asked
  const excluded: Exclusions = { reasons: new Set(), rules: new Set() }
  const choices = listRouterCandidates(
    world,
    listFreeModels(world.catalog),
    asked,
    collectRequirements(call),
    excluded,
  )
  const real = choices.filter(({ model }) => !isSandbox(model))
  const candidates = real.length > 0 ? real : choices
  const remembered =
    session && world.traffic.sessions.findStickyId(session, buildRouterMemoryKey(call, 'free'))
  const kept = candidates.filter(({ model }) => model.id === remembered)
  const models = [...new Set([...kept, ...shuffleCandidates(world, candidates)])]
    .slice(0, MAX_ROUTER_MODELS)
    .map(({ model }) => model)
  const [first] = models
  return {
    models,
    stage: {
      type: 'plugin',
      name: 'free-router',
      summary: first
        ? `${first.id} was chosen among ${candidates.length} models that cost nothing.`
        : 'No free model was left to choose from.',
      data: {
        candidates: candidates.length,
        ...(first ? { chosen: first.id } : {}),
        ...(kept.length > 0 ? { kept: 'session' } : {}),
      },
    },
    refusal: first ? null : noRouterCandidates(call, excluded),
  }
}

/** Lists the models that cost nothing, and the free variants of the others. */
function listFreeModels(catalog: Catalog): Model[] {
  const models =
    freeModelsByCatalog.get(catalog) ??
    listTextModels(catalog).flatMap(model => findFreeModel(catalog, model) ?? [])
  freeModelsByCatalog.set(catalog, models)
  return models
}

const freeModelsByCatalog = new WeakMap<Catalog, Model[]>()

const findFreeModel = ({ models }: Catalog, model: Model): Model | undefined =>
  model.endpoints.length > 0 && model.endpoints.every(isFreeEndpoint)
    ? model
    : models.get(model.id + FREE_VARIANT)

/** Returns the candidates in random order. All orders are equally likely. */
function shuffleCandidates(
  { ids: { random } }: InferenceWorld,
  choices: RouterCandidate[],
): RouterCandidate[] {
  const lots = choices.map(choice => ({ choice, lot: random() }))
  return lots.sort((a, b) => a.lot - b.lot).map(({ choice }) => choice)
}
