import { type Plugin, requireOptions } from '../plugin.ts'
import { webFetch as tool, type WebFetchOptions } from '../tools/web-fetch.ts'
import { offerTool } from './offered-tool.ts'
import { requireTool } from './require-tool.ts'

const OPTIONS = ['allowed_domains', 'blocked_domains', 'max_content_tokens', 'max_uses']

/**
 * The `web-fetch` plugin: the model is offered the tool that reads pages, as if the call named it
 * (wire reference C.4). A call that names the tool itself keeps its own parameters.
 */
export const webFetch: Plugin<WebFetchOptions> = {
  id: 'web-fetch',
  readOptions(entry, at) {
    requireOptions(entry, at, OPTIONS)
    const { id: _, enabled: __, ...parameters } = entry
    return tool.readOptions(parameters, at)
  },
  prepare(world, run, options) {
    if (run.call.kind !== 'text') return run.call
    requireTool(world, run, tool.name)
    return offerTool(run.call, tool.name, options)
  },
}
