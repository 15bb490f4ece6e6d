import type { StagedWorld } from '../engine/stages.ts'
import type { Hold } from '../limits/ledger.ts'
import type { VideoJob } from '../resources/videos.ts'
import type { Documents } from './documents.ts'
import type { Healer } from './healing.ts'
import type { McpLoginStore } from './tools/mcp/logins.ts'

/** What this room needs from the gateway. */
export interface ExtensionWorld extends StagedWorld {
  store: StagedWorld['store'] & { mcpLogins: McpLoginStore }
  /** Follows the jobs of videos. */
  videos: VideoJobs
  /** Reads documents that calls contain. */
  documents: Documents
  /** Mends answers that should be JSON. */
  healer: Healer
}

/** What follows the jobs of videos. */
export interface VideoJobs {
  /** Lists what is set aside for the jobs that are followed. */
  listHolds(): Hold[]
  /** Stores a job that is about to be followed: until then no list of open jobs has it followed. */
  store(job: VideoJob): Promise<void>
  /** Follows a job that was stored. The hold becomes its own. */
  add(job: VideoJob, hold: Hold | null): void
  /** Takes over the jobs of the process before, and sets their money aside again. */
  load(): Promise<void>
  /**
   * Follows what other servers have begun or cancelled: `open` has the ids of all jobs that have not
   * ended, and whether each is to be cancelled.
   */
  look(open: Map<string, boolean>): Promise<void>
  /** Forgets all jobs, and releases their money: another server follows them. */
  forget(): void
  /** Begins to ask providers, and goes on until `stop`. Only the server of a data directory may. */
  start(): Promise<void>
  /** Ends all requests. The jobs go on at their providers and are asked about at the next start. */
  stop(): Promise<void>
  /** Waits until nothing is asked or written at this moment. */
  rest(): Promise<void>
  /** How many jobs have not ended. */
  readonly size: number
}
