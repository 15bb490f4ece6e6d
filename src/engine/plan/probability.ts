import type { Kind, Work } from '../../language/work.ts'
import type { Endpoint } from '../../resources/models/catalog.ts'
import { kinds } from '../kinds.ts'
import { type CandidateGroup, getSortKey, listTieBreakers } from '../plan.ts'
import type { InferenceWorld } from '../world.ts'
import { createPriceLookup, missesPreference } from './order.ts'

/**
 * Computes the probability of each endpoint to be tried first, before the shuffle. Endpoints that
 * are not in a cooldown, miss no preference and stand behind no others share it by the inverse
 * square of their price. Null for endpoints whose order is not random.
 */
export function computeProbabilities<K extends Kind>(
  world: InferenceWorld,
  kind: K,
  call: Work[K]['call'],
  groups: CandidateGroup[],
): Map<Endpoint, number | null> {
  const contenders = groups.flatMap((group, groupIndex) =>
    group.tiers.flatMap((tier, tierIndex) =>
      listContenders(world, kind, call, group, tier, [groupIndex, tierIndex]),
    ),
  )
  const foremost = contenders.reduce<Contender | undefined>(
    (best, contender) => (best && isRankedHigher(best, contender) ? best : contender),
    undefined,
  )
  const sharing = contenders.filter(contender => foremost && !isRankedHigher(foremost, contender))
  const cheapest = Math.min(...sharing.map(({ price }) => price))
  const totalWeight = sharing.reduce(
    (sum, contender) => sum + computeWeight(contender, cheapest),
    0,
  )
  const computeShare = (contender: Contender) =>
    sharing.includes(contender) ? computeWeight(contender, cheapest) / totalWeight : 0
  return new Map(
    contenders.map(contender => [
      contender.endpoint,
      contender.isShuffled ? computeShare(contender) : null,
    ]),
  )
}

interface Contender {
  endpoint: Endpoint
  isShuffled: boolean
  /**
   * What takes precedence over the shuffle, the most important first: the smaller number at the
   * first difference is tried first.
   */
  rank: number[]
  price: number
}

function listContenders<K extends Kind>(
  world: InferenceWorld,
  kind: K,
  call: Work[K]['call'],
  group: CandidateGroup,
  tier: Endpoint[],
  position: number[],
): Contender[] {
  const {
    traffic: { health },
    config,
  } = world
  const isSorted = call.routing.order !== undefined || getSortKey(call.routing, group) !== undefined
  const requested = kinds[kind].understanding.getServiceTier(call)
  const getPrice = createPriceLookup(tier)
  const tieBreakers = listTieBreakers(world, kind, call, group, tier)
  return tier.map((endpoint): Contender => {
    const shared = [
      health.getCooldownEnd(endpoint),
      Number(missesPreference(health, endpoint, call.routing)),
      ...position,
      Number(requested !== undefined && endpoint.service_tier !== requested),
    ]
    const tieBreakerValues = tieBreakers.map(tieBreaker => tieBreaker(endpoint))
    return {
      endpoint,
      isShuffled:
        !isSorted &&
        config.routing.choice !== 'listed' &&
        (requested === undefined || endpoint.service_tier !== requested),
      rank: isSorted ? shared : [...shared, ...tieBreakerValues],
      price: getPrice(endpoint),
    }
  })
}

// Within a group all ranks have the same length. Of two groups the group indexes differ.
function isRankedHigher({ rank: one }: Contender, { rank: other }: Contender): boolean {
  const at = one.findIndex((place, i) => place !== other[i])
  return at !== -1 && (one[at] ?? 0) < (other[at] ?? 0)
}

/** Relative to the cheapest. Free endpoints come before all others, each equally likely. */
const computeWeight = ({ price }: Contender, cheapest: number): number =>
  cheapest === 0 ? Number(price === 0) : (cheapest / price) ** 2
