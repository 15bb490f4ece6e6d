import { GatewayError } from '../errors.ts'
import type { Gateway } from '../gateway.ts'
import type { Actor } from '../identity/actor.ts'
import { Cancellation } from '../kernel/cancellation.ts'
import type { Hold } from '../ledger/ledger.ts'
import { roundToNanos } from '../ledger/money.ts'
import type { ProviderResponse } from '../telemetry/generations.ts'
import type { Kind, Work } from './call.ts'
import { kinds } from './kinds.ts'
import type { Plan } from './plan.ts'

/** A call while it runs: who asked for what, what is set aside for it, and what has been tried so far. */
export interface Running<K extends Kind> {
  actor: Actor
  kind: K
  call: Work[K]['call']
  plan: Plan
  hold: Hold | null
  /** Ends the call from outside: the client left, or the gateway stops. */
  cancellation: Cancellation
  attempts: ProviderResponse[]
  /** What was fetched for it, by URL, as data URLs. */
  media: Map<string, string>
  created: Date
  /** Steady milliseconds: when the call began, and when its first part came. */
  began: number
  firstPart: number | null
  /** Forgets the call. */
  forget(): void
}

const CLIENT_CLOSED_REQUEST = 499

/** The client is no longer there to be answered. */
export const clientLeft = () => new GatewayError('unmapped', 'The client closed the request', { status: CLIENT_CLOSED_REQUEST })

/** Whether the call ended because its client left. */
export const isAbandoned = ({ cancellation }: Running<Kind>): boolean => cancellation.reason?.status === CLIENT_CLOSED_REQUEST

/** Begins a call: money set aside, clocks started, listed among the running ones until it is forgotten. */
export function begin<K extends Kind>(
  gateway: Gateway,
  actor: Actor,
  kind: K,
  call: Work[K]['call'],
  plan: Plan,
  signal: AbortSignal,
): Running<K> {
  const cancellation = new Cancellation()
  if (signal.aborted) cancellation.cancel(clientLeft())
  else signal.addEventListener('abort', () => cancellation.cancel(clientLeft()), { once: true })
  return {
    actor,
    kind,
    call,
    plan,
    hold: holdFor(gateway, actor, kind, call, plan),
    cancellation,
    attempts: [],
    media: new Map(),
    created: gateway.clock.now(),
    began: gateway.clock.ticks(),
    firstPart: null,
    forget: gateway.calls.add(cancellation),
  }
}

/** Set aside: what the call is expected to come to at the prices of the first endpoint that counts against the key's limit. */
function holdFor<K extends Kind>(gateway: Gateway, actor: Actor, kind: K, call: Work[K]['call'], { endpoints }: Plan): Hold | null {
  if (actor.key_hash === null) return null
  const countsOwn = gateway.keys.get(actor.key_hash)?.include_byok_in_limit ?? false
  const endpoint = endpoints.find(({ is_byok }) => countsOwn || !is_byok)
  const prices = endpoint?.prices
  if (!prices) return gateway.ledger.reserve(actor.key_hash, 0n)
  const { input, output } = kinds[kind].expected(call, endpoint)
  return gateway.ledger.reserve(actor.key_hash, roundToNanos(BigInt(input) * prices.prompt + BigInt(output) * prices.completion))
}
