import type { Cancellation } from '../base/cancellation.ts'
import type { Clock } from '../base/clock.ts'
import { GatewayError } from '../base/errors.ts'
import { LiveSet } from '../base/live-set.ts'
import type { Usage } from '../language/usage.ts'
import type { Kind, Work } from '../language/work.ts'
import type { Counters } from '../limits/counters.ts'
import type { HeldCall } from '../limits/ledger.ts'
import type { Actor } from '../resources/actor.ts'
import type { KeptCalls } from '../resources/idempotency/calls.ts'
import type { Endpoint } from '../resources/models/catalog.ts'
import type { EventLogs } from '../resources/responses/event-log.ts'
import type { Makers } from '../resources/responses.ts'
import { COUNT_TIMEOUT_MS } from '../translation/tokenizers.ts'
import type { Health } from './health.ts'
import { kinds } from './kinds.ts'
import type { Admission } from './traffic/admission.ts'
import type { Approvals } from './traffic/approvals.ts'
import type { LargeAnswers } from './traffic/large-answers.ts'
import type { ReadDocuments } from './traffic/read-documents.ts'
import { ReadOns } from './traffic/read-ons.ts'
import type { ResponseCache } from './traffic/response-cache.ts'

/** The running calls, and what is known of the endpoints that they use. */
export interface Traffic {
  /** Decides whether another call fits beside those that run. */
  admission: Admission
  calls: RunningCalls
  /** Answers that are read on after their clients have left. */
  readOns: ReadOns
  /** Bounds how many retries may be in vain. */
  retryBudget: RetryBudget
  /** Where answers are read that take much memory. */
  largeAnswers: LargeAnswers
  /** The health of endpoints. */
  health: Health
  /** The endpoints of sessions. */
  sessions: Sessions
  /** What clients were asked to approve. */
  approvals: Approvals
  /** Answers that callers want to get again. */
  responseCache: ResponseCache
  /** What documents of conversations say. */
  readDocuments: ReadDocuments
  /** Calls under clients’ keys, and their answers. */
  keptCalls: KeptCalls
  /** The responses that are made in the background, by their ids. */
  background: Map<string, AbortController>
  /** The events of those that are streamed. */
  eventLogs: EventLogs
  /** Which servers make responses, where several do. */
  makers?: Makers
  /** Limits how often calls may be made. */
  counters: Counters
}

/** A call that runs, as far as the list of them is concerned. */
interface RunningCall {
  readonly cancellation: Pick<Cancellation, 'cancel'>
  /** What it has cost so far; null until an answer begins. */
  readonly progress: { held: HeldCall; spent: bigint } | null
  readonly actor?: Pick<Actor, 'key_hash'>
  /** The calls that uses of its tools make. */
  readonly inner?: readonly (RunningCall & { readonly ending: object | null })[]
  /** Whether no provider has received its current step yet. */
  readonly isUnconnected?: boolean
  /** Ends it if it uses tools. */
  endLoop?(reason: GatewayError): void
}

/** The calls that run at this moment. */
interface RunningCalls {
  readonly size: number
  /** Whether it takes no more calls, or will soon. */
  readonly draining: boolean
  /** Whether it takes no more calls. */
  readonly closed: boolean
  /** Lists a call and returns a function that removes it. */
  add(call: RunningCall): () => void
  /** Lists the calls that have begun to answer, and what each has cost so far. */
  listProgress(): { held: HeldCall; spent: bigint }[]
  /** Lists the calls themselves. */
  listRunning(): Iterable<RunningCall>
  /** Counts the calls that have no connection to a provider yet, or wait for the next one. */
  countUnconnected(): number
  /** Ends the calls of these keys that use tools, as all others end with their turn. */
  endLoops(isGone: (keyHash: string) => boolean, reason: GatewayError): void
  /** Says that it will take no more calls soon: who sends them should send them elsewhere. */
  announceDrain(): void
  /**
   * Accepts no more calls, ends those that use tools, waits at most this many milliseconds for the
   * other running ones, and then cancels the rest.
   */
  drain(milliseconds: number): Promise<void>
}

/**
 * How long a cancelled call may take to be counted and recorded and to send its error, in
 * milliseconds.
 */
const GRACE = COUNT_TIMEOUT_MS + 1_000

const shuttingDown = () => new GatewayError('unavailable', 'The gateway is shutting down')

const listProgress = ({
  progress,
  inner = [],
}: RunningCall): NonNullable<RunningCall['progress']>[] => [
  ...(progress ? [progress] : []),
  ...inner.flatMap(listProgress),
]

// A function that calls itself only for tools that ask models: most calls have none.
function countUnconnected({ isUnconnected, inner }: RunningCall): number {
  let count = isUnconnected ? 1 : 0
  for (const run of inner ?? []) if (!run.ending) count += countUnconnected(run)
  return count
}

