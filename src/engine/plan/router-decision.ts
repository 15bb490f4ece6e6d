import type { GatewayError } from '../../base/errors.ts'
import type { CallBase } from '../../language/call.ts'
import type { AutoRouter, Router, RouterOptions } from '../../language/routing.ts'
import type { Model } from '../../resources/models/catalog.ts'
import type { PipelineStage } from '../routing-metadata.ts'

/** The models that a router has picked, best first, and how; or why it could not. */
export interface RouterDecision {
  models: Model[]
  stage: PipelineStage
  refusal: GatewayError | null
}

/** A router picks at most this many models: the best, and its fallbacks. */
export const MAX_ROUTER_MODELS = 4

/**
 * Builds the key under which a session remembers the model that a router picked for it. Another
 * tier or tradeoff begins anew.
 */
export function buildRouterMemoryKey(call: CallBase, router: Router): string {
  const { tier, tradeoff } = isAutoRouter(router) ? getRouterOptions(call, router) : {}
  return `${router} ${tier ?? tradeoff ?? 'usual'}`
}

const isAutoRouter = (router: Router): router is AutoRouter =>
  router === 'auto' || router === 'auto-beta'

/** Returns the options of the router that the call gives. */
export const getRouterOptions = (
  { plugins }: Pick<CallBase, 'plugins'>,
  router: AutoRouter,
): RouterOptions => (plugins?.[getRouterPluginId(router)] ?? {}) as RouterOptions

/** Returns the id of the router's plugin. */
export const getRouterPluginId = (router: Router): string =>
  PLUGIN_IDS[router] ?? `${router}-router`

/** The plugins whose name does not follow from that of their router (wire reference C.4). */
const PLUGIN_IDS: Partial<Record<Router, string>> = {
  'pareto-code': 'pareto-router',
  fusion: 'fusion',
}
