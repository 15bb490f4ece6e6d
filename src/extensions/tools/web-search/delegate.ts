import { invalid } from '../../../base/errors.ts'
import { isObject } from '../../../base/json.ts'
import { addRequiredCapability } from '../../../engine/kinds/text/understanding.ts'
import type { TextCall } from '../../../language/call.ts'
import type { Tool } from '../../../language/tool.ts'
import type { Endpoint } from '../../../resources/models/catalog.ts'
import { listSpoken } from '../../../resources/models.ts'
import type { ExtensionWorld } from '../../world.ts'
import { hasFunction, isRunByAll, leaveNative, type NativeForm } from '../native-form.ts'
import { buildNativeOptions, chooseEngine, findOwnEngine } from './choose-engine.ts'
import type { WebSearchOptions } from './options.ts'

/**
 * Whether the providers of the call search themselves: as the options say, because all endpoints of
 * its models do, or because no engine of the config could. A call that may go to an endpoint without
 * a search of its own is the gateway's, so that fallback keeps working.
 */
export function isLeftToProvider(
  world: ExtensionWorld,
  call: TextCall,
  options: WebSearchOptions,
): boolean {
  if (options.engine !== 'auto') return options.engine === 'native'
  if ('obstacle' in findOwnEngine(world.config, options)) return true
  if (mustSearch(call)) return false
  const endpoints = call.models.map(slug => {
    const model = world.catalog.models.get(slug)
    return model ? listSpoken(model, call.dialect) : []
  })
  return (
    endpoints.length > 0 &&
    endpoints.every(
      ofModel =>
        ofModel.length > 0 &&
        ofModel.every(endpoint => {
          const choice = chooseEngine(world, options, endpoint, addOfferedTools(call))
          return 'engine' in choice && choice.engine === 'native'
        }),
    )
  )
}

/**
 * Returns the call with the tool as its own API has it, where its providers all search themselves;
 * null if the gateway searches.
 */
export function leaveNativeSearch(
  world: ExtensionWorld,
  call: TextCall,
  options: WebSearchOptions,
  native: NativeForm,
): TextCall | null {
  const searches = (endpoint: Endpoint) => {
    const choice = chooseEngine(world, options, endpoint, addOfferedTools(call))
    return 'engine' in choice && choice.engine === 'native'
  }
  const isLeft = hasFunction(call, 'web_search') || isRunByAll(world, call, searches)
  return isLeft ? leaveNative(call, native) : null
}

// Some providers do not search beside functions, and other tools of the gateway will be functions.
const addOfferedTools = ({ params, tools, serverTools }: TextCall) => ({
  params,
  tools: (serverTools?.requests.length ?? 0) > 1 ? [...tools, OFFERED] : tools,
})

const OFFERED: Tool = { type: 'function', name: 'offered', parameters: {} }

/** Whether the model must call the function of this tool: providers cannot be told to search. */
function mustSearch({ params: { tool_choice }, tools }: TextCall): boolean {
  if (tool_choice === 'required') return tools.length === 0
  return typeof tool_choice === 'object' && tool_choice.type.endsWith('web_search')
}

/**
 * Returns the call with a search by its provider. The call's own options overrule the tool's. Throws
 * 400 for a `tool_choice` that requires the search.
 */
export function addNativeSearch(call: TextCall, options: WebSearchOptions): TextCall {
  if (mustSearch(call))
    throw invalid(
      'tool_choice: expected auto: a provider that searches itself cannot be told to search',
      'tool_choice',
    )
  const { web_search_options: callOptions } = call.params
  return addRequiredCapability('web_search', {
    ...call,
    params: {
      ...call.params,
      web_search_options: {
        ...buildNativeOptions(options),
        ...(isObject(callOptions) ? callOptions : {}),
      },
    },
  })
}
