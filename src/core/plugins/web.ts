import { invalid } from '../errors.ts'
import { addNeed } from '../inference/kinds/text/understanding.ts'
import type { Plugin } from '../inference/plugin.ts'
import { isObject, type Json } from '../kernel/json.ts'
import type { TextCall, WebSearch } from '../language/call.ts'

/**
 * The `web` plugin: the provider searches the web itself, as the options say (wire reference C.4).
 * The gateway has no search of its own, so options that no provider supports throw 400.
 */
export const web: Plugin<WebSearch> = {
  id: 'web',
  read: readSearch,
  before: (call, search) => (call.kind === 'text' ? searching(call, search) : call),
}

/** Adds the search to the call. The call's own `web_search_options` overrule the plugin's. */
function searching(call: TextCall, search: WebSearch): TextCall {
  const { web_search_options: own } = call.params
  return addNeed('web_search', {
    ...call,
    params: { ...call.params, web_search_options: { ...search, ...(isObject(own) ? own : {}) } },
  })
}

/** The options that only a search by the gateway itself could support. */
const OURS = ['max_results', 'mode', 'search_prompt', 'x_search']

function readSearch(plugin: Json, at: string): WebSearch {
  const { engine, max_uses, include_domains, exclude_domains, user_location } = plugin
  if (engine !== undefined && engine !== 'native')
    throw refused(`${at}.engine`, 'native: this gateway has no search of its own')
  for (const name of OURS)
    if (plugin[name] !== undefined)
      throw refused(
        `${at}.${name}`,
        'none: providers that search the web themselves have no word for it',
      )
  const search: WebSearch = {}
  if (max_uses !== undefined) search.max_uses = wholeNumber(max_uses, `${at}.max_uses`)
  if (include_domains !== undefined)
    search.allowed_domains = texts(include_domains, `${at}.include_domains`)
  if (exclude_domains !== undefined)
    search.excluded_domains = texts(exclude_domains, `${at}.exclude_domains`)
  if (user_location != null) search.user_location = placeOf(user_location, `${at}.user_location`)
  return search
}

function wholeNumber(value: unknown, at: string): number {
  if (typeof value === 'number' && Number.isSafeInteger(value) && value > 0) return value
  throw refused(at, 'a whole number from 1')
}

function texts(value: unknown, at: string): string[] {
  if (Array.isArray(value) && value.length > 0 && value.every(one => typeof one === 'string'))
    return value
  throw refused(at, 'at least one domain')
}

const PLACE = ['city', 'region', 'country', 'timezone']

function placeOf(value: unknown, at: string): Json {
  if (!isObject(value)) throw refused(at, 'an object')
  const said = PLACE.filter(name => value[name] != null)
  const wrong = said.find(name => typeof value[name] !== 'string')
  if (wrong !== undefined) throw refused(`${at}.${wrong}`, 'a text')
  return { type: 'approximate', ...Object.fromEntries(said.map(name => [name, value[name]])) }
}

const refused = (field: string, expected: string) =>
  invalid(`${field}: expected ${expected}`, field)
