import { isObject, type Json, omitUndefined, readObject, readString } from '../../../base/json.ts'
import type { TextCall } from '../../../language/call.ts'
import type { Tool } from '../../../language/tool.ts'
import type { Endpoint } from '../../../resources/models/catalog.ts'
import { protocols } from '../../../translation/protocols/registry.ts'

/** The tool under every name that it has had (wire reference D.6; Anthropic, "Web search tool"). */
export const WEB_SEARCH = /^web_search(_preview)?(_\d{4}_\d{2}_\d{2}|_\d{8})?$/

/**
 * Returns the call with search options in place of the search tool of its API, if the endpoint's
 * provider searches the web itself and reads them. Returns the call itself otherwise.
 */
export function replaceWebSearch(call: TextCall, endpoint: Endpoint): TextCall {
  const tool = call.tools.find(isWebSearch)
  if (tool?.type !== 'other' || call.params.web_search_options !== undefined) return call
  const replaced: TextCall = {
    ...call,
    tools: call.tools.filter(other => other !== tool),
    params: { ...call.params, web_search_options: readOptions(tool.value as Json) },
  }
  const { supportsWebSearch } = protocols.text[endpoint.protocol] ?? {}
  return supportsWebSearch?.(replaced, endpoint) ? replaced : call
}

/** Whether a tool is the search that a provider of its API runs. */
export const isWebSearch = (tool: Tool): boolean =>
  tool.type === 'other' &&
  isObject(tool.value) &&
  WEB_SEARCH.test(readString(tool.value.type) ?? '')

const readOptions = (tool: Json): Json =>
  omitUndefined({
    search_context_size: tool.search_context_size ?? undefined,
    user_location: tool.user_location ?? undefined,
    allowed_domains:
      readObject(tool, 'filters').allowed_domains ?? tool.allowed_domains ?? undefined,
    excluded_domains: tool.blocked_domains ?? undefined,
    max_uses: tool.max_uses ?? undefined,
  })
