import { Mirror } from '../../base/mirror.ts'
import type { DestinationKind } from './kind.ts'
import type { Destination } from './store.ts'

declare module '../../base/events.ts' {
  interface EventMap {
    /** A destination was added, changed or removed, perhaps by another process. */
    'destinations.changed': object
    /** Everything was read again that another process has changed. */
    'store.reloaded': object
  }
}

/** The fields of a config by their names. */
export type DestinationConfig = Record<string, unknown>

/** A destination with its decrypted config, as calls and deliveries use it. */
export interface OpenedDestination {
  destination: Destination
  /** Null if the gateway has no such kind. */
  kind: DestinationKind | null
  /** Null if it was sealed with another secret than this gateway's. */
  config: DestinationConfig | null
}

/** Holds every destination in memory, by id and by workspace. */
export class OpenedDestinations extends Mirror<OpenedDestination> {
  #byWorkspace: Map<string, OpenedDestination[]> | undefined

  constructor(
    read: (ids?: string[]) => Promise<Iterable<OpenedDestination>>,
    onChange: () => void,
  ) {
    super({
      read,
      getName: ({ destination }) => destination.id,
      onChange: () => {
        this.#byWorkspace = undefined
        onChange()
      },
    })
  }

  /** Lists the destinations of a workspace. */
  listByWorkspace(workspace_id: string): OpenedDestination[] {
    this.#byWorkspace ??= Map.groupBy(this.values(), ({ destination }) => destination.workspace_id)
    return this.#byWorkspace.get(workspace_id) ?? NONE
  }

  /** Lists those that were sealed with another secret than this gateway's. They are not told. */
  listUnreadable(): Destination[] {
    return this.filter(({ config }) => config === null).map(({ destination }) => destination)
  }
}

const NONE: OpenedDestination[] = []