/** Creates an empty list of running calls. Those that are read on are cut when it is drained. */
export function createRunningCalls(readOns = new ReadOns()): RunningCalls {
  const running = new LiveSet<RunningCall>()
  let emptied: (() => void) | undefined

  const endAll = () => {
    for (const { cancellation } of running) cancellation.cancel(shuttingDown())
  }

  const calls = {
    draining: false,
    closed: false,
    get size() {
      return running.size
    },
    add(call: RunningCall) {
      const remove = running.add(call)
      return () => {
        remove()
        if (running.size === 0) emptied?.()
      }
    },
    listProgress() {
      return [...running].flatMap(listProgress)
    },
    listRunning: () => running,
    countUnconnected() {
      let count = 0
      for (const call of running) count += countUnconnected(call)
      return count
    },
    endLoops(isGone: (keyHash: string) => boolean, reason: GatewayError) {
      for (const call of running) {
        const hash = call.actor?.key_hash ?? null
        if (hash !== null && isGone(hash)) call.endLoop?.(reason)
      }
    },
    announceDrain() {
      calls.draining = true
    },
    async drain(milliseconds: number) {
      calls.draining = calls.closed = true
      readOns.cutAll()
      // They may take many more turns, and tools that run may take long.
      for (const call of running) call.endLoop?.(shuttingDown())
      if (running.size === 0) return
      const { promise, resolve } = Promise.withResolvers<void>()
      emptied = resolve
      const timer = setTimeout(endAll, milliseconds)
      await Promise.race([promise, Bun.sleep(milliseconds + GRACE)])
      clearTimeout(timer)
    },
  }
  return calls
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

/** What several servers know of sessions that callers name. */
export interface SharedSessions {
  /** Tells the others, later. */
  note(session: string, model: string, id: string): void
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

  /** What is told to other servers; null where there are none. */
  shared: SharedSessions | null = null

  constructor(clock: Clock) {
    this.#clock = clock
  }

  get size(): number {
    return this.#entries.size
  }

  /** Takes over what another server knows, unless this one knows better. */
  adopt(session: string, model: string, id: string): void {
    const name = `${model} ${session}`
    const known = this.#entries.get(name)
    if (!known || known.until <= this.#clock.ticks()) this.#keep(name, id)
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
    if (isCheaper && (session.isNamed || input.cache_read > 0)) this.#remember(session, model, id)
  }

  /** Remembers the model that a router picked for the session, under the router's name. */
  rememberModel(session: Session, router: string, { model }: Endpoint, { input }: Usage): void {
    if (session.isNamed || input.cache_read > 0) this.#remember(session, router, model)
  }

  #remember({ key, isNamed }: Session, model: string, id: string): void {
    this.#keep(`${model} ${key}`, id)
    if (isNamed) this.shared?.note(key, model, id)
  }

  #keep(name: string, id: string): void {
    this.#entries.delete(name)
    this.#entries.set(name, { id, until: this.#clock.ticks() + LONGEST_SILENCE })
    const [longest] = this.#entries.keys()
    if (this.#entries.size > MAX_SESSIONS && longest !== undefined) this.#entries.delete(longest)
  }
}

/**
 * The share of running calls that may be hedged, or retried in vain, at once: an outage must not
 * multiply traffic. And how many always may: a burst at a small gateway multiplies little.
 */
const SHARE = 0.2
const LEAST = 10

/** How many retries answers pay for in advance. */
const MOST_CREDIT = 30

/** In milliseconds: in this time half of the retries that were in vain are forgotten. */
const HALF_LIFE = 10_000

/** What a permit is for: an attempt beside a slow one, or another one after failures. */
export type Permit = 'hedge' | 'retry'

/**
 * Bounds how much further attempts multiply the traffic of an outage, and nothing else: a retry is
 * in vain until it is answered, and so many may be. Each answer of any endpoint pays for one that
 * was in vain, and time for all of them, so that there are permits wherever most calls are answered.
 */
export class RetryBudget {
  readonly #calls: Pick<RunningCalls, 'size'>
  readonly #health: Pick<Health, 'answers'>
  readonly #clock: Pick<Clock, 'ticks'>
  #hedges = 0
  #vain = 0
  #countedAt = 0
  #answers = 0

  constructor(
    calls: Pick<RunningCalls, 'size'>,
    health: Pick<Health, 'answers'>,
    clock: Pick<Clock, 'ticks'>,
  ) {
    this.#calls = calls
    this.#health = health
    this.#clock = clock
  }

  /** Takes a permit if there is one; tells whether it did. Each permit must be released. */
  tryAcquire(permit: Permit): boolean {
    const taken = permit === 'hedge' ? this.#hedges : this.#countVain()
    if (taken >= Math.max(LEAST, this.#calls.size * SHARE)) return false
    if (permit === 'hedge') this.#hedges += 1
    else this.#vain += 1
    return true
  }

  /** Gives a permit back. That of a retry which has failed is spent. */
  release(permit: Permit, hasFailed: boolean): void {
    if (permit === 'hedge') this.#hedges -= 1
    else if (!hasFailed) this.#vain -= 1
  }

  // Read from what health counts anyway: a call that is answered at once does nothing for this.
  #countVain(): number {
    const { answers } = this.#health
    const now = this.#clock.ticks()
    const kept = 0.5 ** ((now - this.#countedAt) / HALF_LIFE)
    this.#vain = Math.max(-MOST_CREDIT, this.#vain * kept - (answers - this.#answers))
    this.#answers = answers
    this.#countedAt = now
    return this.#vain
  }
}
