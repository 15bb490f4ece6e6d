import type { Endpoint } from '../catalog/models.ts'
import { GatewayError } from '../errors.ts'
import type { Actor } from '../identity/actor.ts'
import type { Clock } from '../kernel/clock.ts'
import { Roster } from '../kernel/roster.ts'
import type { Usage } from '../language/usage.ts'
import type { Kind, Work } from '../language/work.ts'
import type { HeldCall } from '../ledger/ledger.ts'
import type { RateLimits } from '../policy/rate-limits.ts'
import { PATIENCE } from '../tokenizers.ts'
import type { Health } from './health.ts'
import { kinds } from './kinds.ts'
import type { Run } from './run.ts'

/** What is known of the calls that run and of the endpoints that they go to. */
export interface Traffic {
  calls: Calls
  /** How many of them may be tried again at once. */
  retries: Retries
  /** How the endpoints are that they go to. */
  health: Health
  /** Where the conversations are that they belong to. */
  sessions: Sessions
  /** How often they may be made. */
  rateLimits: RateLimits
}

type RunningCall = Pick<Run, 'cancellation' | 'progress'>

/** The calls that run at this moment. */
export interface Calls {
  readonly size: number
  readonly draining: boolean
  /** Lists a call, and gives back how to forget it. */
  add(call: RunningCall): () => void
  /** Those that have begun to answer since, and what each has come to. */
  progress(): { held: HeldCall; spent: bigint }[]
  /** Takes no more, waits at most so many milliseconds for the running ones, and then ends those that are left. */
  drain(milliseconds: number): Promise<void>
}

/** What a call that was ended gets to be counted, recorded and to say so, in milliseconds. */
const GRACE = PATIENCE + 1_000

/** The list of running calls, empty. */
export function openCalls(): Calls {
  const running = new Roster<RunningCall>()
  let draining = false
  let emptied: (() => void) | undefined

  const endAll = () => {
    for (const { cancellation } of running)
      cancellation.cancel(new GatewayError('unavailable', 'The gateway is shutting down'))
  }

  return {
    get size() {
      return running.size
    },
    get draining() {
      return draining
    },
    add(call) {
      const remove = running.add(call)
      return () => {
        remove()
        if (running.size === 0) emptied?.()
      }
    },
    progress() {
      return [...running].flatMap(({ progress }) => progress ?? [])
    },
    async drain(milliseconds) {
      draining = true
      if (running.size === 0) return
      const { promise, resolve } = Promise.withResolvers<void>()
      emptied = resolve
      const late = setTimeout(endAll, milliseconds)
      await Promise.race([promise, Bun.sleep(milliseconds + GRACE)])
      clearTimeout(late)
    },
  }
}

/** Of the calls that run so many may be second tries, and this many always: an outage is not to multiply traffic. */
const SHARE = 0.2
const ALWAYS = 3

/** How many second tries there may be at once. */
export class Retries {
  readonly #calls: Pick<Calls, 'size'>
  #running = 0

  constructor(calls: Pick<Calls, 'size'>) {
    this.#calls = calls
  }

  /** Whether there is room for one more, which is taken then: whoever gets it gives it back. */
  take(): boolean {
    if (this.#running >= Math.max(ALWAYS, this.#calls.size * SHARE)) return false
    this.#running += 1
    return true
  }

  /** Gives a place back. */
  leave(): void {
    this.#running -= 1
  }
}

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
export function sessionOf<K extends Kind>(
  { workspace_id }: Actor,
  kind: K,
  call: Work[K]['call'],
): Session | null {
  const { order, sort } = call.routing
  if (order || sort) return null
  if (call.session_id !== null)
    return { key: `${workspace_id} session ${call.session_id}`, isNamed: true }
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
    if (isCheaper && (session.isNamed || input.cache_read > 0))
      this.#remember(`${model} ${session.key}`, id)
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
