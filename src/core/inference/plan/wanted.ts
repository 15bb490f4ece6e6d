import type { Endpoint, Model } from '../../catalog/models.ts'
import { routerModelCalled } from '../../catalog/routers.ts'
import { own } from '../../kernel/json.ts'
import type { TextCall } from '../../language/call.ts'
import type { Router, SortKey } from '../../language/routing.ts'
import type { Kind, Work } from '../../language/work.ts'
import { kinds } from '../kinds.ts'
import { withPlugins } from '../plugin.ts'
import type { Stage, Strategy } from '../routing-metadata.ts'
import type { InferenceWorld } from '../world.ts'
import type { Held } from './choices.ts'
import { type Chosen, routerPlugin } from './chosen.ts'
import { unknownModel, unknownVariant, wrongEndpoint } from './refusal.ts'

/** The models of a call, in the order in which they are tried, and how they were found. */
export interface Wanted<K extends Kind> {
  models: WantedModel<K>[]
  strategy: Strategy
  stages: Stage[]
}

/** A model, and what its variant changes. */
export interface WantedModel<K extends Kind> {
  model: Model
  sort: SortKey | undefined
  /** The call as this model gets it. */
  asked: Work[K]['call']
  /** The router that picked the model; absent if the caller names it. */
  route?: Route
}

/**
 * Resolves the names in a call to models. Two names of one model are one model, and a router's name
 * stands for the models that it picks. Throws 400 for a name that is not in the catalogue or does
 * another kind of work. Throws 404 if the call names only routers and they have nothing to pick
 * from.
 */
export function wantedBy<K extends Kind>(
  gateway: InferenceWorld,
  kind: K,
  call: Work[K]['call'],
  held: Held,
): Wanted<K> {
  const models = new Map<string, WantedModel<K>>()
  const choices: Choices = new Map()
  for (const slug of call.models) {
    const route = routeOf(gateway, slug)
    const meant = route
      ? modelsChosen(gateway, route, { kind, call, held, choices })
      : [modelMeant(gateway, kind, call, slug)]
    for (const one of meant) if (!models.has(one.model.id)) models.set(one.model.id, one)
  }
  const chosen = [...choices.values()]
  const refusal = chosen.find(one => one.refusal)?.refusal
  if (models.size === 0 && refusal) throw refusal
  const [first = ''] = call.models
  return {
    models: [...models.values()],
    strategy: strategyOf(gateway, first),
    stages: chosen.map(({ stage }) => stage),
  }
}

/** What routers have picked for a call, by the router and the variant, unless that only sorts. */
type Choices = Map<string, Chosen>

/** A call that names a router, and what is known of it. */
interface RouterCall<K extends Kind> {
  kind: K
  call: Work[K]['call']
  held: Held
  choices: Choices
}

// A second name of the same router would pick the same models, and adds nothing.
function modelsChosen<K extends Kind>(
  gateway: InferenceWorld,
  route: Route,
  { kind, call, held, choices }: RouterCall<K>,
): WantedModel<K>[] {
  const { slug, variant, shown } = route
  const sort = own(SORTS, variant)
  const isKnown = sort || kinds[kind].understanding.listVariants(shown).includes(variant)
  if (variant !== '' && !isKnown) throw unknownModel(gateway.catalog, slug)
  const choice = route.router + (sort ? '' : variant)
  if (choices.has(choice)) return []
  const asked = effectiveCall(gateway, kind, call, variant)
  const chosen = chosenBy(gateway, kind, route, asked, held)
  choices.set(choice, chosen)
  return chosen.models.map((model): WantedModel<K> => ({ model, sort, asked, route }))
}

/** Returns the call as a model gets it under this variant of its name, with what plugins add. */
function effectiveCall<K extends Kind>(
  world: InferenceWorld,
  kind: K,
  call: Work[K]['call'],
  variant: string,
): Work[K]['call'] {
  const asked = kinds[kind].understanding.applyVariant(call, variant)
  return asked.plugins ? withPlugins(world, asked) : asked
}

