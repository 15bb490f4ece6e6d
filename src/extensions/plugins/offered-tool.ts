import { invalid } from '../../base/errors.ts'
import { isObject, readObject, readString } from '../../base/json.ts'
import type { Run } from '../../engine/run.ts'
import type { TextCall } from '../../language/call.ts'
import type { ServerTools, ToolReading } from '../../language/server-tools.ts'
import { readServiceName } from '../../translation/dialects/server-tools.ts'
import type { ToolWorld } from '../server-tool.ts'
import { requireMatch } from '../tools/parameters.ts'
import { requireTool } from './require-tool.ts'

/** The most turns of a call that does not say when its tools stop. */
const MAX_STEPS = 30

/**
 * Returns the call with a tool of the gateway, as if it named it. One that names the tool itself
 * keeps its own parameters.
 */
export function offerTool(call: TextCall, name: string, options: unknown): TextCall {
  const asked: ServerTools = call.serverTools ?? {
    requests: [],
    stops: [{ type: 'step_count_is', step_count: MAX_STEPS }],
  }
  const { requests } = asked
  if (requests.some(request => request.name === name)) return call
  const request = {
    ...{ name, identity: name, type: `openrouter:${name}`, field: 'plugins', options },
  }
  return { ...call, serverTools: { ...asked, requests: [...requests, request] } }
}

/** Creates what reads the tools that stand in a plugin's entry: `openrouter:<name>` alone. */
export const createToolReading = (world: ToolWorld, run: Run): ToolReading => ({
  isPlain: false,
  readTool(entry, field) {
    const type = isObject(entry) ? (readString(entry.type) ?? '') : ''
    const name = readServiceName(world.config, type)
    const tool = world.tools.find(
      one => name !== undefined && (one.name === name || one.aliases?.includes(name)),
    )
    if (!isObject(entry) || !tool)
      throw invalid(`${field}.type: expected a tool that the gateway runs`, `${field}.type`)
    requireTool(world, run, tool.name)
    const path = `${field}.parameters`
    const parameters = readObject(entry, 'parameters')
    requireMatch(tool.schema, parameters, path)
    const options = tool.readOptions(parameters, path, createToolReading(world, run))
    return { name: tool.name, identity: tool.name, type, options, field: `${field}.type` }
  },
})
