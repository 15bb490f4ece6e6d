import type { Owner } from '../resources/workspaces/store.ts'
import type { openStores } from './sqlite/contents.ts'

/**
 * Everything that is stored, one property per noun. `sqlite/contents.ts` lists them, and the type
 * of each is the interface that its room declares. A method is one transaction: it sees the store
 * at one moment, and its changes are atomic. All methods return promises and never throw
 * synchronously, so that a store can be a database behind a connection. `test/suites/store.ts`
 * specifies what every store must do.
 */
export interface Store extends ReturnType<typeof openStores> {
  /** Returns the owner of this store. The candidate becomes the owner if there is none yet. */
  owner(candidate: Owner): Promise<Owner>
  /** Returns a number that changes exactly when another process has written. */
  version(): Promise<number>
  close(): Promise<void>
}
