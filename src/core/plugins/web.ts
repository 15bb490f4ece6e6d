import { addRequiredCapability } from '../inference/kinds/text/understanding.ts'
import type { Plugin } from '../inference/plugin.ts'
import type { Run } from '../inference/run.ts'
import type { InferenceWorld } from '../inference/world.ts'
import { isObject, omitUndefined } from '../kernel/json.ts'
import type { TextCall } from '../language/call.ts'
import { requireTool } from './require-tool.ts'
import { chooseSearcher, implySearch } from './web/choose-searcher.ts'
import { isOwnEngine, readWebOptions, type WebOptions } from './web/options.ts'
import { searchOnce } from './web/search.ts'
import { SourceFilter } from './web/source-filter.ts'

/**
 * The `web` plugin: the call's provider searches the web itself as the options say, or an engine of
 * the config searches once before the model's turn (wire reference C.4). Calls with `:online` use
 * it unasked, and those with `web_search_options` that only an engine can serve.
 */
export const web: Plugin<WebOptions> = {
  id: 'web',
  readOptions: readWebOptions,
  imply: (world, call) => (call.kind === 'text' ? implySearch(world, call) : undefined),
  prepare: (world, run, options) =>
    run.call.kind === 'text' ? prepareSearch(world, run, run.call, options) : run.call,
  enrich: async (world, run, call, options) =>
    isOwnEngine(options) ? searchOnce(world, run, call, options) : null,
  before: (call, options) =>
    call.kind === 'text' && !isOwnEngine(options) ? addSearch(call, options) : call,
  after: (_, { openingUses }) =>
    SourceFilter.create(
      openingUses.flatMap(({ offered, result }) =>
        offered?.request.type === 'web' ? (result?.sources ?? []) : [],
      ),
    ),
}

function prepareSearch(
  world: InferenceWorld,
  run: Run,
  call: TextCall,
  options: WebOptions,
): TextCall {
  const prepared = chooseSearcher(world, call, options)
  if (prepared !== call) requireTool(world, run, 'web_search')
  return prepared
}

/** Adds a search by the provider. The call's own `web_search_options` overrule the plugin's. */
function addSearch(call: TextCall, options: WebOptions): TextCall {
  const { web_search_options: callOptions } = call.params
  const { max_uses, allowed_domains, excluded_domains, user_location, x_search } = options
  const search = omitUndefined({
    ...{ max_uses, allowed_domains, excluded_domains, user_location, x_search },
  })
  return addRequiredCapability('web_search', {
    ...call,
    params: {
      ...call.params,
      web_search_options: { ...search, ...(isObject(callOptions) ? callOptions : {}) },
    },
  })
}
