import type { Endpoint } from '../../catalog/models.ts'
import type { Kind, Work } from '../../language/work.ts'
import { type Group, leaningsOf, sortFor } from '../plan.ts'
import type { InferenceWorld } from '../world.ts'
import { lotPriceAmong, misses } from './order.ts'

/**
 * Computes the probability of each endpoint to be tried first, before the shuffle. Endpoints that
 * are not in a cooldown, miss no preference and stand behind no others share it by the inverse
 * square of their price. Null for endpoints whose order is not random.
 */
export function chancesOf<K extends Kind>(
  gateway: InferenceWorld,
  kind: K,
  call: Work[K]['call'],
  groups: Group[],
): Map<Endpoint, number | null> {
  const runners = groups.flatMap((group, g) =>
    group.turns.flatMap((turn, t) => runnersIn(gateway, kind, call, group, turn, [g, t])),
  )
  const foremost = runners.reduce<Runner | undefined>(
    (best, one) => (best && isBefore(best, one) ? best : one),
    undefined,
  )
  const sharing = runners.filter(one => foremost && !isBefore(foremost, one))
  const cheapest = Math.min(...sharing.map(({ price }) => price))
  const sum = sharing.reduce((all, one) => all + weightOf(one, cheapest), 0)
  const share = (one: Runner) => (sharing.includes(one) ? weightOf(one, cheapest) / sum : 0)
  return new Map(runners.map(one => [one.endpoint, one.isDrawn ? share(one) : null]))
}

interface Runner {
  endpoint: Endpoint
  isDrawn: boolean
  /**
   * What takes precedence over the shuffle, the most important first: the smaller number at the
   * first difference is tried first.
   */
  stand: number[]
  price: number
}

function runnersIn<K extends Kind>(
  gateway: InferenceWorld,
  kind: K,
  call: Work[K]['call'],
  group: Group,
  turn: Endpoint[],
  places: number[],
): Runner[] {
  const {
    traffic: { health },
    config,
  } = gateway
  const isSorted = call.routing.order !== undefined || sortFor(call.routing, group) !== undefined
  const price = lotPriceAmong(turn)
  const leanings = leaningsOf(gateway, kind, call, group, turn)
  return turn.map((endpoint): Runner => {
    const late = [
      health.restsUntil(endpoint),
      Number(misses(health, endpoint, call.routing)),
      ...places,
    ]
    const liked = leanings.map(numberOf => numberOf(endpoint))
    return {
      endpoint,
      isDrawn: !isSorted && config.routing.choice !== 'listed',
      stand: isSorted ? late : [...late, ...liked],
      price: price(endpoint),
    }
  })
}

// Within a group all ranks have the same length. Of two groups the group indexes differ.
function isBefore({ stand: one }: Runner, { stand: other }: Runner): boolean {
  const at = one.findIndex((place, i) => place !== other[i])
  return at !== -1 && (one[at] ?? 0) < (other[at] ?? 0)
}

/** Relative to the cheapest. Free endpoints come before all others, each equally likely. */
const weightOf = ({ price }: Runner, cheapest: number): number =>
  cheapest === 0 ? Number(price === 0) : (cheapest / price) ** 2
