import type { Cancellation } from '../../base/cancellation.ts'
import { yieldToEventLoop } from '../../base/clock.ts'
import { GatewayError } from '../../base/errors.ts'
import type { Grant } from '../../limits/counters.ts'
import type { Run } from '../run.ts'
import { createTree, nameBound, type TreeTurn } from '../tree.ts'
import type { InferenceWorld } from '../world.ts'

/** What a request to a service is not charged with: its price is money of a use, or none. */
const NOTHING = { isRoot: false, nanos: 0n, tokens: 0 }

/**
 * Takes what a request to a service needs that is made for a call (a search, a judge, a reader of
 * documents), as a turn of a model within the call does: a call of the tree, a request, and a place of
 * its key, after those that wait already. Returns what gives the places back. Throws `TreeEnded` and
 * 429 where nothing is left, and the reason of the cancellation.
 */
export async function enterService(
  world: InferenceWorld,
  run: Run,
  cancellation: Cancellation,
): Promise<() => void> {
  const { counters } = world.traffic
  run.tree ??= createTree(world, run)
  const { tree } = run
  let turn: TreeTurn | null = null
  try {
    turn = await tree.enter(NOTHING, cancellation)
    // Others get their turn before, as before each turn of a model within a call.
    await yieldToEventLoop()
    const grant = await takeRequest(world, run, cancellation)
    const entered = turn
    entered.countCalls(1)
    return () => {
      counters.give(grant)
      tree.leave(entered)
    }
  } catch (thrown) {
    if (turn) tree.leave(turn)
    const bound = nameBound(GatewayError.from(thrown))
    if (bound !== null) tree.end(bound)
    throw thrown
  }
}

// Before its first turn a call has a place, in which nothing else of it runs: the request has that.
function takeRequest(
  { traffic: { counters } }: InferenceWorld,
  { actor, call, grant }: Run,
  cancellation: Cancellation,
): Grant | Promise<Grant> {
  const isInBatch = call.origin.batch_id !== undefined
  const claim = { actor, call: { models: [] }, isInBatch, request: true }
  return grant?.isOpen ? counters.take(claim) : counters.takeInTurn(claim, cancellation)
}
