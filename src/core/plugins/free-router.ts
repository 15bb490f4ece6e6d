import { costsNothing, FREE_VARIANT } from '../catalog/models/free.ts'
import type { Catalog, Model } from '../catalog/models.ts'
import {
  type Asked,
  type Choice,
  choicesAmong,
  type Excluded,
  isSandbox,
  needsOf,
  textModels,
} from '../inference/plan/choices.ts'
import { type Chosen, MOST_CHOSEN, memoryOf } from '../inference/plan/chosen.ts'
import { nothingToChoose } from '../inference/plan/refusal.ts'
import type { InferenceWorld } from '../inference/world.ts'

/**
 * Picks free models at random from those that may serve the call and accept its content. A model
 * that answered the session before is kept. The sandbox is picked only if no free model is
 * configured.
 */
export function freeRouted(gateway: InferenceWorld, asked: Asked): Chosen {
  const { call, session } = asked
  const excluded: Excluded = { by: new Set(), rules: new Set() }
  const choices = choicesAmong(gateway, freeModels(gateway.catalog), asked, needsOf(call), excluded)
  const real = choices.filter(({ model }) => !isSandbox(model))
  const candidates = real.length > 0 ? real : choices
  const remembered = session && gateway.traffic.sessions.placeOf(session, memoryOf(call, 'free'))
  const kept = candidates.filter(({ model }) => model.id === remembered)
  const models = [...new Set([...kept, ...shuffled(gateway, candidates)])]
    .slice(0, MOST_CHOSEN)
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
    refusal: first ? null : nothingToChoose(call, excluded),
  }
}

/** Lists the models that cost nothing, and the free variants of the others. */
function freeModels(catalog: Catalog): Model[] {
  const known =
    free.get(catalog) ?? textModels(catalog).flatMap(model => freeOf(catalog, model) ?? [])
  free.set(catalog, known)
  return known
}

const free = new WeakMap<Catalog, Model[]>()

const freeOf = ({ models }: Catalog, model: Model): Model | undefined =>
  model.endpoints.length > 0 && model.endpoints.every(costsNothing)
    ? model
    : models.get(model.id + FREE_VARIANT)

/** Returns the candidates in random order. All orders are equally likely. */
function shuffled({ ids: { random } }: InferenceWorld, choices: Choice[]): Choice[] {
  const lots = choices.map(choice => ({ choice, lot: random() }))
  return lots.sort((a, b) => a.lot - b.lot).map(({ choice }) => choice)
}
