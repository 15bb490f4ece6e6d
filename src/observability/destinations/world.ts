import type { Events } from '../../base/events.ts'
import type { Seal } from '../../base/seal.ts'
import type { Config } from '../../config.ts'
import type { UpstreamWorld } from '../../network/world.ts'
import type { IdentityWorld } from '../../resources/world.ts'
import type { DeliveryStore } from './deliveries/store.ts'
import type { DestinationKind } from './kind.ts'
import type { OpenedDestinations } from './opened.ts'
import type { DestinationStore } from './store.ts'

/** What this room needs from the gateway. */
export interface DestinationWorld extends IdentityWorld, UpstreamWorld {
  config: Config
  clock: IdentityWorld['clock']
  store: IdentityWorld['store'] & { destinations: DestinationStore; deliveries: DeliveryStore }
  memory: IdentityWorld['memory'] & { destinations: OpenedDestinations }
  secrets: IdentityWorld['secrets'] & { destinationSeal: () => Seal }
  /** The kinds of destinations. */
  destinationKinds: DestinationKind[]
  events: Events
}
