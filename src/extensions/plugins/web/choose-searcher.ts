import { invalid } from '../../../base/errors.ts'
import { isObject, type Json, omitUndefined } from '../../../base/json.ts'
import type { Config } from '../../../config.ts'
import type { TextCall } from '../../../language/call.ts'
import type { Tool } from '../../../language/tool.ts'
import { listSpoken } from '../../../resources/models.ts'
import { readDomainLists } from '../../tools/domains.ts'
import { chooseEngine, findOwnEngine } from '../../tools/web-search/choose-engine.ts'
import { isLeftToProvider } from '../../tools/web-search/delegate.ts'
import type { ExtensionWorld } from '../../world.ts'
import {
  needsOwnEngine,
  readLocation,
  readWebOptions,
  toToolOptions,
  type WebOptions,
} from './options.ts'

/**
 * Returns the options for a call that asks for a search without naming the plugin: by `:online`, or
 * by `web_search_options` where none of its models can search. Undefined if its provider searches,
 * or no search is possible.
 */
export function implySearch(world: ExtensionWorld, call: TextCall): WebOptions | undefined {
  const isOnline = call.models.some(model => model.endsWith(ONLINE))
  const { web_search_options: asked } = call.params
  if (!isOnline && asked === undefined) return undefined
  if (!isOwnSearch(world, call, readEngineWishes(world, call))) return undefined
  const isForEngine = isOnline || hasEngineWishes(asked) || !canProviderSearch(world, call)
  return isForEngine ? {} : undefined
}

const ONLINE = ':online'

/**
 * Returns the call with the engine of the gateway that searches for it, in place of a search by its
 * provider; the call itself if that searches. Throws 400 for search options that no engine reads.
 */
export function chooseSearcher(
  world: ExtensionWorld,
  call: TextCall,
  options: WebOptions,
): TextCall {
  if (!isOwnSearch(world, call, { ...options, ...readEngineWishes(world, call) })) return call
  const { web_search_options: asked, ...params } = call.params
  const whole = {
    ...options,
    ...(isObject(asked) ? readCallOptions(asked, world.config) : {}),
  }
  const found = findOwnEngine(world.config, toToolOptions(whole))
  if ('obstacle' in found) throw invalid(`plugins: the web cannot be searched: ${found.obstacle}`)
  const web = { ...whole, engine: found.engine.name }
  return { ...call, params, plugins: { ...call.plugins, web } }
}

/** Whether an engine of the gateway searches for the call, rather than its provider. */
function isOwnSearch(world: ExtensionWorld, call: TextCall, options: WebOptions): boolean {
  if (options.engine === 'native') return false
  if (needsOwnEngine(options)) return true
  if (!world.config.web_search.enabled) return false
  return !isLeftToProvider(world, toSearchingCall(world, call), toToolOptions(options))
}

/** Whether any endpoint of the call's models might search itself; true if a model is not known. */
function canProviderSearch(world: ExtensionWorld, call: TextCall): boolean {
  const { models, ...searching } = toSearchingCall(world, call)
  const endpoints = models.map(slug => {
    const model = world.catalog.models.get(slug)
    return model && listSpoken(model, searching.dialect)
  })
  return endpoints.some(
    ofModel =>
      ofModel === undefined ||
      ofModel.some(endpoint => {
        const choice = chooseEngine(world, toToolOptions({}), endpoint, searching)
        return 'engine' in choice && choice.engine === 'native'
      }),
  )
}

/** Returns the call with models as the catalog has them, and with a function if it will have one. */
function toSearchingCall(
  { catalog }: ExtensionWorld,
  { serverTools, ...call }: TextCall,
): TextCall {
  const { tool_choice: _, ...params } = call.params
  return {
    ...call,
    params,
    models: call.models.map(model =>
      catalog.models.has(model) ? model : (model.split(':')[0] ?? model),
    ),
    tools: serverTools?.requests.length ? [...call.tools, OFFERED] : call.tools,
  }
}

// Some providers do not search beside functions.
const OFFERED: Tool = { type: 'function', name: 'offered', parameters: {} }

/** What `web_search_options` may say to engines alone: clients of the public service send it. */
const ENGINE_WISHES = ['engine', 'max_results', 'search_prompt']

const hasEngineWishes = (asked: unknown): asked is Json =>
  isObject(asked) && ENGINE_WISHES.some(name => asked[name] != null)

/** Returns what a call wishes of engines; nothing if the config has none. */
function readEngineWishes({ config }: ExtensionWorld, { params }: TextCall): WebOptions {
  const { web_search_options: asked } = params
  const isNone = 'obstacle' in findOwnEngine(config, { engine: 'auto', mode: null })
  return isNone || !hasEngineWishes(asked) ? {} : readCallOptions(asked, config)
}

const CALL_OPTIONS = [
  ...ENGINE_WISHES,
  ...['search_context_size', 'user_location', 'max_uses', 'allowed_domains', 'excluded_domains'],
]
const SIZES = ['low', 'medium', 'high'] as const

/** Reads a call's `web_search_options`, in OpenAI's form. Throws 400 naming the field. */
function readCallOptions(asked: Json, config: Config): WebOptions {
  const at = 'web_search_options'
  const stray = Object.keys(asked).find(name => !CALL_OPTIONS.includes(name))
  if (stray !== undefined)
    throw invalid(
      `${at}: expected ${CALL_OPTIONS.join(', ')}, which search engines read`,
      `${at}.${stray.slice(0, 64)}`,
    )
  const { search_context_size: size, user_location: place } = asked
  const wishes = omitUndefined({
    engine: asked.engine === 'auto' ? undefined : (asked.engine ?? undefined),
    max_results: asked.max_results ?? undefined,
    search_prompt: asked.search_prompt ?? undefined,
    max_uses: asked.max_uses ?? undefined,
  })
  const isSize = size == null || SIZES.some(one => one === size)
  if (!isSize)
    throw invalid(
      `${at}.search_context_size: expected ${SIZES.join(', ')}`,
      `${at}.search_context_size`,
    )
  const domains = readDomainLists(
    [asked.allowed_domains, `${at}.allowed_domains`],
    [asked.excluded_domains, `${at}.excluded_domains`],
  )
  return omitUndefined({
    ...readWebOptions(wishes, at, config),
    search_context_size: (size as WebOptions['search_context_size'] | null) ?? undefined,
    allowed_domains: domains.allowed.length > 0 ? domains.allowed : undefined,
    excluded_domains: domains.excluded.length > 0 ? domains.excluded : undefined,
    user_location: place == null ? undefined : readPlace(place, `${at}.user_location`),
  })
}

// OpenAI's chat API has the place one level deeper than its Responses API.
const readPlace = (place: unknown, at: string): Json =>
  isObject(place) && isObject(place.approximate)
    ? readLocation(place.approximate, `${at}.approximate`)
    : readLocation(place, at)
