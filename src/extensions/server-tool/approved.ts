import { recheckRun } from '../../engine/admit.ts'
import type { Run } from '../../engine/run.ts'
import type { TextCall } from '../../language/call.ts'
import type { Message } from '../../language/message.ts'
import { filterAddedContent } from '../filters.ts'
import type { ToolWorld } from '../server-tool.ts'
import { findLoop, type ToolLoop } from './loop.ts'
import { UsesRun } from './uses.ts'

/**
 * Runs the uses that the client has approved since the last answer, before the model's first turn.
 * Their results join the conversation, and what clients see of them begins the answer. An approval
 * is used once it begins, also if the call fails later. Returns synchronously if there are none. Throws 400
 * for one that another call has used, 401 for a key that is no longer valid, 402 if a limit has not
 * enough left, and 403 for a result that filters block.
 */
export function runApproved(world: ToolWorld, run: Run): void | Promise<void> {
  const { isDry, blocked } = run
  const loop = findLoop(run)
  if (loop && loop.approved.length > 0 && !isDry && !blocked) return runUses(world, run, loop)
}

async function runUses(world: ToolWorld, run: Run, loop: ToolLoop): Promise<void> {
  const uses = new UsesRun(world, run, loop, await loop.beginApproved(world, run))
  let hasBegun = false
  try {
    for (let parts = await uses.next(); parts; parts = await uses.next()) {
      hasBegun = true
      loop.opening.push(...parts)
    }
  } catch (thrown) {
    if (!hasBegun) loop.forgetApproved(world)
    throw thrown
  } finally {
    // What ran beside one that failed is charged first.
    await run.pendingStep
    run.pendingStep = null
  }
  const call = run.call as TextCall
  const results = loop.takeApprovedResults()
  const messages = call.messages.map(message => fillResult(message, results))
  run.call = (await filterAddedContent(run, call, { ...call, messages })) as Run['call']
  recheckRun(world, run)
}

const fillResult = (message: Message, results: Map<string, Message>): Message => {
  const isOpen = message.role === 'tool' && message.blocks.length === 0
  return (isOpen && results.get(message.tool_call_id ?? '')) || message
}
