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

/** The models that a call is for, in the order in which they are tried, and how they were found. */
export interface Wanted<K extends Kind> {
  models: WantedModel<K>[]
  strategy: Strategy
  stages: Stage[]
}

/** A model, and what its variant wants of it. */
export interface WantedModel<K extends Kind> {
  model: Model
  sort: SortKey | undefined
  /** The call as it is asked. */
  asked: Work[K]['call']
  /** The router that has chosen it; absent where the caller has named it. */
  route?: Route
}

/**
 * What the names stand for by which a call asks for models; two names of one model are one model, and a router's name is the models that it
 * chooses. Throws 400 for one that is not in the catalogue or does another kind of work, and 404 where nothing but routers is named and
 * they have nothing to choose from.
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
      ? modelsChosen(gateway, kind, call, route, held, choices)
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

/** What routers have chosen for a call, by the router and the variant that is not about the order. */
type Choices = Map<string, Chosen>

// Another name of a router chooses the same once more, and adds nothing.
function modelsChosen<K extends Kind>(
  gateway: InferenceWorld,
  kind: K,
  call: Work[K]['call'],
  route: Route,
  held: Held,
  choices: Choices,
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

/** The call as a model is asked by this variant of its name, with what plugins add to it. */
function effectiveCall<K extends Kind>(
  world: InferenceWorld,
  kind: K,
  call: Work[K]['call'],
  variant: string,
): Work[K]['call'] {
  const asked = kinds[kind].understanding.applyVariant(call, variant)
  return asked.plugins ? withPlugins(world, asked) : asked
}

/** The call as the endpoint is asked. */
export const askedOf = <K extends Kind>(
  models: WantedModel<K>[],
  call: Work[K]['call'],
  endpoint: Endpoint,
): Work[K]['call'] => models.find(({ model }) => model.id === endpoint.model)?.asked ?? call

/** The router that has chosen the endpoint's model, or where nobody has answered the first; undefined where none did. */
export const routeTo = (
  models: WantedModel<Kind>[],
  endpoint: Endpoint | null,
): Route | undefined =>
  models.find(({ model }) => endpoint === null || model.id === endpoint.model)?.route

/** Variants that are a way of sorting (wire reference K.4). */
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

/** The name of a model, and what stands behind it. */
function parted(slug: string): { base: string; variant: string } {
  const at = slug.lastIndexOf(':')
  return at === -1
    ? { base: slug, variant: '' }
    : { base: slug.slice(0, at), variant: slug.slice(at) }
}

// Another name of a model is an alias of it; one that moves on to the newest of a family says so (wire reference K.4).
function strategyOf(gateway: InferenceWorld, slug: string): Strategy {
  const { catalog } = gateway
  if (slug.startsWith('~')) return 'latest'
  const router = routeOf(gateway, slug)?.router
  if (router) return router === 'free' ? 'free' : 'auto'
  const name = catalog.models.has(slug) ? slug : parted(slug).base
  return catalog.models.get(name)?.id !== name ? 'alias' : 'direct'
}

/** A router as a slug asks for it, and the variant behind it: that is one of whatever it chooses. */
export interface Route {
  slug: string
  router: Router
  variant: string
  /** The router as a model. */
  shown: Model
}

/** The router that is called so. A model of the catalogue goes before a router of its name. */
export function routeOf({ catalog, config }: InferenceWorld, slug: string): Route | undefined {
  if (catalog.models.has(slug)) return undefined
  const at = slug.indexOf(':')
  const name = at === -1 ? slug : slug.slice(0, at)
  const shown = routerModelCalled(config, name)
  return shown?.router && { slug, router: shown.router, variant: slug.slice(name.length), shown }
}

/** What a router chooses for a call. Throws 400 for another kind of work than text. */
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
