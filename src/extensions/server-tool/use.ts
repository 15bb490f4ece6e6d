import { Cancellation } from '../../base/cancellation.ts'
import { GatewayError } from '../../base/errors.ts'
import { parseObject } from '../../base/json.ts'
import { filterToolInput } from '../../engine/filtering.ts'
import { denyService, findExclusion } from '../../engine/plan/constraints.ts'
import { enterService } from '../../engine/reserve/service.ts'
import type { Run } from '../../engine/run.ts'
import { nameBound } from '../../engine/tree.ts'
import type { ServerToolRequest } from '../../language/server-tools.ts'
import type { ServerTool, ToolInvocation, ToolResult, ToolWorld } from '../server-tool.ts'
import { cutMarkedText } from '../tools/untrusted-text.ts'
import type { PendingCall } from './turn.ts'

/** A function that a model is shown for one of the gateway's own tools. */
export interface OfferedFunction {
  tool: ServerTool
  request: ServerToolRequest
}

/** One use of a tool: what the model asked for, and what came of it. */
export interface ToolUse {
  /** Null for an unknown function. */
  offered: OfferedFunction | null
  call: PendingCall
  /** The turn of the model that asked for it, from 1; 0 if an earlier answer did. */
  turn: number
  /** Null if it may not run: then it has a result already. */
  invocation: ToolInvocation | null
  /** Ends it: its time is over, the client left, or the gateway stops. */
  limit: Cancellation
  /** The most that it may cost, in nano-dollars. */
  price: bigint
  result: ToolResult | null
  /** Milliseconds. */
  latency: number
  /** Why it failed; null if it did not, or if its failure is only for the model. */
  error: GatewayError | null
}

/** In characters: the most arguments of one use. */
export const MAX_INPUT = 1024 * 1024

/** A call of a function, and how often its tool was used before. */
interface Asked extends Pick<ToolUse, 'call' | 'offered' | 'turn'> {
  uses: number
  /** The request for approval that the client has answered. */
  approvalId?: string
}

/**
 * Prepares the use of a tool that a model called. One that the client must approve waits for that.
 * Arguments that are no JSON object are an answer to the model, as are functions that do not exist.
 */
export function prepareUse(
  world: ToolWorld,
  run: Run,
  { call, offered, turn, uses, approvalId }: Asked,
): ToolUse {
  const use: ToolUse = {
    ...{ call, offered, turn, latency: 0, price: 0n },
    ...{ invocation: null, limit: new Cancellation(), result: null, error: null },
  }
  if (!offered) return refuse(use, 'There is no such tool.')
  if (call.input.length > MAX_INPUT) return refuse(use, 'The arguments are too long.')
  const input = call.input.trim() === '' ? {} : parseObject(call.input)
  if (!input) return refuse(use, 'The arguments are not a JSON object.')
  const { options } = offered.request
  const invocation = {
    ...{ options, run, callId: call.id, name: call.name, input, uses },
    ...(approvalId === undefined ? {} : { approvalId }),
    cancellation: new Cancellation(),
  }
  const asked = offered.tool.requestApproval?.(world, invocation)
  if (asked) return { ...use, result: { text: '', isError: false, pauses: true, item: asked } }
  use.invocation = invocation
  use.price = offered.tool.priceUse?.(world, options) ?? 0n
  return use
}

/** Answers a use that does not run. */
export function refuse(use: ToolUse, text: string): ToolUse {
  use.result = { text, isError: true }
  return use
}

/**
 * Runs the tool, within its time. Whatever goes wrong is a result; throws only what ends the whole
 * call: its cancellation, or a limit.
 */
