import type { Owner } from '../identity/workspaces/store.ts'
import type { openStores } from './sqlite/contents.ts'

/**
 * Everything that is remembered, one property per noun: `sqlite/contents.ts` lists them, and the
 * type of each is the interface that its wing declares. A method is one transaction: it sees the
 * store at one moment, and what it does is done whole or not at all. All of them give promises and
 * none throws at once, so that a database behind a connection can be one; `test/suites/store.ts`
 * says what every store must do.
 */
export interface Store extends ReturnType<typeof openStores> {
  /** The owner of this memory; the candidate becomes it when there is none yet. */
  owner(candidate: Owner): Promise<Owner>
  /** Changes exactly when another process has written. */
  version(): Promise<number>
  close(): Promise<void>
}
