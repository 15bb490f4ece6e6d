import type { Role } from './message.ts'

/** Words of a call that are read as one, though they may come in several pieces. */
export interface Passage {
  role: Role
  pieces: string[]
  /** JSON stays JSON, whatever becomes of its texts. */
  isJson: boolean
}

/** What stands in the place of the pieces of a passage: as many, in the same order. */
export type Reword = (passage: Passage) => Promise<string[]>
