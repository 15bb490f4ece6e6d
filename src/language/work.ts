/** The kinds of work, with the types of their calls and answer parts. */

import type { TextCall } from './call.ts'
import type { CommonPart, TextPart } from './part.ts'

/**
 * The kinds of work. Kinds other than text add themselves by `declare module` in the file of their
 * calls and parts, as events do. `inference/kinds.ts` lists all of them.
 */
export interface Work {
  text: { call: TextCall; part: TextPart }
}

export type Kind = keyof Work

/** A part of an answer of this kind of work, including the parts common to all kinds. */
export type AnswerPart<K extends Kind> = Work[K]['part'] | CommonPart

/** How the calls of a kind are divided: those of many inputs or documents, each for itself. */
export interface Division<K extends Kind> {
  countItems(call: Work[K]['call']): number
  /** Returns the call for the items from one to before another. */
  slice(call: Work[K]['call'], from: number, to: number): Work[K]['call']
  /** Returns a part of the answer to such a call as a part of the answer to all of it. */
  shift(part: Work[K]['part'], from: number): Work[K]['part']
}
