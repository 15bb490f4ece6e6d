import { type Plugin, requireOptions } from '../inference/plugin.ts'
import type { TextCall } from '../language/call.ts'
import type { ServerTools } from '../language/server-tools.ts'
import { webFetch as tool, type WebFetchOptions } from '../tools/web-fetch.ts'
import { requireTool } from './require-tool.ts'

const OPTIONS = ['allowed_domains', 'blocked_domains', 'max_content_tokens', 'max_uses']

/**
 * The `web-fetch` plugin: the model is offered the tool that reads pages, as if the call named it
 * (wire reference C.4). A call that names the tool itself keeps its own parameters.
 */
export const webFetch: Plugin<WebFetchOptions> = {
  id: 'web-fetch',
  offersTools: true,
  readOptions(entry, at) {
    requireOptions(entry, at, OPTIONS)
    const { id: _, enabled: __, ...parameters } = entry
    return tool.readOptions(parameters, at)
  },
  prepare(world, run, options) {
    if (run.call.kind !== 'text') return run.call
    requireTool(world, run, tool.name)
    return offerTool(run.call, options)
  },
}

/** The most turns of a call that does not say when its tools stop. */
const MAX_STEPS = 30

function offerTool(call: TextCall, options: WebFetchOptions): TextCall {
  const { requests, stops }: ServerTools = call.serverTools ?? {
    requests: [],
    stops: [{ type: 'step_count_is', step_count: MAX_STEPS }],
  }
  if (requests.some(({ name }) => name === tool.name)) return call
  const request = {
    ...{ name: tool.name, identity: tool.name, type: `openrouter:${tool.name}`, field: 'plugins' },
    options,
  }
  return { ...call, serverTools: { requests: [...requests, request], stops } }
}
