import { invalid } from '../../../base/errors.ts'
import { isObject, type Json, omitUndefined } from '../../../base/json.ts'
import { ENGINE_NAMES, type EngineName } from '../../../config/tools.ts'
import type { Config } from '../../../config.ts'
import type { WebSearch } from '../../../language/call.ts'
import { requireOptions } from '../../plugin.ts'
import { readDomainLists } from '../../tools/domains.ts'
import { findEngineObstacle, findOwnEngine } from '../../tools/web-search/choose-engine.ts'
import type { WebSearchOptions } from '../../tools/web-search/options.ts'
import { ENGINES } from '../../tools/web-search/registry.ts'
import { NO_X_SEARCH, readXSearch } from '../../tools/web-search/x-search.ts'

/** What an entry of the plugin says: what a provider's own search reads, and what engines read. */
export interface WebOptions extends WebSearch {
  /** Absent: the provider if it searches itself, or else the first engine of the config. */
  engine?: 'native' | EngineName
  max_results?: number
  mode?: string
  search_prompt?: string
  /** Only from a call's own `web_search_options`. */
  search_context_size?: 'low' | 'medium' | 'high'
}

/** The options that only an engine of the gateway has a word for. */
const ENGINE_OPTIONS = ['max_results', 'mode', 'search_prompt'] as const

const SEARCH_OPTIONS = [
  ...['engine', 'max_uses', 'include_domains', 'exclude_domains', 'user_location', 'x_search'],
  ...ENGINE_OPTIONS,
]

const MOST_RESULTS = 25
const MOST_USES = 1_000_000
const LONGEST_PROMPT = 10_000

/**
 * Reads an entry (wire reference C.4). Throws 400 naming the field, also for what neither a
 * provider nor an engine of the config could do.
 */
export function readWebOptions(entry: Json, at: string, config: Config): WebOptions {
  requireOptions(entry, at, SEARCH_OPTIONS)
  const { engine, max_results, max_uses, mode, search_prompt, user_location, x_search } = entry
  const domains = readDomainLists(
    [entry.include_domains, `${at}.include_domains`],
    [entry.exclude_domains, `${at}.exclude_domains`],
  )
  const options: WebOptions = omitUndefined({
    engine: engine === undefined ? undefined : readEngine(engine, `${at}.engine`),
    max_results: readCount(max_results, `${at}.max_results`, MOST_RESULTS),
    max_uses: readCount(max_uses, `${at}.max_uses`, MOST_USES),
    mode: mode === undefined ? undefined : readMode(mode, `${at}.mode`),
    search_prompt: readPrompt(search_prompt, `${at}.search_prompt`),
    allowed_domains: domains.allowed.length > 0 ? domains.allowed : undefined,
    excluded_domains: domains.excluded.length > 0 ? domains.excluded : undefined,
    user_location:
      user_location == null ? undefined : readLocation(user_location, `${at}.user_location`),
    x_search: readXSearch(x_search, `${at}.x_search`) ?? undefined,
  })
  checkEngine(options, at, config)
  return options
}

/** Whether a search needs an engine of the gateway, as no provider has a word for its options. */
export const needsOwnEngine = (options: WebOptions): boolean =>
  isOwnEngine(options) || ENGINE_OPTIONS.some(name => options[name] !== undefined)

/** Whether the options name an engine of the gateway. */
export const isOwnEngine = ({ engine }: WebOptions): boolean =>
  engine !== undefined && engine !== 'native'

/** Converts the options to those of the tool that searches the web. */
export const toToolOptions = (options: WebOptions): WebSearchOptions => ({
  engine: options.engine ?? 'auto',
  max_results: options.max_results ?? null,
  max_characters: null,
  max_total_results: null,
  max_uses: options.max_uses ?? null,
  search_context_size: options.search_context_size ?? null,
  mode: options.mode ?? null,
  x_search: options.x_search ?? null,
  domains: { allowed: options.allowed_domains ?? [], excluded: options.excluded_domains ?? [] },
  user_location: options.user_location ? toLocation(options.user_location) : null,
})

