import type { Mac } from '../base/mac.ts'
import type { Seal } from '../base/seal.ts'
import type { HeadFile } from '../limits/chain.ts'
import type { FreeCalls } from '../limits/counters.ts'
import type { HoldJournal, LedgerStore } from '../limits/ledger.ts'
import type { PolicyWorld } from '../limits/policy-world.ts'
import type { SealStore } from '../limits/seals.ts'
import type { WarmWorld } from '../network/containers/warm.ts'
import type { UpstreamWorld } from '../network/world.ts'
import type { DestinationWorld } from '../observability/destinations/world.ts'
import type { GenerationStore } from '../observability/generations/store.ts'
import type { Recorder } from '../observability/recorder.ts'
import type { BlobStore } from '../resources/files/blobs.ts'
import type { FileStore } from '../resources/files/store.ts'
import type { VideoStore } from '../resources/videos.ts'
import type { Tokenizers } from '../translation/tokenizers.ts'
import type { Extension } from './extension.ts'
import type { Stages } from './stages.ts'
import type { Traffic } from './traffic.ts'

/** What survives the process in addition to the store. */
export interface Journal {
  /** The entries of running calls. */
  holds: HoldJournal
  /** Where the ledger ended when that was last written. */
  head: HeadFile
  /** The calls of free models; undefined where nothing outlives the process. */
  free?: FreeCalls
  /** How many lines of records that a dead process has left are not as they were written. */
  garbledRecords: number
  /** The logs of dead processes that were found damaged, until an operator accepts that. */
  damaged: { list(): string[]; accept(): void }
}

/** What this room needs from the gateway. */
export interface InferenceWorld extends PolicyWorld, UpstreamWorld, WarmWorld, DestinationWorld {
  config: PolicyWorld['config']
  catalog: PolicyWorld['catalog']
  ledger: PolicyWorld['ledger']
  clock: PolicyWorld['clock']
  store: PolicyWorld['store'] &
    WarmWorld['store'] &
    DestinationWorld['store'] & {
      files: FileStore
      generations: GenerationStore
      ledger: LedgerStore
      seals: SealStore
      videos: VideoStore
    }
  memory: PolicyWorld['memory'] & DestinationWorld['memory']
  secrets: PolicyWorld['secrets'] &
    DestinationWorld['secrets'] & {
      mac: Mac
      contentSeal: () => Seal
      derive: (purpose: string, size: number) => Uint8Array
    }
  traffic: Traffic
  journal: Journal
  recorder: Recorder
  /** What destinations are still to be told. */
  deliveries: { list(): { waiting: number }[] }
  /** The bytes of files. */
  blobs: BlobStore
  /** Counts tokens that providers did not count. */
  tokenizers: Tokenizers
  /** The life of a call. */
  stages: Stages
  /** What some calls have beside what all have, in the order in which it is attached. */
  extensions: readonly Extension[]
}
