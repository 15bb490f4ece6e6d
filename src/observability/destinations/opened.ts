import { parseObject } from '../../base/json.ts'
import { Mirror } from '../../base/mirror.ts'
import type { DestinationKind } from './kind.ts'
import type { Destination } from './store.ts'
import type { DestinationWorld } from './world.ts'

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

/** Decrypts a destination. Keeps what `before` has if the config is the same. */
export function openDestination(
  world: DestinationWorld,
  destination: Destination,
  before?: OpenedDestination,
): OpenedDestination {
  if (before?.destination.sealed === destination.sealed) return { ...before, destination }
  const kind = world.destinationKinds.find(({ type }) => type === destination.type) ?? null
  return { destination, kind, config: decryptConfig(world, destination) }
}

// A gateway without a secret decrypts nothing and runs all the same.
function decryptConfig(
  world: DestinationWorld,
  { id, sealed }: Destination,
): DestinationConfig | null {
  try {
    return parseObject(world.secrets.destinationSeal().open(sealed, id) ?? '') ?? null
  } catch {
    return null
  }
}

/** Reads every destination and decrypts it. */
export async function readDestinations(world: DestinationWorld): Promise<OpenedDestination[]> {
  const destinations = await world.store.destinations.all()
  return destinations.map(destination =>
    openDestination(world, destination, world.memory.destinations.get(destination.id)),
  )
}

/** Holds every destination in memory, by id and by workspace. */
export class OpenedDestinations extends Mirror<OpenedDestination> {
  #byWorkspace: Map<string, OpenedDestination[]> | undefined

  constructor(read: () => Promise<Iterable<OpenedDestination>>, onChange: () => void) {
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
