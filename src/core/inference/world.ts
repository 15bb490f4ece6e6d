import type { ContainerWorld } from '../containers/world.ts'
import type { DestinationWorld } from '../destinations/world.ts'
import type { Documents } from '../documents.ts'
import type { BlobStore } from '../files/blobs.ts'
import type { FileStore } from '../files/store.ts'
import type { Healer } from '../healing.ts'
import type { Mac } from '../kernel/mac.ts'
import type { Seal } from '../kernel/seal.ts'
import type { HeadFile } from '../ledger/chain.ts'
import type { HoldJournal, LedgerStore } from '../ledger/ledger.ts'
import type { SealStore } from '../ledger/seals.ts'
import type { FreeCalls } from '../policy/counters.ts'
import type { PolicyWorld } from '../policy/world.ts'
import type { GenerationStore } from '../telemetry/generations.ts'
import type { Recorder } from '../telemetry/recorder.ts'
import type { Tokenizers } from '../tokenizers.ts'
import type { UpstreamWorld } from '../upstream/world.ts'
import type { Plugin } from './plugin.ts'
import type { ServerTool } from './server-tool.ts'
import type { Stages } from './stages.ts'
import type { Traffic } from './traffic.ts'
import type { VideoJobs } from './videos/poller.ts'
import type { VideoStore } from './videos/store.ts'

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
}

/** What this wing needs from the gateway. */
export interface InferenceWorld
  extends PolicyWorld,
    UpstreamWorld,
    ContainerWorld,
    DestinationWorld {
  config: PolicyWorld['config']
  catalog: PolicyWorld['catalog']
  ledger: PolicyWorld['ledger']
  clock: PolicyWorld['clock']
  store: PolicyWorld['store'] &
    ContainerWorld['store'] &
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
  /** Follows the jobs of videos. */
  videos: VideoJobs
  journal: Journal
  recorder: Recorder
  /** What destinations are still to be told. */
  deliveries: { list(): { waiting: number }[] }
  /** The bytes of files. */
  blobs: BlobStore
  /** Reads documents that calls contain. */
  documents: Documents
  /** Mends answers that should be JSON. */
  healer: Healer
  /** Counts tokens that providers did not count. */
  tokenizers: Tokenizers
  /** The life of a call. */
  stages: Stages
  /** The plugins that calls may ask for. */
  plugins: Plugin[]
  /** The tools that the gateway runs itself when models call them. */
  tools: ServerTool[]
}
