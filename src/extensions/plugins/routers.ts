import type { Static } from '@sinclair/typebox'
import { invalid } from '../../base/errors.ts'
import type { Json } from '../../base/json.ts'
import { findRouter, type Router, type RouterOptions } from '../../language/routing.ts'
import type { Kind, Work } from '../../language/work.ts'
import { AutoBetaRouter, AutoRouter } from '../../translation/dialects/plugin-entries.ts'
import { type Plugin, requireOptions } from '../plugin.ts'
import type { ExtensionWorld } from '../world.ts'
import { decideAutoRoute } from './auto-router.ts'
import { decideFreeRoute } from './free-router.ts'

/** The router plugins: they pick models for a router's name as their entry says (reference C.4). */

/** The characters that all patterns of a list may have together. */
const MAX_PATTERN_CHARACTERS = 65_536

type RouterPlugin = Static<typeof AutoRouter> | Static<typeof AutoBetaRouter>

/** Reads the options of a router. Throws 400 for patterns that are too long together. */
function readRouterOptions(plugin: RouterPlugin, at: string): RouterOptions {
  const { allowed_models, excluded_models, cost_tier, cost_quality_tradeoff } = plugin
  const options: RouterOptions = {}
  if (allowed_models) options.allowed = readPatterns(allowed_models, `${at}.allowed_models`)
  if (excluded_models && excluded_models.length > 0)
    options.excluded = readPatterns(excluded_models, `${at}.excluded_models`)
  if (cost_tier != null) options.tier = cost_tier
  else if (cost_quality_tradeoff != null) options.tradeoff = cost_quality_tradeoff
  if (plugin.id === 'auto-router' && plugin.pin_model) options.pinned = true
  return options
}

function readPatterns(patterns: string[], at: string): string[] {
  const characters = patterns.reduce((sum, pattern) => sum + pattern.length, 0)
  if (characters > MAX_PATTERN_CHARACTERS)
    throw invalid(
      `${at}: expected at most ${MAX_PATTERN_CHARACTERS} characters in all, found ${characters}`,
      at,
    )
  return patterns.map(pattern => pattern.toLowerCase())
}

const readEntry = (entry: Json, at: string) => readRouterOptions(entry as RouterPlugin, at)

export const autoRouter: Plugin<RouterOptions> = {
  id: 'auto-router',
  schema: AutoRouter,
  readOptions: readEntry,
  decide: (world, asked) => decideAutoRoute(world, 'auto', asked),
}

export const autoBetaRouter: Plugin<RouterOptions> = {
  id: 'auto-beta-router',
  schema: AutoBetaRouter,
  readOptions: readEntry,
  decide: (world, asked) => decideAutoRoute(world, 'auto-beta', asked),
}

/** The free router. It takes no options. */
export const freeRouter: Plugin<object> = {
  id: 'free-router',
  readOptions(entry, at) {
    requireOptions(entry, at, [])
    return {}
  },
  decide: decideFreeRoute,
}

/** Tells whether one of a call's models is this router, whatever its variant. */
export const namesRouter = (
  { catalog, config }: ExtensionWorld,
  { models }: Work[Kind]['call'],
  router: Router,
): boolean =>
  models.some(slug => findRouter(config, cutVariant(slug)) === router && !catalog.models.has(slug))

const cutVariant = (slug: string): string => {
  const at = slug.indexOf(':')
  return at === -1 ? slug : slug.slice(0, at)
}
