import type { Clock } from '../../base/clock.ts'
import type { Usage } from '../../language/usage.ts'
import type { Kind, Work } from '../../language/work.ts'
import type { Actor } from '../../resources/actor.ts'
import type { Endpoint } from '../../resources/models/catalog.ts'
import { kinds } from '../kinds.ts'

/** The conversation that a call belongs to. */
export interface Session {
  /** Computed on each read: most calls have nothing to look up, and nothing to remember. */
  readonly key: string
  /** Whether the caller names the session. */
  isNamed: boolean
}

/**
 * Finds the session of a call: the one that it names, or else its conversation, within its
 * workspace. Null if conversations cannot be recognised, or if the caller says which endpoints to
 * try.
 */
export function findSession<K extends Kind>(
  { workspace_id }: Actor,
  kind: K,
  call: Work[K]['call'],
): Session | null {
  const { order, sort } = call.routing
  if (order || sort) return null
  if (call.session_id !== null)
    return { key: `${workspace_id} session ${call.session_id}`, isNamed: true }
  const { identifyConversation } = kinds[kind].understanding
  return identifyConversation ? new Conversation(workspace_id, call, identifyConversation) : null
}

/** The session of a call that names none. Of a class, as an object with a getter costs far more. */
class Conversation<Call> implements Session {
  readonly isNamed = false
  readonly #workspaceId: string
  readonly #call: Call
  readonly #identify: (call: Call) => string

  constructor(workspaceId: string, call: Call, identify: (call: Call) => string) {
    this.#workspaceId = workspaceId
    this.#call = call
    this.#identify = identify
  }

  get key(): string {
    return `${this.#workspaceId} ${this.#identify(this.#call)}`
  }
}

/** A session is forgotten after this silence, and the longest silent one above this number. */
const LONGEST_SILENCE = 10 * 60_000
const MAX_SESSIONS = 10_000

/**
 * Which endpoint serves a session, so that it stays where its prompt is cached (wire reference
 * K.3).
 */
export class Sessions {
  readonly #clock: Clock
  /** The one that was silent for longest comes first. */
  readonly #entries = new Map<string, { id: string; until: number }>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  get size(): number {
    return this.#entries.size
  }

  /**
   * Returns the id of the endpoint that lately answered the session's calls of a model, or the
   * model for a router.
   */
  findStickyId(session: Session, model: string): string | undefined {
    const sticky = this.#entries.size > 0 ? this.#entries.get(`${model} ${session.key}`) : undefined
    return sticky && sticky.until > this.#clock.ticks() ? sticky.id : undefined
  }

  /**
   * Remembers the endpoint that answered the session if staying there is cheaper. A session without
   * a name must have hit the cache first.
   */
  rememberEndpoint(session: Session, endpoint: Endpoint, { input }: Usage): void {
    const { id, prices, model } = endpoint
    const isCheaper = prices?.cache_read !== undefined && prices.cache_read < prices.prompt
    if (isCheaper && (session.isNamed || input.cache_read > 0))
      this.#remember(`${model} ${session.key}`, id)
  }

  /** Remembers the model that a router picked for the session, under the router's name. */
  rememberModel(session: Session, router: string, { model }: Endpoint, { input }: Usage): void {
    if (session.isNamed || input.cache_read > 0) this.#remember(`${router} ${session.key}`, model)
  }

  #remember(name: string, id: string): void {
    this.#entries.delete(name)
    this.#entries.set(name, { id, until: this.#clock.ticks() + LONGEST_SILENCE })
    const [longest] = this.#entries.keys()
    if (this.#entries.size > MAX_SESSIONS && longest !== undefined) this.#entries.delete(longest)
  }
}
