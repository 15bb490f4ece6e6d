import type { Endpoint } from '../catalog/models.ts'
import { GatewayError } from '../errors.ts'
import type { Actor } from '../identity/actor.ts'
import { Cancellation } from '../kernel/cancellation.ts'
import type { Kind, Work } from '../language/work.ts'
import type { Amounts, Bound, HeldCall, Hold, Word } from '../ledger/ledger.ts'
import { policyFor } from '../policy/effective.ts'
import type { Filtering } from './filters/filtering.ts'
import { kinds } from './kinds.ts'
import { needOf, promptNanos } from './need.ts'
import type { Plan } from './plan.ts'
import type { InferenceWorld } from './world.ts'

/** A call while it runs: who asked for what, what is set aside for it, and what has been tried so far. */
export interface Running<K extends Kind> {
  actor: Actor
  kind: K
  call: Work[K]['call']
  plan: Plan<K>
  hold: Hold | null
  /** Word of it that outlives the process; null where nothing is set aside. */
  held: HeldCall | null
  word: Word | null
  /** Whether any limit applies to it. */
  isBounded: boolean
  /** What it has come to by now, in nano-dollars; null until an answer begins. */
  soFar: (() => bigint) | null
  /** Ends the call from outside: the client left, or the gateway stops. */
  cancellation: Cancellation
  attempts: Attempt[]
  /** What content filters see in it; null where nothing looks. */
  filtering: Filtering | null
  /** What was fetched for it, by URL, as data URLs. */
  media: Map<string, string>
  created: Date
  /** Steady milliseconds: when the call began, and when its first part came. */
  began: number
  firstPart: number | null
  /** Forgets the call. */
  forget(): void
}

/** One try at one endpoint. Latency in whole milliseconds; a status of null means that no answer came. */
export interface Attempt {
  endpoint: Endpoint
  latency: number
  status: number | null
  /** Why it gave nothing; null where an answer began. */
  error: GatewayError | null
}

const CLIENT_CLOSED_REQUEST = 499

/** The client is no longer there to be answered. */
export const clientLeft = () => new GatewayError('unmapped', 'The client closed the request', { status: CLIENT_CLOSED_REQUEST })

/** Whether the call ended because its client left. */
export const isAbandoned = ({ cancellation }: Running<Kind>): boolean => cancellation.reason?.status === CLIENT_CLOSED_REQUEST

/**
 * Begins a call: money set aside, clocks started, listed among the running ones until it is forgotten, which `leave` hears of. Throws 402
 * where a limit has not enough left.
 */
export function begin<K extends Kind>(
  gateway: InferenceWorld,
  actor: Actor,
  kind: K,
  call: Work[K]['call'],
  plan: Plan<K>,
  signal: AbortSignal,
  leave: () => void = () => undefined,
): Running<K> {
  const cancellation = new Cancellation()
  if (signal.aborted) cancellation.cancel(clientLeft())
  else signal.addEventListener('abort', () => cancellation.cancel(clientLeft()), { once: true })
  const { bounds } = policyFor(gateway, actor)
  const hold = holdFor(gateway, actor, kind, call, plan, bounds)
  const running: Running<K> = {
    actor,
    kind,
    call,
    plan: hold ? { ...plan, endpoints: plan.endpoints.filter(endpoint => isPayable(hold.amounts, endpoint)) } : plan,
    hold,
    held: null,
    word: null,
    isBounded: bounds.length > 0,
    soFar: null,
    cancellation,
    attempts: [],
    filtering: null,
    media: new Map(),
    created: gateway.clock.now(),
    began: gateway.clock.ticks(),
    firstPart: null,
    forget: () => undefined,
  }
  running.held = hold && heldFor(running, hold)
  running.word = running.held && gateway.journal.holds.open(running.held)
  const unlisted = gateway.traffic.calls.add(running)
  running.forget = () => {
    unlisted()
    leave()
  }
  return running
}

/** Set aside for a key's call, where it is to be sent at all. Throws 402 where a limit has not enough left. */
function holdFor<K extends Kind>(
  gateway: InferenceWorld,
  { key_hash, user_id, workspace_id }: Actor,
  kind: K,
  call: Work[K]['call'],
  plan: Plan<K>,
  bounds: Bound[],
): Hold | null {
  if (key_hash === null || plan.endpoints.length === 0) return null
  return gateway.ledger.reserve({ key_hash, user_id, workspace_id }, needOf(gateway, kind, call, plan.endpoints, plan.models), bounds)
}

/** Whether a limit lets the call go there. */
export const isPayable = (amounts: Amounts, { is_byok }: Endpoint): boolean => (is_byok ? amounts.byok : amounts.own) !== null

/** What is written down of it before it goes out. A call that costs nothing leaves nothing to be found. */
function heldFor<K extends Kind>({ kind, call, plan, created }: Running<K>, { payer, amounts }: Hold): HeldCall | null {
  const nanos = amounts.own ?? amounts.byok ?? 0n
  const [first] = plan.endpoints
  if (!first || (nanos === 0n && !amounts.byok)) return null
  return {
    ...payer,
    id: call.id,
    request_id: call.origin.request_id,
    created_at: created.toISOString(),
    api_type: kinds[kind].apiType,
    model: first.model,
    streamed: call.stream,
    step: 1,
    byok: first.is_byok,
    nanos,
    spent: promptNanos(kind, call, first),
  }
}

/**
 * Waits until word of the call is left, so that a dead process cannot forget it: before that it must not go out. Throws 503, with everything
 * given back, when that cannot be done.
 */
export async function wordWritten({ ledger }: InferenceWorld, { word, hold, forget }: Running<Kind>): Promise<void> {
  try {
    await word?.written
  } catch (thrown) {
    word?.forget()
    if (hold) ledger.release(hold)
    forget()
    throw thrown
  }
}
