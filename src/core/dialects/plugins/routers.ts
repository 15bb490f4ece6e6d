import { type Static, Type } from '@sinclair/typebox'
import { invalid } from '../../errors.ts'
import { oneOf, open, optional } from '../../kernel/schema-builders.ts'
import { COST_TIERS, type RouterWishes, type RoutingPreferences } from '../../language/routing.ts'
import type { Plugin } from '../plugins.ts'

/** The plugins that say how a router chooses (wire reference C.4). Each router reads its own. */
const ROUTER_OF = { 'auto-router': 'auto', 'auto-beta-router': 'auto-beta' } as const

const Patterns = optional(Type.Array(Type.String({ maxLength: 1024 }), { maxItems: 1024 }))
/** Characters of all patterns of a list together. */
const MOST_CHARACTERS = 65_536

const wishes = {
  enabled: Type.Optional(Type.Boolean()),
  allowed_models: Patterns,
  excluded_models: Patterns,
  cost_tier: optional(oneOf(...COST_TIERS)),
  cost_quality_tradeoff: optional(Type.Integer({ minimum: 0, maximum: 10 })),
}

/** Their entries among the plugins of a body. */
export const AutoRouter = Type.Object({ id: Type.Literal('auto-router'), ...wishes, pin_model: optional(Type.Boolean()) }, open)
export const AutoBetaRouter = Type.Object({ id: Type.Literal('auto-beta-router'), ...wishes }, open)
type RouterPlugin = Static<typeof AutoRouter> | Static<typeof AutoBetaRouter>

/**
 * What the plugins of a body say of how routers choose; nothing where none does. A plugin that is not enabled says that they choose as they
 * usually do. Throws 400 for more patterns than are looked through.
 */
export function routersOf(plugins: Plugin[] | null | undefined): Pick<RoutingPreferences, 'routers'> {
  let routers: RoutingPreferences['routers']
  for (const [i, plugin] of plugins?.entries() ?? [])
    if (isRouterPlugin(plugin)) routers = { ...routers, [ROUTER_OF[plugin.id]]: wishesOf(plugin, `plugins.${i}`) }
  return routers ? { routers } : {}
}

const isRouterPlugin = (plugin: Plugin): plugin is RouterPlugin => Object.hasOwn(ROUTER_OF, plugin.id)

function wishesOf(plugin: RouterPlugin, at: string): RouterWishes {
  const { enabled, allowed_models, excluded_models, cost_tier, cost_quality_tradeoff } = plugin
  if (enabled === false) return {}
  const said: RouterWishes = {}
  if (allowed_models && allowed_models.length > 0) said.allowed = patternsOf(allowed_models, `${at}.allowed_models`)
  if (excluded_models && excluded_models.length > 0) said.excluded = patternsOf(excluded_models, `${at}.excluded_models`)
  if (cost_tier != null) said.tier = cost_tier
  else if (cost_quality_tradeoff != null) said.tradeoff = cost_quality_tradeoff
  if (plugin.id === 'auto-router' && plugin.pin_model) said.pinned = true
  return said
}

function patternsOf(patterns: string[], at: string): string[] {
  const characters = patterns.reduce((sum, pattern) => sum + pattern.length, 0)
  if (characters > MOST_CHARACTERS) throw invalid(`${at}: expected at most ${MOST_CHARACTERS} characters in all, found ${characters}`, at)
  return patterns.map(pattern => pattern.toLowerCase())
}
