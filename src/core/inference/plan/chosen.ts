import type { Model } from '../../catalog/models.ts'
import type { GatewayError } from '../../errors.ts'
import type { CallBase } from '../../language/call.ts'
import type { AutoRouter, Router, RouterWishes } from '../../language/routing.ts'
import type { Stage } from '../routing-metadata.ts'

/** The models that a router has picked, best first, and how; or why it could not. */
export interface Chosen {
  models: Model[]
  stage: Stage
  refusal: GatewayError | null
}

/** A router picks at most this many models: the best, and its fallbacks. */
export const MOST_CHOSEN = 4

/**
 * Builds the key under which a session remembers the model that a router picked for it. Another
 * tier or tradeoff begins anew.
 */
export function memoryOf(call: CallBase, router: Router): string {
  const { tier, tradeoff } = router === 'free' ? {} : wishesOf(call, router)
  return `${router} ${tier ?? tradeoff ?? 'usual'}`
}

/** Returns the options of the router that the call gives. */
export const wishesOf = (
  { plugins }: Pick<CallBase, 'plugins'>,
  router: AutoRouter,
): RouterWishes => (plugins?.[routerPlugin(router)] ?? {}) as RouterWishes

/** Returns the id of the router's plugin. */
export const routerPlugin = (router: Router): string => `${router}-router`
