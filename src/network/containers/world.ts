import type { Events } from '../../base/events.ts'
import type { FileWorld } from '../../resources/files/world.ts'
import type { Sandbox } from '../sandboxes/sandbox.ts'
import type { ContainerNetwork } from './network.ts'
import type { ContainerStore } from './store.ts'

/** The parts of the gateway that this room uses. */
export interface ContainerWorld extends FileWorld {
  store: FileWorld['store'] & { containers: ContainerStore }
  events: Events
  /** Every way to run commands. */
  sandboxes: Sandbox[]
  /** The way out for commands that may have one. */
  network: ContainerNetwork
}
