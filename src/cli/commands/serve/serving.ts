import type { Gateway } from '../../../app/gateway.ts'
import type { Predecessor } from '../../../app/handover/predecessor.ts'
import type { Successor } from '../../../app/handover/successor.ts'
import type { GivenSocket } from '../../../server/listen/given-socket.ts'
import type { ConfigFile } from '../../config-file.ts'
import type { Log } from '../../log.ts'
import type { ListenPlace, ServeOptions } from './place.ts'
import type { Taken } from './takeover.ts'
import type { Worker } from './worker.ts'

/** What the steps in the life of a server share. */
export interface Serving {
  gateway: Gateway
  options: ServeOptions
  /** Where this process keeps what is its own: the data directory, or a worker's beneath it. */
  data: string
  /** The place among several servers of one port; null where this is the only one. */
  worker: Worker | null
  configFile: ConfigFile
  /** Whether the data directory had no data before. */
  isNew: boolean
  log: Log
  place: ListenPlace
  /** The socket that it serves on, where it was opened by systemd or the server before. */
  given: GivenSocket | null
  /** The server before this one, whose calls may still run; null without a takeover. */
  taken: Taken | null
  succession: Successor | null
  /** What hands over to the next server. */
  predecessor: Predecessor
}

/** What is done with calls that another server has left. */
export const RECOVERED = 'they are charged their last known cost'
