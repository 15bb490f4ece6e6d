import type { Json } from '../../base/json.ts'
import { isAtHome } from '../../engine/kinds/text/foreign-tools.ts'
import type { TextCall } from '../../language/call.ts'
import type { Endpoint } from '../../resources/models/catalog.ts'
import { listSpoken } from '../../resources/models.ts'
import type { ExtensionWorld } from '../world.ts'

/** A tool as the API of a call has it for its own providers: `web_search_20250305`. */
export interface NativeForm {
  value: Json
  /** Its position among the tools of the body. */
  at: number
}

/**
 * Returns the call with the tool as it came, at its place: providers that have it run it, and at
 * all others it is left out and named in the answer.
 */
export function leaveNative(call: TextCall, { value, at }: NativeForm): TextCall {
  const { dialect } = call
  return { ...call, tools: call.tools.toSpliced(at, 0, { type: 'other', dialect, value }) }
}

/** Lists the endpoints of each of the call's models, as they speak with it. */
export const listEndpointsOf = ({ catalog }: ExtensionWorld, call: TextCall): Endpoint[][] =>
  call.models.map(slug => {
    const model = catalog.models.get(slug)
    return model ? listSpoken(model, call.dialect) : []
  })

/** Whether every endpoint of the call runs such a tool: where one does not, fallback would fail. */
export function isRunByAll(
  world: ExtensionWorld,
  call: TextCall,
  runs: (endpoint: Endpoint) => boolean = () => false,
): boolean {
  const all = listEndpointsOf(world, call)
  const isRun = (endpoint: Endpoint) => isAtHome(call, endpoint) || runs(endpoint)
  return all.length > 0 && all.every(list => list.length > 0 && list.every(isRun))
}

/** Whether the client has a function of this name, which the gateway's own would replace. */
export const hasFunction = ({ tools }: TextCall, name: string): boolean =>
  tools.some(tool => tool.type === 'function' && tool.name === name)

/** Returns a list of a native form as the gateway's own tool takes it: an empty one says nothing. */
export const listNone = (list: unknown): unknown =>
  list == null || (Array.isArray(list) && list.length === 0) ? undefined : list
