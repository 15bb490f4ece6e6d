import type { Config } from '../config.ts'
import { ROUTERS, type Router, routerCalled } from '../language/routing.ts'
import type { Model } from './models.ts'

/**
 * Lists the routers as models, so that clients can select them. They have no endpoints, and a call
 * costs what the chosen model costs.
 */
export function routerModels(config: Config): Model[] {
  const known = made.get(config) ?? ROUTERS.map(router => routerModel(config, router))
  made.set(config, known)
  return known
}

const made = new WeakMap<Config, Model[]>()

const SAID: Record<Router, Pick<Model, 'name' | 'description'>> = {
  auto: {
    name: 'Auto Router',
    description:
      'Chooses a model for each call by its task, its requirements, and what it may cost.',
  },
  'auto-beta': {
    name: 'Auto Router (beta)',
    description: 'Chooses like the auto router, by the settings of a plugin of its own.',
  },
  free: {
    name: 'Free Router',
    description: 'Chooses at random one of the free models that accept the call.',
  },
}

/** The date of this list, in Unix seconds. */
const CREATED = Date.parse('2026-11-21') / 1000

const routerModel = ({ service_name }: Config, router: Router): Model => ({
  id: `${service_name}/${router}`,
  ...SAID[router],
  created: CREATED,
  context_length: null,
  input_modalities: ['text', 'image', 'file', 'audio', 'video'],
  output_modalities: ['text'],
  reasoning: null,
  endpoints: [],
  router,
})

/** Finds the router with this name, as a model. */
export function routerModelCalled(config: Config, slug: string): Model | undefined {
  const router = routerCalled(config, slug)
  return router && routerModels(config)[ROUTERS.indexOf(router)]
}
