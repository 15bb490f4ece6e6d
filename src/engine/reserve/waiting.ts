import { Timeout } from '../../base/clock.ts'
import { GatewayError } from '../../base/errors.ts'
import type { Grant } from '../../limits/counters.ts'
import type { Account, Bound, CostEstimate, Ledger } from '../../limits/ledger.ts'
import type { Run } from '../run.ts'
import type { InferenceWorld } from '../world.ts'

/**
 * Takes money once other calls give back what they hold, after those that wait already and for at most
 * `limits.wait_seconds`. Where that is spent, or the time is over, the least is enough. Throws 402 if
 * that is not left, and the reason of the cancellation.
 */
export async function takeWhenFree(
  { config, ledger }: InferenceWorld,
  { policy: { bounds }, cancellation }: Run,
  estimate: CostEstimate,
  take: (estimate: CostEstimate) => Grant | Promise<Grant>,
): Promise<Grant> {
  const { wait_seconds } = config.limits
  const account = wait_seconds === 0 ? null : findHeldAccount(ledger, bounds, estimate)
  if (account === null) return take(useLeast(estimate))
  const place = ledger.queue(account)
  const over = Promise.withResolvers<void>()
  let isOver = false
  const limit = new Timeout(wait_seconds * 1000, () => {
    isOver = true
    over.resolve()
  })
  try {
    while (!isOver && findHeldAccount(ledger, bounds, estimate) !== null) {
      await cancellation.awaitUnlessCancelled(Promise.race([place.freed(), over.promise]))
      const grant = await tryTake(take, estimate)
      if (grant) return grant
    }
  } finally {
    limit.stop()
    place.leave()
  }
  return take(useLeast(estimate))
}

/** Returns the estimate with the least that is enough as its minimum. */
export const useLeast = (estimate: CostEstimate): CostEstimate =>
  estimate.least ? { maximum: estimate.maximum, minimum: estimate.least } : estimate

export const isShortage = (thrown: unknown): boolean =>
  thrown instanceof GatewayError && thrown.type === 'payment_required'

async function tryTake(
  take: (estimate: CostEstimate) => Grant | Promise<Grant>,
  estimate: CostEstimate,
): Promise<Grant | null> {
  try {
    return await take(estimate)
  } catch (thrown) {
    if (isShortage(thrown)) return null
    throw thrown
  }
}

const WAYS = ['own', 'byok'] as const

/** Finds the account that lacks only what running calls hold of it; null where that is not enough. */
function findHeldAccount(
  ledger: Ledger,
  bounds: Bound[],
  { minimum }: CostEstimate,
): Account | null {
  for (const way of WAYS) {
    const needed = minimum[way]
    const short = bounds.filter(
      bound =>
        needed !== null && (way === 'own' || bound.byok) && ledger.getRemaining(bound) < needed,
    )
    const isHeld = (bound: Bound) =>
      ledger.getRemaining(bound) + ledger.getHeld(bound.account, bound.byok) >= (needed ?? 0n)
    if (short[0] && short.every(isHeld)) return short[0].account
  }
  return null
}
