import type { Endpoint } from '../catalog/models.ts'
import type { Actor } from '../identity/actor.ts'
import type { Clock } from '../kernel/clock.ts'
import type { Usage } from '../language/usage.ts'
import type { Kind, Work } from '../language/work.ts'
import { kinds } from './kinds.ts'

/** The conversation that a call belongs to. */
export interface Session {
  /** Made each time that it is asked for: most calls have no place to be found by it, and none to be remembered. */
  readonly key: string
  /** The caller says so himself. */
  isNamed: boolean
}

/**
 * The session of a call: the one that it names, or else its conversation, each of its workspace alone. Null where there is nothing to be found
 * again, and where the caller says himself who shall answer.
 */
export function sessionOf<K extends Kind>({ workspace_id }: Actor, kind: K, call: Work[K]['call']): Session | null {
  const { order, sort } = call.routing
  if (order || sort) return null
  if (call.session_id !== null) return { key: `${workspace_id} session ${call.session_id}`, isNamed: true }
  const { identifyConversation } = kinds[kind].understanding
  if (!identifyConversation) return null
  return {
    get key() {
      return `${workspace_id} ${identifyConversation(call)}`
    },
    isNamed: false,
  }
}

/** A conversation that was silent for so long is not remembered, and no more of them are. */
const LONGEST_SILENCE = 10 * 60_000
const MOST = 10_000

/** Which endpoint a conversation is at, so that it stays where its prompt is in a cache (wire reference K.3). */
export class Sessions {
  readonly #clock: Clock
  /** The one that was silent for the longest comes first. */
  readonly #places = new Map<string, { id: string; until: number }>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  get size(): number {
    return this.#places.size
  }

  /** The id of the endpoint where the session's calls of a model are answered, or the model for a router, if anybody has lately answered one. */
  placeOf(session: Session, model: string): string | undefined {
    const place = this.#places.size > 0 ? this.#places.get(`${model} ${session.key}`) : undefined
    return place && place.until > this.#clock.ticks() ? place.id : undefined
  }

  /** An endpoint has answered the session: it stays there where that saves anything, without a name only once it has. */
  answered(session: Session, endpoint: Endpoint, { input }: Usage): void {
    const { id, prices, model } = endpoint
    const isCheaper = prices?.cache_read !== undefined && prices.cache_read < prices.prompt
    if (isCheaper && (session.isNamed || input.cache_read > 0)) this.#remember(`${model} ${session.key}`, id)
  }

  /** The model that a router has chosen for the session has answered it: by the router's name it stays its place, like an endpoint. */
  routed(session: Session, router: string, { model }: Endpoint, { input }: Usage): void {
    if (session.isNamed || input.cache_read > 0) this.#remember(`${router} ${session.key}`, model)
  }

  #remember(name: string, id: string): void {
    this.#places.delete(name)
    this.#places.set(name, { id, until: this.#clock.ticks() + LONGEST_SILENCE })
    const [longest] = this.#places.keys()
    if (this.#places.size > MOST && longest !== undefined) this.#places.delete(longest)
  }
}
