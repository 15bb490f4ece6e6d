import { listUnits, UNITS, type Unit } from '../../language/units.ts'
import { countInputTokens, countOutputTokens, type Usage } from '../../language/usage.ts'
import type { Kind, Work } from '../../language/work.ts'
import type { Endpoint } from '../../resources/models/catalog.ts'
import type { Metering } from '../kind.ts'
import { kinds } from '../kinds.ts'

/**
 * How often a provider may read or write a whole context for one answer: it searches and runs tools
 * of its own, and counts each turn.
 */
const MOST_CONTEXTS = 4

/** The context of a model whose own is unknown, in tokens: no model has a larger one. */
const LARGEST_CONTEXT = 10_000_000

/** Units that a provider may count although the call asked for none. */
const UNASKED_UNITS = 100

/**
 * Tells whether an answer to the call can have these counts: at most four times the endpoint's
 * context for each answer or input, and four times the units that were set aside.
 */
export function isPlausible<K extends Kind>(
  usage: Usage,
  kind: K,
  call: Work[K]['call'],
  endpoint: Endpoint,
): boolean {
  if (usage.isImpossible) return false
  const { countShares }: Metering<K> = kinds[kind].metering
  const shares = Math.max(1, countShares(call))
  const most = MOST_CONTEXTS * (endpoint.context_length ?? LARGEST_CONTEXT) * shares
  return (
    countAllTokens(usage) <= most &&
    (!usage.billed || countAllTokens({ ...usage, ...usage.billed }) <= most) &&
    hasPlausibleUnits(usage, kind, call, endpoint)
  )
}

const countAllTokens = (usage: Usage): number => countInputTokens(usage) + countOutputTokens(usage)

function hasPlausibleUnits<K extends Kind>(
  { units = {} }: Usage,
  kind: K,
  call: Work[K]['call'],
  endpoint: Endpoint,
): boolean {
  const bounds = kinds[kind].costing.boundUnits(call, endpoint)
  const countMost = (unit: Unit) =>
    MOST_CONTEXTS * Math.max(bounds[unit] ?? 0, UNASKED_UNITS * UNITS[unit].partsPerUnit)
  return listUnits(units).every(unit => (units[unit] ?? 0) <= countMost(unit))
}
