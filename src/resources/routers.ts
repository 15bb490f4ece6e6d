import type { Config } from '../config.ts'
import { findRouter, ROUTERS, type Router } from '../language/routing.ts'
import type { Model } from './models/catalog.ts'

/**
 * Lists the routers as models, so that clients can select them. They have no endpoints, and a call
 * costs what the chosen model costs. Without coding scores `pareto-code` has nothing to choose from,
 * and without models of the config `fusion` has no panel to ask.
 */
export const listRouterModels = (config: Config): Model[] =>
  openRouterModels(config).filter(({ router }) => {
    if (router === 'pareto-code') return Object.keys(config.plugins.coding_scores).length > 0
    return router !== 'fusion' || config.server_tools.fusion.analysis_models.length > 0
  })

function openRouterModels(config: Config): Model[] {
  const known =
    modelsByConfig.get(config) ?? ROUTERS.map(router => createRouterModel(config, router))
  modelsByConfig.set(config, known)
  return known
}

const modelsByConfig = new WeakMap<Config, Model[]>()

const DESCRIPTIONS: Record<Router, Pick<Model, 'name' | 'description'>> = {
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
  'pareto-code': {
    name: 'Pareto Code Router',
    description:
      'Chooses the cheapest model that writes code as well as asked, by the scores of the config.',
  },
  switchyard: {
    name: 'Switchyard Router',
    description: 'Chooses by the algorithm that the call names.',
  },
  fusion: {
    name: 'Fusion',
    description:
      'Chooses a model that may ask a panel of other models, and have their answers compared.',
  },
  bodybuilder: {
    name: 'Body Builder',
    description: 'Answers with request bodies for what several models should do.',
  },
}

/** The date of this list, in Unix seconds. */
const CREATED = Date.parse('2026-11-21') / 1000

const createRouterModel = ({ service_name }: Config, router: Router): Model => ({
  id: `${service_name}/${router}`,
  ...DESCRIPTIONS[router],
  created: CREATED,
  context_length: null,
  input_modalities: ['text', 'image', 'file', 'audio', 'video'],
  refused_modalities: [],
  output_modalities: ['text'],
  reasoning: null,
  endpoints: [],
  router,
})

/** Finds the router with this name, as a model. */
export function findRouterModel(config: Config, slug: string): Model | undefined {
  const router = findRouter(config, slug)
  return router && openRouterModels(config)[ROUTERS.indexOf(router)]
}
