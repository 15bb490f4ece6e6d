import { invalid } from '../../base/errors.ts'
import { isObject, readString } from '../../base/json.ts'
import type { Config } from '../../config.ts'
import { findHighestCount } from '../../engine/kinds/text/understanding.ts'
import { requireService } from '../../engine/plan/constraints.ts'
import type { Run } from '../../engine/run.ts'
import { createTree } from '../../engine/tree.ts'
import type { TextCall } from '../../language/call.ts'
import type { TextPart } from '../../language/part.ts'
import type { ServerToolRequest, StopCondition } from '../../language/server-tools.ts'
import type { FunctionTool, Tool, ToolChoice } from '../../language/tool.ts'
import { findStandIns, listToolNames } from '../../translation/client-tools.ts'
import { readServiceName } from '../../translation/dialects/server-tools.ts'
import { readAllowance } from '../../translation/protocols/tools.ts'
import type { Restored, ServerTool, ToolFunction, ToolWorld } from '../server-tool.ts'
import { setTurnAside, ToolLoop } from './loop.ts'
import type { OfferedFunction } from './use.ts'

/**
 * Adds the functions of the gateway's own tools to a call that asks for such, and prepares its loop.
 * Returns synchronously if it asks for none. Throws 400 for names that two functions have, for a
 * condition or a choice that names no tool of the call, and for a call of several answers.
 */
export function offerTools(world: ToolWorld, run: Run): void | Promise<void> {
  const { call } = run
  if (call.kind !== 'text') return
  checkChoice(world, call)
  if (call.serverTools?.requests.length) return offer(world, run, call)
}

/** Throws 400 for a choice of a tool that the call does not ask for. */
function checkChoice({ config }: ToolWorld, { params, tools, serverTools }: TextCall): void {
  const { tool_choice: choice } = params
  if (typeof choice !== 'object') return
  const { names = [] } = readAllowance(choice) ?? {}
  const isOther = (tool: Tool) => tool.type === 'function' && !names.includes(tool.name)
  // Providers that have no such choice would be shown all.
  if (names.length > 0 && tools.length > 0 && !serverTools?.requests.length && tools.every(isOther))
    throw invalid(
      `tool_choice: expected tools of this request, found ${names[0]?.slice(0, 100)}`,
      'tool_choice',
    )
  if (CHOICES.includes(choice.type)) return
  const isTool =
    serverTools?.requests.some(request => isNamed(config, request, choice.type)) ||
    tools.some(tool => readType(tool)?.startsWith(choice.type))
  if (!isTool)
    throw invalid(
      `tool_choice.type: expected a tool of this request, found ${choice.type.slice(0, 100)}`,
      'tool_choice.type',
    )
}

/** The forms of a choice that name no type of a tool. */
const CHOICES = ['function', 'custom', 'allowed_tools']

/** Returns the type of a provider's own tool, which may end in a version. */
const readType = (tool: Tool): string | null =>
  tool.type === 'other' && isObject(tool.value) ? readString(tool.value.type) : null

/** Tells whether a client means this tool: it may have two prefixes, and the tool other names. */
function isNamed(config: Config, { name, type }: ServerToolRequest, wanted: string): boolean {
  const plain = readServiceName(config, wanted) ?? wanted
  return wanted === type || plain === name || plain === readServiceName(config, type)
}

async function offer(world: ToolWorld, run: Run, asked: TextCall): Promise<void> {
  requireServices(world, run, asked)
  const left = delegateTools(world, asked)
  const { serverTools: request } = left
  const delegated = request ? omitStepLimit(left) : left
  run.call = delegated as typeof run.call
  if (!request) return
  if (findHighestCount(delegated, 'answers') > 1)
    throw invalid('n: expected 1 beside tools that the gateway runs', 'n')
  const offers = await Promise.all(
    request.requests.map(one => listFunctions(world, run, one, findTool(world, one))),
  )
  const opening = await announceTools(world, run, request.requests)
  const { call, approved } = restoreUses(world, run, delegated)
  const functions = new Map<string, OfferedFunction>()
  const standIns = findStandIns(call)
  const clientFunctions = new Set(call.tools.flatMap(tool => listToolNames(tool, standIns)))
  for (const { name, tool, request: asked } of offers.flat()) {
    if (functions.has(name) || clientFunctions.has(name))
      throw invalid(
        `${asked.field}: expected no other function named ${name.slice(0, 64)}`,
        asked.field,
      )
    functions.set(name, { tool, request: asked })
  }
  const deferred = findDeferred(call)
  const shown = call.tools.filter(tool => !deferred.has(tool))
  const names = new Set([...functions.keys(), ...clientFunctions])
  const stops = request.stops.map((stop, i) => resolveStop(world, functions, names, stop, i))
  const loop = new ToolLoop({
    request: { ...request, stops },
    functions,
    deferred: new Map([...deferred.values()].map(loaded => [loaded.name, loaded])),
    clientFunctions,
    hasOtherTools: call.tools.some(isOfUnknownNames),
    ...{ approved, opening },
  })
  run.toolLoop = loop
  const params = chooseTool(world, call, offers.flat())
  run.tree ??= createTree(world, run)
  const isLast = run.within === null && !run.isDry && (await setTurnAside(world, run))
  run.call = {
    ...call,
    tools: [...shown, ...offers.flat().map(({ definition }) => toTool(definition))],
    params: isLast ? loop.endBeforehand(params) : params,
  } as typeof run.call
}

/** Throws 403 where rules keep the call from a service that is asked before the model. */
function requireServices(world: ToolWorld, run: Run, { serverTools }: TextCall): void {
  for (const request of serverTools?.requests ?? []) {
    const tool = findTool(world, request)
    const service = tool.asksWhenOffered && tool.findService?.(world, request.options)
    if (service) requireService(world, run, service)
  }
}

