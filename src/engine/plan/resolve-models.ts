import { getOwn } from '../../base/json.ts'
import type { TextCall } from '../../language/call.ts'
import type { Router, SortKey } from '../../language/routing.ts'
import type { Kind, Work } from '../../language/work.ts'
import type { Model } from '../../resources/models/catalog.ts'
import { changeEndpoints } from '../../resources/models/derived.ts'
import { findRouterModel } from '../../resources/routers.ts'
import type { ExtendedWorld } from '../extension.ts'
import { kinds } from '../kinds.ts'
import type {
  ModelResolution,
  PipelineStage,
  PlanInputs,
  ResolvedModel,
  RouterDecision,
  RouterReference,
  Strategy,
} from './candidates.ts'
import { unknownModel, unknownVariant, wrongEndpoint } from './refusal.ts'

/**
 * Resolves the names in a call to models. Two names of one model are one model, and a router's name
 * stands for the models that it picks. Throws 400 for a name that is not in the catalogue or does
 * another kind of work. Throws 404 if the call names only routers and they have nothing to pick
 * from.
 */
export function resolveModels<K extends Kind>(
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

// Nobody knows what it does: its provider will say if it does something else.
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
