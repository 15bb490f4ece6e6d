import { invalid } from '../errors.ts'
import { addRequiredCapability } from '../inference/kinds/text/understanding.ts'
import { type Plugin, requireOptions } from '../inference/plugin.ts'
import { isObject, type Json } from '../kernel/json.ts'
import type { TextCall, WebSearch } from '../language/call.ts'

/**
 * The `web` plugin: the provider searches the web itself, as the options say (wire reference C.4).
 * The gateway has no search of its own, so options that no provider supports throw 400.
 */
export const web: Plugin<WebSearch> = {
  id: 'web',
  readOptions: readSearch,
  before: (call, search) => (call.kind === 'text' ? addSearch(call, search) : call),
}

/** Adds the search to the call. The call's own `web_search_options` overrule the plugin's. */
function addSearch(call: TextCall, search: WebSearch): TextCall {
  const { web_search_options: callOptions } = call.params
  return addRequiredCapability('web_search', {
    ...call,
    params: {
      ...call.params,
      web_search_options: { ...search, ...(isObject(callOptions) ? callOptions : {}) },
    },
  })
}

const SEARCH_OPTIONS = [
  ...['engine', 'max_uses', 'include_domains', 'exclude_domains', 'user_location'],
]

/** The options that only a search by the gateway itself could support. */
const OWN_SEARCH_OPTIONS = ['max_results', 'mode', 'search_prompt', 'x_search']

function readSearch(plugin: Json, at: string): WebSearch {
  requireOptions(plugin, at, [...SEARCH_OPTIONS, ...OWN_SEARCH_OPTIONS])
  const { engine, max_uses, include_domains, exclude_domains, user_location } = plugin
  if (engine !== undefined && engine !== 'native')
    throw invalidOption(`${at}.engine`, 'native: this gateway has no search of its own')
  for (const name of OWN_SEARCH_OPTIONS)
    if (plugin[name] !== undefined)
      throw invalidOption(
        `${at}.${name}`,
        'none: providers that search the web themselves have no word for it',
      )
  const search: WebSearch = {}
  if (max_uses !== undefined) search.max_uses = readWholeNumber(max_uses, `${at}.max_uses`)
  if (include_domains !== undefined)
    search.allowed_domains = readDomains(include_domains, `${at}.include_domains`)
  if (exclude_domains !== undefined)
    search.excluded_domains = readDomains(exclude_domains, `${at}.exclude_domains`)
  if (user_location != null)
    search.user_location = readLocation(user_location, `${at}.user_location`)
  return search
}

function readWholeNumber(value: unknown, at: string): number {
  if (typeof value === 'number' && Number.isSafeInteger(value) && value > 0) return value
  throw invalidOption(at, 'a whole number from 1')
}

function readDomains(value: unknown, at: string): string[] {
  if (Array.isArray(value) && value.length > 0 && value.every(one => typeof one === 'string'))
    return value
  throw invalidOption(at, 'at least one domain')
}

const LOCATION_FIELDS = ['city', 'region', 'country', 'timezone']

function readLocation(value: unknown, at: string): Json {
  if (!isObject(value)) throw invalidOption(at, 'an object')
  const fields = LOCATION_FIELDS.filter(name => value[name] != null)
  const wrong = fields.find(name => typeof value[name] !== 'string')
  if (wrong !== undefined) throw invalidOption(`${at}.${wrong}`, 'a text')
  return { type: 'approximate', ...Object.fromEntries(fields.map(name => [name, value[name]])) }
}

const invalidOption = (field: string, expected: string) =>
  invalid(`${field}: expected ${expected}`, field)
