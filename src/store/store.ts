import type { LedgerStore } from '../limits/ledger.ts'
import type { SealStore } from '../limits/seals.ts'
import type { RollupStore } from '../observability/rollups.ts'
import type { WriteLogStore } from '../observability/write-log.ts'
import type { Owner } from '../resources/workspaces/store.ts'
import type { NodeCounts } from './postgres/counts.ts'
import type { NodeStore } from './postgres/nodes.ts'
import type { SharedStore } from './postgres/shared.ts'
import type { ChangeStore } from './sql/changes.ts'
import type { openNouns } from './sql/contents.ts'
import type { Pools } from './valkey/pools.ts'

/**
 * Everything that is stored, one property per noun. `sql/contents.ts` lists those whose SQL is the
 * same on every engine, and the type of each is the interface that its room declares. A method is one
 * transaction: it sees the store at one moment, and its changes are atomic. All methods return
 * promises and never throw synchronously, so that a store can be a database behind a connection.
 * `test/suites/store.ts` specifies what every store must do.
 */
export interface Store extends Omit<ReturnType<typeof openNouns>, 'ledger'> {
  ledger: LedgerStore
  rollups: RollupStore
  writeLog: WriteLogStore
  seals: SealStore
  /** The servers of a store that several machines reach. */
  nodes?: NodeStore
  /** What they remember together. */
  shared?: SharedStore
  /** Opens what the nodes of a database count together, for one of them. */
  openCounts?(incarnation: string, ticks: () => number, pools?: Pools): Promise<NodeCounts>
  /** Returns the owner of this store. The candidate becomes the owner if there is none yet. */
  owner(candidate: Owner): Promise<Owner>
  /** Returns a number that changes exactly when another process has written. */
  version(): Promise<number>
  /** What other processes change of what is in memory, in the order in which they do. */
  changes: ChangeStore
  close(): Promise<void>
}
