import { rememberTogether } from '../resources/idempotency/shared.ts'
import { endCancelled } from '../resources/responses.ts'
import type { SharedStore } from '../store/postgres/shared.ts'
import type { Gateway } from './gateway.ts'
import { hashConfig } from './nodes.ts'

/** In milliseconds, between two looks at what others do: also where no news of it comes. */
const LOOK = 1_000

/** In looks, between two removals of what is over. */
const SWEEP = 60

/**
 * Has a server share with the others of its store what would be in its memory alone, and follow what
 * they change. `incarnation` is the name of its process. Returns what ends that.
 */
export async function shareMemory(
  gateway: Gateway,
  shared: SharedStore,
  incarnation: string,
): Promise<() => Promise<void>> {
  const { traffic, warm } = gateway
  const owners = shared.openOwners(incarnation)
  traffic.keptCalls.shareWith(rememberTogether(gateway, shared.openCalls(incarnation)))
  traffic.makers = shared.openMakers(incarnation)
  warm.shareWith(owners)
  const giveWanted = () => warm.giveWanted(owners).catch(() => undefined)
  const catchUp = () => gateway.catchUp().catch(() => false)
  // Where nobody tells of a change, a look finds it.
  const stopListening = await shared
    .listen(news => void (news === 'wanted' ? giveWanted() : catchUp()))
    .catch(() => async () => undefined)
  const describe = async () => {
    const hash = hashConfig(gateway)
    if (hash === described) return
    await gateway.store.nodes?.describe(incarnation, hash)
    described = hash
  }
  let described = ''
  let looks = 0
  let isLooking = false
  const look = async () => {
    if (isLooking) return
    isLooking = true
    await catchUp()
    await giveWanted()
    await endCancelled(gateway).catch(() => undefined)
    await describe().catch(() => undefined)
    if (++looks % SWEEP === 0) await shared.sweep().catch(() => undefined)
    isLooking = false
  }
  await describe()
  const timer = setInterval(() => void look(), LOOK)
  return async () => {
    clearInterval(timer)
    await stopListening()
  }
}