export async function runUse(world: ToolWorld, use: ToolUse): Promise<void> {
  const { invocation, offered } = use
  if (!invocation || !offered) return
  await filterInput(use, invocation)
  if (isForbidden(world, use, offered, invocation)) return
  const startedAt = world.clock.ticks()
  const { timeout_seconds, max_result_characters } = world.config.server_tools
  const late = new GatewayError('timeout', 'The tool took too long')
  const timer =
    offered.tool.takesTurns || offered.tool.hasOwnTime
      ? undefined
      : setTimeout(() => use.limit.cancel(late), timeout_seconds * 1000)
  try {
    const result = await awaitUnlessEnded(use, () => runTool(world, use, offered, invocation))
    use.result = boundCost(cut(result, max_result_characters), use.price)
  } catch (thrown) {
    const isLate = use.limit.reason === late
    use.error = GatewayError.from(thrown)
    const text = isLate ? `The tool took longer than ${timeout_seconds} s.` : 'The tool failed.'
    // It may have done its work all the same.
    use.result = { text, isError: true, ...(use.price > 0n ? { cost: use.price } : {}) }
    if (!isLate && (use.limit.reason || endsCall(use.error))) throw thrown
  } finally {
    clearTimeout(timer)
    await awaitInner(invocation)
    use.latency = Math.round(world.clock.ticks() - startedAt)
  }
}

/** A use costs no more than was set aside for it: the config may have other prices by now. */
function boundCost(result: ToolResult, price: bigint): ToolResult {
  const { cost, ...free } = result
  if (cost === undefined || cost <= price) return result
  return price > 0n ? { ...free, cost: price } : free
}

/** Filters the arguments: the tool gets what is left of them. Throws 403 for what is blocked. */
async function filterInput(use: ToolUse, invocation: ToolInvocation): Promise<void> {
  const { run, input } = invocation
  if (!run.filtering) return
  try {
    invocation.input = await filterToolInput(run.filtering, input)
  } catch (thrown) {
    use.error = GatewayError.from(thrown)
    use.result = { text: 'The arguments are blocked.', isError: true }
    throw thrown
  }
}

/** Tells whether rules keep the use from whom its tool asks. The model is told which. */
function isForbidden(
  world: ToolWorld,
  use: ToolUse,
  { tool }: OfferedFunction,
  { run, options }: ToolInvocation,
): boolean {
  const service = tool.findService?.(world, options)
  if (!service) return false
  const word = findExclusion(world, run, service)
  if (word === undefined) return false
  refuse(use, denyService(service, word).message)
  return true
}

/**
 * Runs the tool. One that asks a service takes what a call of a provider takes; the model is told if
 * nothing is left for that.
 */
async function runTool(
  world: ToolWorld,
  use: ToolUse,
  { tool }: OfferedFunction,
  invocation: ToolInvocation,
): Promise<ToolResult> {
  const { run, options, cancellation } = invocation
  const service = tool.findService?.(world, options)
  if (!service || service.isNoProvider) return tool.run(world, invocation)
  const entered = await enterService(world, run, cancellation).catch((thrown: unknown) => {
    const error = GatewayError.from(thrown)
    if (nameBound(error) === null) throw thrown
    return error.message
  })
  if (typeof entered === 'string') {
    use.invocation = null
    return { text: entered, isError: true }
  }
  try {
    return await tool.run(world, invocation)
  } finally {
    entered()
  }
}

/** Awaits what the calls within a use cost: they belong to the call that it is part of. */
async function awaitInner(invocation: ToolInvocation): Promise<void> {
  const inner = invocation.run.inner.filter(({ within }) => within === invocation)
  if (inner.length > 0) await Promise.all(inner.map(({ closing }) => closing))
}

/** The errors of a tool that end the call: a key that is gone, a limit, and rules. */
const endsCall = ({ status }: GatewayError): boolean => [401, 402, 403, 503].includes(status)

/** Awaits a tool until it is ended: one that does not listen to that must not keep the call. */
async function awaitUnlessEnded(
  { limit, invocation }: ToolUse,
  run: () => Promise<ToolResult>,
): Promise<ToolResult> {
  const ended = Promise.withResolvers<never>()
  limit.listen(reason => {
    invocation?.cancellation.cancel(reason)
    ended.reject(reason)
  })
  try {
    return await Promise.race([run(), ended.promise])
  } finally {
    limit.listen(null)
  }
}

const cut = (result: ToolResult, most: number): ToolResult =>
  result.text.length <= most ? result : { ...result, text: cutMarkedText(result.text, most) }
