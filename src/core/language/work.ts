/** The kinds of work, and what each is asked and answered in. */

import type { TextCall } from './call.ts'
import type { CommonPart, TextPart } from './part.ts'

/**
 * The kinds of work. A kind other than text declares itself here from the file of its calls and
 * parts, as events do; `inference/kinds.ts` lists all of them.
 */
export interface Work {
  text: { call: TextCall; part: TextPart }
}

export type Kind = keyof Work

/** A piece of an answer of this kind of work, or what every kind tells besides its content. */
export type AnswerPart<K extends Kind> = Work[K]['part'] | CommonPart
