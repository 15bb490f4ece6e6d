import type { Live } from './live.ts'
import type { Source } from './source.ts'

/** What each view is drawn from, and the room that it has. */
export interface ViewProps {
  live: Live
  source: Source
  /** In milliseconds. */
  now: number
  width: number
  height: number
}
