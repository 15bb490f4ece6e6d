import type { Endpoint } from '../catalog/models.ts'
import { GatewayError } from '../errors.ts'
import type { Actor } from '../identity/actor.ts'
import type { Clock } from '../kernel/clock.ts'
import { LiveSet } from '../kernel/live-set.ts'
import type { Usage } from '../language/usage.ts'
import type { Kind, Work } from '../language/work.ts'
import type { HeldCall } from '../ledger/ledger.ts'
import type { RateLimits } from '../policy/rate-limits.ts'
import { COUNT_TIMEOUT_MS } from '../tokenizers.ts'
import type { Health } from './health.ts'
import { kinds } from './kinds.ts'
import type { Run } from './run.ts'

/** The running calls, and what is known of the endpoints that they use. */
export interface Traffic {
  calls: Calls
  /** Limits how many of them may be retried at once. */
  retries: Retries
  /** The health of endpoints. */
  health: Health
  /** The endpoints of sessions. */
  sessions: Sessions
  /** Limits how often calls may be made. */
  rateLimits: RateLimits
}

type RunningCall = Pick<Run, 'cancellation' | 'progress'>

/** The calls that run at this moment. */
export interface Calls {
  readonly size: number
  readonly draining: boolean
  /** Lists a call and returns a function that removes it. */
  add(call: RunningCall): () => void
  /** Lists the calls that have begun to answer, and what each has cost so far. */
  listProgress(): { held: HeldCall; spent: bigint }[]
  /**
   * Accepts no more calls, waits at most this many milliseconds for the running ones, and then
   * cancels the rest.
   */
  drain(milliseconds: number): Promise<void>
}

/**
 * How long a cancelled call may take to be counted and recorded and to send its error, in
 * milliseconds.
 */
const GRACE = COUNT_TIMEOUT_MS + 1_000

/** Creates an empty list of running calls. */
export function createCalls(): Calls {
  const running = new LiveSet<RunningCall>()
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
    listProgress() {
      return [...running].flatMap(({ progress }) => progress ?? [])
    },
    async drain(milliseconds) {
      draining = true
      if (running.size === 0) return
      const { promise, resolve } = Promise.withResolvers<void>()
      emptied = resolve
      const timer = setTimeout(endAll, milliseconds)
      await Promise.race([promise, Bun.sleep(milliseconds + GRACE)])
      clearTimeout(timer)
    },
  }
}

/**
 * The share of running calls that may be retries, and how many always may: an outage must not
 * multiply traffic.
 */
const SHARE = 0.2
const ALWAYS = 3

/** Limits how many retries run at once. */
export class Retries {
  readonly #calls: Pick<Calls, 'size'>
  #running = 0

  constructor(calls: Pick<Calls, 'size'>) {
    this.#calls = calls
  }

  /** Takes a permit if there is one; tells whether it did. Each permit must be released. */
  tryAcquire(): boolean {
    if (this.#running >= Math.max(ALWAYS, this.#calls.size * SHARE)) return false
    this.#running += 1
    return true
  }

  /** Gives a permit back. */
  release(): void {
    this.#running -= 1
  }
}

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
  if (!identifyConversation) return null
  return {
    get key() {
      return `${workspace_id} ${identifyConversation(call)}`
    },
    isNamed: false,
  }
}

/** A session is forgotten after this silence, and the longest silent one above this number. */
const LONGEST_SILENCE = 10 * 60_000
const MOST = 10_000

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
    if (this.#entries.size > MOST && longest !== undefined) this.#entries.delete(longest)
  }
}
