import type { InferenceWorld } from '../engine/world.ts'
import type { Documents } from './documents.ts'
import type { Healer } from './healing.ts'
import type { Plugin } from './plugin.ts'
import type { ServerTool } from './server-tool.ts'
import type { VideoJobs } from './videos/poller.ts'

/** What this room needs from the gateway. */
export interface ExtensionWorld extends InferenceWorld {
  /** Follows the jobs of videos. */
  videos: VideoJobs
  /** Reads documents that calls contain. */
  documents: Documents
  /** Mends answers that should be JSON. */
  healer: Healer
  /** The plugins that calls may ask for. */
  plugins: Plugin[]
  /** The tools that the gateway runs itself when models call them. */
  tools: ServerTool[]
}
