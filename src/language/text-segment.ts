import type { Role } from './message.ts'

/** A text of a call that filters read as one, although it may come in several pieces. */
export interface TextSegment {
  role: Role
  pieces: string[]
  /** Whether the text is JSON. It must still be JSON after a rewrite. */
  isJson: boolean
}

/** Returns the replacements of a segment's pieces: the same number, in the same order. */
export type TextRewrite = (passage: TextSegment) => Promise<string[]>
