/** The kinds of work, and what each is asked and answered in. */

import type { EmbeddingCall, TextCall } from './call.ts'
import type { CommonPart, EmbeddingPart, TextPart } from './part.ts'

/** The kinds of work. A new kind of work is one line here. */
export interface Work {
  text: { call: TextCall; part: TextPart }
  embedding: { call: EmbeddingCall; part: EmbeddingPart }
}

export type Kind = keyof Work

/** A piece of an answer of this kind of work, or what every kind tells besides its content. */
export type AnswerPart<K extends Kind> = Work[K]['part'] | CommonPart