const toLocation = ({ city, region, country, timezone }: Record<string, unknown>) => ({
  city: typeof city === 'string' ? city : null,
  region: typeof region === 'string' ? region : null,
  country: typeof country === 'string' ? country.toUpperCase() : null,
  timezone: typeof timezone === 'string' ? timezone : null,
})

/** Throws 400 for an engine that cannot be asked, and for options that need one where none is. */
function checkEngine(options: WebOptions, at: string, config: Config): void {
  if (options.x_search && needsOwnEngine(options))
    throw invalidOption(`${at}.x_search`, `none beside options of search engines: ${NO_X_SEARCH}`)
  const own = ENGINE_OPTIONS.find(name => options[name] !== undefined)
  if (options.engine === 'native' && own !== undefined)
    throw invalidOption(`${at}.${own}`, `none: ${NO_WORD}`)
  if (!needsOwnEngine(options)) return
  const { engine = 'auto', mode = null } = options
  const isSwitchedOff = !config.web_search.enabled
  const field = isOwnEngine(options) ? 'engine' : (own ?? 'engine')
  const anyMode = findOwnEngine(config, { engine, mode: null })
  if (isSwitchedOff || 'obstacle' in anyMode) {
    const reason = describeObstacle(engine, config)
    const expected = field === 'engine' ? `native: ${reason}` : `none: ${NO_WORD}, and ${reason}`
    throw invalidOption(`${at}.${field}`, expected)
  }
  const found = findOwnEngine(config, { engine, mode })
  if ('obstacle' in found) throw invalidOption(`${at}.mode`, `another: ${found.obstacle}`)
}

const NO_WORD = 'providers that search the web themselves have no word for it'

function describeObstacle(name: string, config: Config): string {
  if (!config.web_search.enabled) return 'web_search.enabled is false'
  const engine = ENGINES.find(one => one.name === name)
  if (!engine) return 'this gateway has no search engine (web_search.engines)'
  return `${name} cannot be used: ${findEngineObstacle(config, engine)}`
}

const ENGINE_CHOICES = ['native', ...ENGINE_NAMES] as const

function readEngine(value: unknown, at: string): WebOptions['engine'] {
  const engine = ENGINE_CHOICES.find(name => name === value)
  if (engine !== undefined) return engine
  throw invalidOption(at, `one of ${ENGINE_CHOICES.join(', ')}`)
}

const MODES = [...new Set(ENGINES.flatMap(({ modes }) => modes))].sort()

function readMode(value: unknown, at: string): string {
  const mode = MODES.find(name => name === value)
  if (mode !== undefined) return mode
  throw invalidOption(at, `one of ${MODES.join(', ')}`)
}

function readPrompt(value: unknown, at: string): string | undefined {
  if (value === undefined) return undefined
  if (typeof value === 'string' && value.trim() !== '' && value.length <= LONGEST_PROMPT)
    return value
  throw invalidOption(at, `a text of 1 to ${LONGEST_PROMPT} characters`)
}

function readCount(value: unknown, at: string, most: number): number | undefined {
  if (value === undefined) return undefined
  if (typeof value === 'number' && Number.isInteger(value) && value >= 1 && value <= most)
    return value
  throw invalidOption(at, `a whole number from 1 to ${most}`)
}

const LOCATION_FIELDS = ['city', 'region', 'country', 'timezone']
const LONGEST_PLACE = 200

/** Reads where the user is. Throws 400 naming the field. */
export function readLocation(value: unknown, at: string): Json {
  if (!isObject(value)) throw invalidOption(at, 'an object')
  const fields = LOCATION_FIELDS.filter(name => value[name] != null)
  for (const name of fields) {
    const place = value[name]
    if (typeof place !== 'string' || place.length > LONGEST_PLACE)
      throw invalidOption(`${at}.${name}`, `a text of at most ${LONGEST_PLACE} characters`)
    if (name === 'country' && !/^[A-Za-z]{2}$/.test(place))
      throw invalidOption(`${at}.country`, 'two letters')
  }
  return { type: 'approximate', ...Object.fromEntries(fields.map(name => [name, value[name]])) }
}

const invalidOption = (field: string, expected: string) =>
  invalid(`${field}: expected ${expected}`, field)
