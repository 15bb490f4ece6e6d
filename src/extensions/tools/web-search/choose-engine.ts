import { type Json, omitUndefined } from '../../../base/json.ts'
import type { EngineConfig, EngineName } from '../../../config/tools.ts'
import type { Config } from '../../../config.ts'
import type { TextCall } from '../../../language/call.ts'
import type { Endpoint } from '../../../resources/models/catalog.ts'
import { protocols } from '../../../translation/protocols/registry.ts'
import type { SearchEngine } from './engine.ts'
import type { WebSearchOptions } from './options.ts'
import { ENGINES } from './registry.ts'
import { NO_X_SEARCH } from './x-search.ts'

/** Who searches for a call: the model's provider, an engine of the gateway, or none. */
type EngineChoice = { engine: 'native' | EngineName } | { obstacle: string }

/**
 * Chooses who searches for a call to an endpoint. `native` is the model's provider, if it supports
 * all of the options; `auto` is the provider, or else the first engine of the config that does; any
 * other name is that engine. Pure. Wire reference D.6.
 */
export function chooseEngine(
  { config }: { config: Config },
  options: WebSearchOptions,
  endpoint: Endpoint,
  call: Pick<TextCall, 'params' | 'tools'> = NO_TOOLS,
): EngineChoice {
  if (!config.web_search.enabled) return { obstacle: SWITCHED_OFF }
  const isNative = supportsNative(options, endpoint, call)
  if (options.engine === 'native')
    return isNative ? { engine: 'native' } : { obstacle: describeNoNative(options) }
  if (options.engine === 'auto' && isNative) return { engine: 'native' }
  const own = findOwnEngine(config, options)
  return 'obstacle' in own ? own : { engine: own.engine.name }
}

export const SWITCHED_OFF = 'web_search is switched off (web_search.enabled)'

const NO_TOOLS = { params: {}, tools: [] }

const describeNoNative = (options: WebSearchOptions): string =>
  listOwnOptions(options).length > 0
    ? `a provider’s own search has no ${listOwnOptions(options).join(', ')}`
    : 'the model’s provider has no search of its own with these options'

/** Whether the endpoint's provider searches itself, and has a word for every option. */
function supportsNative(
  options: WebSearchOptions,
  endpoint: Endpoint,
  { params, tools }: Pick<TextCall, 'params' | 'tools'>,
): boolean {
  if (listOwnOptions(options).length > 0) return false
  const searching = {
    params: { ...params, web_search_options: buildNativeOptions(options) },
    tools,
  }
  const { supportsWebSearch } = protocols.text[endpoint.protocol] ?? {}
  return supportsWebSearch?.(searching as TextCall, endpoint) ?? false
}

/** Lists the options that only an engine of the gateway has a word for. */
const listOwnOptions = (options: WebSearchOptions): string[] =>
  (['max_results', 'max_characters', 'max_total_results', 'mode'] as const).filter(
    name => options[name] !== null,
  )

/** Returns the options as a call's `web_search_options`, for a provider's own search. */
export const buildNativeOptions = (options: WebSearchOptions): Json =>
  omitUndefined({
    max_uses: options.max_uses ?? undefined,
    allowed_domains: options.domains.allowed.length > 0 ? options.domains.allowed : undefined,
    excluded_domains: options.domains.excluded.length > 0 ? options.domains.excluded : undefined,
    search_context_size: options.search_context_size ?? undefined,
    x_search: options.x_search ?? undefined,
    user_location: options.user_location
      ? omitUndefined({
          type: 'approximate',
          city: options.user_location.city ?? undefined,
          region: options.user_location.region ?? undefined,
          country: options.user_location.country ?? undefined,
          timezone: options.user_location.timezone ?? undefined,
        })
      : undefined,
  })

/**
 * Returns why no search could be made with this config, for any model; null if one might: the
 * model's provider may search itself where the options have no more than its words.
 */
export function findSearchObstacle(config: Config, options: WebSearchOptions): string | null {
  if (!config.web_search.enabled) return SWITCHED_OFF
  const isForEngines = listOwnOptions(options).length > 0
  if (options.engine === 'native') return isForEngines ? describeNoNative(options) : null
  const own = findOwnEngine(config, options)
  return 'obstacle' in own && (options.engine !== 'auto' || isForEngines) ? own.obstacle : null
}

/** An engine, and its settings. */
export interface ConfiguredEngine {
  engine: SearchEngine
  settings: EngineConfig
}

/** Finds the engine of the gateway that searches with these options: the named, or the first. */
export function findOwnEngine(
  config: Config,
  options: Pick<WebSearchOptions, 'engine' | 'mode'> & Partial<Pick<WebSearchOptions, 'x_search'>>,
): ConfiguredEngine | { obstacle: string } {
  if (options.x_search) return { obstacle: NO_X_SEARCH }
  if (options.engine === 'auto' || options.engine === 'native')
    return findFirstEngine(config, options)
  const engine = ENGINES.find(({ name }) => name === options.engine)
  const obstacle = engine ? findEngineObstacle(config, engine) : 'it is not known'
  if (!engine || obstacle !== null)
    return { obstacle: `the search engine ${options.engine} cannot be used: ${obstacle}` }
  if (!hasMode(engine, options)) return { obstacle: describeModes(engine) }
  return { engine, settings: config.web_search.engines[engine.name] ?? {} }
}

function findFirstEngine(
  config: Config,
  options: Pick<WebSearchOptions, 'mode'>,
): ConfiguredEngine | { obstacle: string } {
  const usable = listEngines(config).filter(({ engine }) => !findEngineObstacle(config, engine))
  const [first] = usable
  if (!first)
    return { obstacle: 'the model’s provider does not search itself, and no engine is configured' }
  return (
    usable.find(({ engine }) => hasMode(engine, options)) ?? {
      obstacle: describeModes(first.engine),
    }
  )
}

const hasMode = ({ modes }: SearchEngine, { mode }: Pick<WebSearchOptions, 'mode'>): boolean =>
  mode === null || modes.includes(mode)

const describeModes = ({ name, modes }: SearchEngine): string =>
  `the search engine ${name} has ${modes.length > 0 ? `the modes ${modes.join(', ')}` : 'no modes'}`

/** Lists the engines of the config, in its order. */
const listEngines = ({ web_search: { engines } }: Config): ConfiguredEngine[] =>
  Object.entries(engines).flatMap(([name, settings]) => {
    const engine = ENGINES.find(one => one.name === name)
    return engine ? [{ engine, settings }] : []
  })

/** Returns why an engine cannot be asked with this config; null if it can. */
export function findEngineObstacle(config: Config, engine: SearchEngine): string | null {
  const settings = config.web_search.engines[engine.name]
  const path = `web_search.engines.${engine.name}`
  if (!settings) return `it is not configured (${path})`
  if (settings.enabled === false) return `it is switched off (${path}.enabled)`
  if (engine.needsKey && settings.api_key === undefined) return `it has no key (${path}.api_key)`
  if (engine.baseUrl === null && settings.base_url === undefined)
    return `it has no address (${path}.base_url)`
  return null
}
