import type { HeadFile } from '../ledger/chain.ts'
import type { HoldJournal, LedgerStore } from '../ledger/ledger.ts'
import type { RateLimits } from '../policy/rate-limits.ts'
import type { PolicyWorld } from '../policy/world.ts'
import type { GenerationStore } from '../telemetry/generations.ts'
import type { Recorder } from '../telemetry/recorder.ts'
import type { Tokenizers } from '../tokenizers.ts'
import type { UpstreamWorld } from '../upstream/world.ts'
import type { Calls } from './calls.ts'
import type { Health } from './health.ts'
import type { Retries } from './retries.ts'
import type { Sessions } from './sessions.ts'
import type { Stages } from './stages.ts'

/** What is known of the calls that run and of the endpoints that they go to. */
export interface Traffic {
  calls: Calls
  /** How many of them may be tried again at once. */
  retries: Retries
  /** How the endpoints are that they go to. */
  health: Health
  /** Where the conversations are that they belong to. */
  sessions: Sessions
  /** How often they may be made. */
  rateLimits: RateLimits
}

/** What outlives the process beside the store. */
export interface Journal {
  /** Word of the calls that run. */
  holds: HoldJournal
  /** Where the ledger ended when it was last written down. */
  head: HeadFile
}

/** What this wing reaches for. */
export interface InferenceWorld extends PolicyWorld, UpstreamWorld {
  config: PolicyWorld['config']
  clock: PolicyWorld['clock']
  store: PolicyWorld['store'] & { generations: GenerationStore; ledger: LedgerStore }
  traffic: Traffic
  journal: Journal
  recorder: Recorder
  /** Counts what providers did not count. */
  tokenizers: Tokenizers
  /** The life of a call. */
  stages: Stages
}
