import type { Events } from '../../base/events.ts'
import type { Seal } from '../../base/seal.ts'
import type { Config } from '../../config.ts'
import type { UpstreamWorld } from '../../network/world.ts'
import type { IdentityWorld } from '../../resources/world.ts'
import type { DeliveryStore } from './deliveries/store.ts'
import type { DestinationKind } from './kind.ts'
import type { OpenedDestinations } from './opened.ts'
import type { DestinationStore } from './store.ts'

/** The background work of several servers, as those see it who do it. */
export interface BackgroundTurn {
  /** Asked before each piece of work: a server may have stood still while another one began. */
  readonly isHeld: boolean
  /** Lists the keys of the calls that were recorded since this was asked last; none at first. */
  listUsedKeys(): Promise<(string | null)[]>
  /** The id of this server. */
  readonly node: string
  /** Tells the server that has the work that something was seen. Never throws. */
  noteSighting(name: string): Promise<void>
  /** Lists what other servers have seen since this was asked last; nothing at first. */
  listSightings(): Promise<string[]>
}

/** What this room needs from the gateway. */
export interface DestinationWorld extends IdentityWorld, UpstreamWorld {
  config: Config
  clock: IdentityWorld['clock']
  store: IdentityWorld['store'] & { destinations: DestinationStore; deliveries: DeliveryStore }
  memory: IdentityWorld['memory'] & { destinations: OpenedDestinations }
  secrets: IdentityWorld['secrets'] & { destinationSeal: () => Seal }
  /** The kinds of destinations. */
  destinationKinds: DestinationKind[]
  /** Whether the background work is this server's; none where no other one could have it. */
  jobs?: BackgroundTurn | null
  events: Events
}