/** Returns the call without the bound of steps for its provider: the gateway takes the steps. */
function omitStepLimit(call: TextCall): TextCall {
  if (call.extra.max_tool_calls === undefined) return call
  const { max_tool_calls: _, ...extra } = call.extra
  return { ...call, extra }
}

/** Returns the call without the tools that a provider has itself, and with what it asks for them. */
function delegateTools(world: ToolWorld, call: TextCall): TextCall {
  const { serverTools, ...rest } = call
  if (!serverTools) return call
  let delegated: TextCall = rest
  const requests = serverTools.requests.filter(request => {
    const whole = { ...delegated, serverTools }
    const changed = findTool(world, request).delegate?.(world, whole, request.options)
    if (!changed) return true
    const { serverTools: _, ...kept } = changed
    delegated = kept
    return false
  })
  return requests.length === 0
    ? delegated
    : { ...delegated, serverTools: { ...serverTools, requests } }
}

/** Renders what the tools of a call show of themselves before all else. */
async function announceTools(
  world: ToolWorld,
  run: Run,
  requests: ServerToolRequest[],
): Promise<TextPart[]> {
  const { call } = run
  if (call.kind !== 'text') return []
  const items = await Promise.all(
    requests.map(
      one => findTool(world, one).announce?.(world, { options: one.options, run }) ?? [],
    ),
  )
  const { dialect } = call
  return items.flat().map(value => ({ type: 'other', choice: 0, dialect, value }))
}

/** Translates what the conversation has of earlier uses, tool by tool. */
function restoreUses(world: ToolWorld, run: Run, delegated: TextCall): Restored {
  const requests = delegated.serverTools?.requests ?? []
  let restored: Restored = { call: delegated, approved: [] }
  for (const tool of new Set(requests.map(one => findTool(world, one)))) {
    const { call, approved } = restored
    const own = requests.filter(({ name }) => name === tool.name)
    const next = tool.restore?.(world, run, { call, requests: own })
    if (next) restored = { call: next.call, approved: [...approved, ...next.approved] }
  }
  return restored
}

/** A function of one of the gateway's own tools, as a call asks for it. */
interface Offer extends OfferedFunction {
  name: string
  definition: ToolFunction
}

async function listFunctions(
  world: ToolWorld,
  run: Run,
  request: ServerToolRequest,
  tool: ServerTool,
): Promise<Offer[]> {
  const functions = await tool.listFunctions(world, { options: request.options, run })
  return functions.map(definition => ({ name: definition.name, definition, tool, request }))
}

// Throws 400 for a tool that cannot work with this configuration.
function findTool(world: ToolWorld, { name, type, field, options }: ServerToolRequest): ServerTool {
  const tool = world.tools.find(one => one.name === name)
  const obstacle = tool ? tool.findObstacle(world, options) : 'it does not exist'
  if (!tool || obstacle !== null)
    throw invalid(`${field}: ${type} does not work here: ${obstacle}`, field)
  return tool
}

/** Whether a model may call this tool under a name that is not in it. */
const isOfUnknownNames = (tool: Tool): boolean =>
  tool.type === 'other' && typeof (tool.value as { name?: unknown }).name !== 'string'

/** Finds the functions that the model is not shown before it searches, and what it is shown then. */
function findDeferred({ tools, serverTools }: TextCall): Map<Tool, FunctionTool> {
  const deferred = new Map<Tool, FunctionTool>()
  if (!serverTools?.requests.some(({ name }) => name === TOOL_SEARCH)) return deferred
  for (const tool of tools) {
    if (tool.type !== 'function' || tool.extra?.defer_loading !== true) continue
    const { extra: { defer_loading: _, ...extra } = {}, ...rest } = tool
    deferred.set(tool, Object.keys(extra).length > 0 ? { ...rest, extra } : rest)
  }
  return deferred
}

/** The tool that finds deferred functions. */
const TOOL_SEARCH = 'tool_search'

/** Returns a condition with the name by which the loop knows its tool. Throws 400 for none. */
function resolveStop(
  { config }: ToolWorld,
  functions: Map<string, OfferedFunction>,
  names: Set<string>,
  stop: StopCondition,
  i: number,
): StopCondition {
  if (stop.type !== 'has_tool_call' || names.has(stop.tool_name)) return stop
  const requests = [...functions.values()].map(({ request }) => request)
  const tool = requests.find(request => isNamed(config, request, stop.tool_name))
  if (tool) return { ...stop, tool_name: tool.name }
  const field = `stop_server_tools_when.${i}.tool_name`
  throw invalid(`${field}: expected a tool of this call, found another name`, field)
}

const toTool = ({ name, description, parameters }: ToolFunction): Tool => ({
  type: 'function',
  ...{ name, description, parameters },
})

/** Returns the parameters with the function in place of a tool of ours that the model must call. */
function chooseTool(
  { config }: ToolWorld,
  { params, serverTools }: TextCall,
  offers: Offer[],
): TextCall['params'] {
  const { tool_choice } = params
  if (typeof tool_choice !== 'object') return params
  const meant = offers.filter(({ request }) => isNamed(config, request, tool_choice.type))
  const chosen = meant.filter(
    ({ request, tool, name }) => tool.isChosen?.(request.options, tool_choice, name) ?? true,
  )
  if (chosen.length === 0 && meant.length > 0)
    throw invalid('tool_choice: expected a tool of this request', 'tool_choice')
  const [only] = chosen
  if (!only || !serverTools) return params
  const choice: ToolChoice =
    chosen.length === 1 ? { type: 'function', function: { name: only.name } } : 'required'
  return { ...params, tool_choice: choice }
}
