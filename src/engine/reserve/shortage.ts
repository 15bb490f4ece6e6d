import { GatewayError } from '../../base/errors.ts'
import { renderDollars, toUsd } from '../../base/money.ts'
import type { Kind } from '../../language/work.ts'
import type { Amounts, Bound, CostEstimate, Ledger } from '../../limits/ledger.ts'
import { nameOutputBound } from '../kinds/text/understanding.ts'
import type { Step } from '../run.ts'
import type { InferenceWorld } from '../world.ts'
import { useLeast } from './waiting.ts'

/** A bound that cannot pay for a call. Nano-dollars. */
interface Shortage {
  bound: Bound
  way: 'own' | 'byok'
  remaining: bigint
  needed: bigint
}

/**
 * Returns the error of a refused limit with what would be set aside, what is left, and which
 * `max_tokens` would fit: in its message, and in `metadata` as numbers. `computeFittingOutput`
 * returns how many tokens an amount pays. Any other error stays as it is.
 */
export function explainShortage<K extends Kind>(
  world: InferenceWorld,
  step: Step<K>,
  thrown: unknown,
  computeFittingOutput: (way: keyof Amounts, nanos: bigint) => number | null,
): unknown {
  const { run, costEstimate } = step
  if (!(thrown instanceof GatewayError) || thrown.type !== 'payment_required') return thrown
  const shortage =
    costEstimate &&
    findShortage(world.ledger, run.policy.bounds, useLeast(costEstimate), thrown.message)
  if (!shortage) return thrown
  const { bound, way, needed } = shortage
  const remaining = shortage.remaining > 0n ? shortage.remaining : 0n
  const max_tokens = computeFittingOutput(way, remaining)
  const name = nameOutputBound(step.call)
  const sentence = thrown.message.replace(/\.?$/, '.')
  return thrown.with({
    message:
      `${sentence} For this call ${costEstimate?.least ? 'at least ' : ''}${renderDollars(needed)} ` +
      `would be set aside, and ${renderDollars(remaining)} is left: ` +
      `${max_tokens === null ? `no ${name}` : `${name} of at most ${max_tokens}`} would fit. ` +
      'Nothing was spent.',
    metadata: {
      ...thrown.metadata,
      limit: bound.account === 'all' ? 'credits' : bound.account.split(' ')[0],
      limit_reset: bound.period,
      estimated_cost: toUsd(needed),
      limit_remaining: toUsd(remaining),
      max_tokens,
    },
  })
}

/** Finds the bound that the error names, and what it lacks. */
function findShortage(
  ledger: Ledger,
  bounds: Bound[],
  { minimum }: CostEstimate,
  message: string,
): Shortage | undefined {
  for (const bound of bounds) {
    const remaining = ledger.getRemaining(bound)
    const way = (bound.byok ? WAYS : OWN).find(one => (minimum[one] ?? -1n) > remaining)
    const needed = way && minimum[way]
    if (way && needed != null && bound.message === message) return { bound, way, remaining, needed }
  }
  return undefined
}

const WAYS = ['own', 'byok'] as const
const OWN = ['own'] as const