/** Returns the call as the endpoint gets it. */
export const askedOf = <K extends Kind>(
  models: WantedModel<K>[],
  call: Work[K]['call'],
  endpoint: Endpoint,
): Work[K]['call'] => models.find(({ model }) => model.id === endpoint.model)?.asked ?? call

/**
 * Finds the router that picked the endpoint's model, or the first router if no endpoint has
 * answered. Undefined if there is none.
 */
export const routeTo = (
  models: WantedModel<Kind>[],
  endpoint: Endpoint | null,
): Route | undefined =>
  models.find(({ model }) => endpoint === null || model.id === endpoint.model)?.route

/** Variants that only sort (wire reference K.4). */
const SORTS: Record<string, SortKey> = {
  ':nitro': 'throughput',
  ':floor': 'price',
  ':exacto': 'exacto',
}

function modelMeant<K extends Kind>(
  gateway: InferenceWorld,
  kind: K,
  call: Work[K]['call'],
  slug: string,
): WantedModel<K> {
  const { catalog } = gateway
  const { base, variant } = catalog.models.has(slug) ? { base: slug, variant: '' } : parted(slug)
  const model = catalog.models.get(base)
  if (!model) throw unknownModel(catalog, slug)
  const { isGivenBy, gives, understanding } = kinds[kind]
  if (!isGivenBy(model.output_modalities))
    throw wrongEndpoint(slug, `gives ${model.output_modalities.join(' and ')}, not ${gives}`)
  const sort = own(SORTS, variant)
  const variants = understanding.listVariants(model)
  if (variant !== '' && !sort && !variants.includes(variant))
    throw unknownVariant(catalog, base, variant, [...Object.keys(SORTS), ...variants])
  return { model, sort, asked: effectiveCall(gateway, kind, call, variant) }
}

/** Splits a slug into the model's name and its variant. */
function parted(slug: string): { base: string; variant: string } {
  const at = slug.lastIndexOf(':')
  return at === -1
    ? { base: slug, variant: '' }
    : { base: slug.slice(0, at), variant: slug.slice(at) }
}

// Another name of a model is an alias. A name that follows the newest model of a family is `latest`
// (wire reference K.4).
function strategyOf(gateway: InferenceWorld, slug: string): Strategy {
  const { catalog } = gateway
  if (slug.startsWith('~')) return 'latest'
  const router = routeOf(gateway, slug)?.router
  if (router) return router === 'free' ? 'free' : 'auto'
  const name = catalog.models.has(slug) ? slug : parted(slug).base
  return catalog.models.get(name)?.id !== name ? 'alias' : 'direct'
}

/** A router as a slug names it, with the variant: that is applied to the model that it picks. */
export interface Route {
  slug: string
  router: Router
  variant: string
  /** The router as a model. */
  shown: Model
}

/**
 * Finds the router of this name. A model of the catalogue takes precedence over a router of the
 * same name.
 */
export function routeOf({ catalog, config }: InferenceWorld, slug: string): Route | undefined {
  if (catalog.models.has(slug)) return undefined
  const at = slug.indexOf(':')
  const name = at === -1 ? slug : slug.slice(0, at)
  const shown = routerModelCalled(config, name)
  return shown?.router && { slug, router: shown.router, variant: slug.slice(name.length), shown }
}

/** Has a router pick models for a call. Throws 400 for a call that is not for text. */
export function chosenBy<K extends Kind>(
  gateway: InferenceWorld,
  kind: K,
  { slug, router }: Route,
  call: Work[K]['call'],
  held: Held,
): Chosen {
  if (!isText(call)) throw wrongEndpoint(slug, `gives text, not ${kinds[kind].gives}`)
  const plugin = gateway.plugins.find(({ id }) => id === routerPlugin(router))
  if (!plugin?.choose) throw unknownModel(gateway.catalog, slug)
  return plugin.choose(gateway, { ...held, call })
}

const isText = (call: Work[Kind]['call']): call is TextCall => call.kind === 'text'
