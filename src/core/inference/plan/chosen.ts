import type { Model } from '../../catalog/models.ts'
import type { GatewayError } from '../../errors.ts'
import type { CallBase } from '../../language/call.ts'
import type { AutoRouter, Router, RouterWishes } from '../../language/routing.ts'
import type { Stage } from '../routing-metadata.ts'

/** What a router has chosen, the first choice first, and how; or why it could not. */
export interface Chosen {
  models: Model[]
  stage: Stage
  refusal: GatewayError | null
}

/** A choice has so many models at the most: the one, and those that stand in for it. */
export const MOST_CHOSEN = 4

/** By which name a session remembers the model that was chosen for it: who wants to pay otherwise begins anew. */
export function memoryOf(call: CallBase, router: Router): string {
  const { tier, tradeoff } = router === 'free' ? {} : wishesOf(call, router)
  return `${router} ${tier ?? tradeoff ?? 'usual'}`
}

/** How the router is to choose for the call. */
export const wishesOf = (
  { plugins }: Pick<CallBase, 'plugins'>,
  router: AutoRouter,
): RouterWishes => (plugins?.[routerPlugin(router)] ?? {}) as RouterWishes

/** The plugin that a router is, by its id. */
export const routerPlugin = (router: Router): string => `${router}-router`
