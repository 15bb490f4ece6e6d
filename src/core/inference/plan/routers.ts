import type { Model } from '../../catalog/models.ts'
import { routerModelCalled } from '../../catalog/routers.ts'
import type { TextCall } from '../../language/call.ts'
import type { Router } from '../../language/routing.ts'
import type { Kind, Work } from '../../language/work.ts'
import { kinds } from '../kinds.ts'
import type { InferenceWorld } from '../world.ts'
import type { Held } from './choices.ts'
import { type Chosen, routerPlugin } from './chosen.ts'
import { unknownModel, wrongEndpoint } from './refusal.ts'

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
