import type { IdentityWorld } from '../world.ts'
import type { BlobStore } from './blobs.ts'
import type { FileStore } from './store.ts'

/** The parts of the gateway that this room uses. */
export interface FileWorld extends IdentityWorld {
  store: IdentityWorld['store'] & { files: FileStore }
  /** The bytes of files. */
  blobs: BlobStore
}
