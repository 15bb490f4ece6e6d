import type { Sequence } from '../kernel/iterate.ts'
import type { AnswerPart, Kind } from './work.ts'

/** An answer on its way to the client. Reading it to its end, or leaving it, settles the call: always, and once. */
export interface Answer<K extends Kind> {
  id: string
  /** The model that serves, by our slug. */
  model: string
  provider: string
  /** Unix seconds. */
  created: number
  parts: Sequence<AnswerPart<K>[]>
}
