import type { RouterDecision, RouterInputs } from '../../engine/plan/candidates.ts'
import { noRouterCandidates } from '../../engine/plan/refusal.ts'
import {
  collectRequirements,
  type Exclusions,
  findFreeLimit,
  isSandbox,
  listRouterCandidates,
  listTextModels,
  type RouterCandidate,
} from '../../engine/plan/router-candidates.ts'
import { buildRouterMemoryKey, MAX_ROUTER_MODELS } from '../../engine/plan/router-decision.ts'
import type { Router } from '../../language/routing.ts'
import type { Catalog, Model } from '../../resources/models/catalog.ts'
import { FREE_VARIANT, isFreeEndpoint } from '../../resources/models/derived.ts'
import type { ExtensionWorld } from '../world.ts'

/**
 * Picks free models at random from those that may serve the call and accept its content. A model
 * that answered the session before is kept. The sandbox is picked only if no free model is
 * configured.
 */
export function decideFreeRoute(world: ExtensionWorld, asked: RouterInputs): RouterDecision {
  return decideRandomRoute(world, asked, listFreeModels(world.catalog), FREE)
}

/** How a random choice is told: the name of its stage, and what the models have in common. */
interface RandomChoice {
  router: Router
  name: string
  among: string
  /** What is told if no model is left. */
  none: string
}

const FREE: RandomChoice = {
  router: 'free',
  name: 'free-router',
  among: 'that cost nothing',
  none: 'No free model was left to choose from.',
}

const ANY: RandomChoice = {
  router: 'switchyard',
  name: 'switchyard-router',
  among: 'that may serve the call',
  none: 'No model was left to choose from.',
}

/** Picks from these models at random, as `decideFreeRoute` does from the free ones. */
export function decideRandomRoute(
  world: ExtensionWorld,
  asked: RouterInputs,
  from: Model[],
  { router, name, among, none }: RandomChoice = ANY,
): RouterDecision {
  const { call, session } = asked
  const excluded: Exclusions = { reasons: new Set(), rules: new Set() }
  const needs = collectRequirements(call)
  const choices = listRouterCandidates(world, from, asked, needs, excluded, model =>
    router === 'free' ? undefined : findFreeLimit(world, model),
  )
  const real = choices.filter(({ model }) => !isSandbox(model))
  const candidates = real.length > 0 ? real : choices
  const remembered =
    session && world.traffic.sessions.findStickyId(session, buildRouterMemoryKey(call, router))
  const kept = candidates.filter(({ model }) => model.id === remembered)
  const models = [...new Set([...kept, ...shuffleCandidates(world, candidates)])]
    .slice(0, MAX_ROUTER_MODELS)
    .map(({ model }) => model)
  const [first] = models
  return {
    models,
    stage: {
      type: 'plugin',
      name,
      summary: first ? `${first.id} was chosen among ${candidates.length} models ${among}.` : none,
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
  { ids: { random } }: ExtensionWorld,
  choices: RouterCandidate[],
): RouterCandidate[] {
  const lots = choices.map(choice => ({ choice, lot: random() }))
  return lots.sort((a, b) => a.lot - b.lot).map(({ choice }) => choice)
}
