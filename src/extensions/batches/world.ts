import type { Seal } from '../../base/seal.ts'
import type { DialectWorld } from '../../translation/dialects/world.ts'
import type { ToolWorld } from '../server-tool.ts'
import type { BatchStore } from './store.ts'

declare module '../../base/events.ts' {
  interface EventMap {
    /** A batch was made or changed by a client: there may be work. */
    'batch.changed': { id: string }
    /** A batch has ended, with its files written. */
    'batch.ended': { id: string; status: string; completed: number; failed: number }
    /** Work on a batch failed for a reason of the gateway's own, and is tried again. */
    'batch.failing': { id: string; error: unknown }
  }
}

/** The parts of the gateway that this room uses. */
export interface BatchWorld extends ToolWorld {
  catalog: ToolWorld['catalog'] & DialectWorld['catalog']
  store: ToolWorld['store'] & { batches: BatchStore }
  secrets: ToolWorld['secrets'] & { previous(): { contentSeal: () => Seal } | null }
}
