import type { IdentityWorld } from '../identity/world.ts'
import type { BlobStore } from './blobs.ts'
import type { FileStore } from './store.ts'

/** The parts of the gateway that this wing uses. */
export interface FileWorld extends IdentityWorld {
  store: IdentityWorld['store'] & { files: FileStore }
  /** The bytes of files. */
  blobs: BlobStore
}
