import type { Events } from '../base/events.ts'
import type { HoldJournal } from '../limits/ledger.ts'
import type { IdentityWorld } from '../resources/world.ts'
import type { GenerationStore } from './generations/store.ts'
import type { Recorder } from './recorder.ts'
import type { RollupStore } from './rollups.ts'
import type { WriteLog } from './write-log.ts'

type DestinationCount = 'waiting' | 'bytes' | 'failed' | 'delivered' | 'skipped' | 'dropped'

/** How much of something is in use, and how much there is. */
type Filled = { used: number; limit: number }

/** What telemetry needs from the gateway. */
export interface TelemetryWorld extends IdentityWorld {
  instance: IdentityWorld['instance'] & { configStatus: { applied: Date; rejected: boolean } }
  store: IdentityWorld['store'] & { generations: GenerationStore; rollups: RollupStore }
  traffic: IdentityWorld['traffic'] & {
    calls: { size: number }
    admission: { calls: Filled; memory: Filled; turns: { size: number } }
  }
  /** The containers that run, and the sandboxes that wait for one. */
  warm: { size: number; pool: { size: number } }
  recorder: Pick<Recorder, 'healthy'>
  writeLog: Pick<WriteLog, 'state'>
  journal: { holds: Pick<HoldJournal, 'bytes'> }
  /** What became of what destinations are told: each count, by the id of its destination. */
  deliveries: {
    list(): (Record<DestinationCount, number> & { destination_id: string })[]
  }
  /** What several servers have in Valkey; null where it is not used. */
  hot: { state: { isUp: boolean }; asked: number } | null
  events: Events
}
