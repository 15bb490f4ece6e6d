import type { Endpoint } from '../catalog/models.ts'
import { GatewayError } from '../errors.ts'
import type { Gateway } from '../gateway.ts'
import type { Actor } from '../identity/actor.ts'
import type { Hold } from '../ledger/ledger.ts'
import type { ProviderResponse } from '../telemetry/generations.ts'
import type { Kind, Work } from './call.ts'
import type { Plan } from './plan.ts'

/** A call while it runs: who asked for what, what is set aside for it, and what has been tried so far. */
export interface Running<K extends Kind = Kind> {
  actor: Actor
  kind: K
  call: Work[K]['call']
  plan: Plan
  hold: Hold | null
  /** Ends the call from outside: the client left, or the gateway stops. */
  controller: AbortController
  attempts: ProviderResponse[]
  created: Date
  /** Steady milliseconds: when the call began, and when its first part came. */
  began: number
  firstPart: number | null
  /** Forgets the call. */
  forget(): void
}

/** The calls that run at this moment. */
export interface Calls {
  readonly size: number
  readonly draining: boolean
  add(controller: AbortController): () => void
  /** Takes no more, waits at most `milliseconds` for the running ones, and then ends those that are left. */
  drain(milliseconds: number): Promise<void>
}

/** The client is no longer there to be answered. */
export const clientLeft = () => new GatewayError('unmapped', 'The client closed the request', { status: 499 })

/** Whether the call ended because its client left. */
export const isAbandoned = ({ controller: { signal } }: Running): boolean =>
  signal.aborted && signal.reason instanceof GatewayError && signal.reason.status === 499

/** Begins a call: money set aside, clocks started, listed among the running ones until it is forgotten. */
export function begin<K extends Kind>(
  gateway: Gateway,
  actor: Actor,
  kind: K,
  call: Work[K]['call'],
  plan: Plan,
  signal: AbortSignal,
): Running<K> {
  const controller = new AbortController()
  const leave = () => controller.abort(clientLeft())
  if (signal.aborted) leave()
  else signal.addEventListener('abort', leave, { once: true })
  const remove = gateway.calls.add(controller)
  return {
    actor,
    kind,
    call,
    plan,
    hold: holdFor(gateway, actor, call, plan.endpoints[0]),
    controller,
    attempts: [],
    created: gateway.clock.now(),
    began: gateway.clock.ticks(),
    firstPart: null,
    forget() {
      signal.removeEventListener('abort', leave)
      remove()
    },
  }
}

// What the output may come to when neither the caller nor the endpoint bounds it.
const UNBOUNDED_OUTPUT = 4096
const CHARACTERS_PER_TOKEN = 4

/** Set aside: the prompt by its length, and the output up to its bound, at the first endpoint's prices. */
function holdFor(gateway: Gateway, actor: Actor, call: Work[Kind]['call'], endpoint: Endpoint | undefined): Hold | null {
  if (actor.key_hash === null) return null
  const prices = endpoint?.prices
  if (!prices || !endpoint) return gateway.ledger.reserve(actor.key_hash, 0n)
  const output = call.params.max_tokens ?? endpoint.max_completion_tokens ?? UNBOUNDED_OUTPUT
  const attos = BigInt(promptTokens(call)) * prices.prompt + BigInt(output) * prices.completion
  return gateway.ledger.reserve(actor.key_hash, attos / 1_000_000_000n)
}

function promptTokens({ turns }: Work[Kind]['call']): number {
  let characters = 0
  for (const { blocks } of turns) for (const block of blocks) if (block.type === 'text') characters += block.text.length
  return Math.ceil(characters / CHARACTERS_PER_TOKEN)
}

/** The list of running calls, empty. */
export function openCalls(): Calls {
  const running = new Set<AbortController>()
  let draining = false
  let settled: (() => void) | undefined
  return {
    get size() {
      return running.size
    },
    get draining() {
      return draining
    },
    add(controller) {
      running.add(controller)
      return () => {
        running.delete(controller)
        if (running.size === 0) settled?.()
      }
    },
    async drain(milliseconds) {
      draining = true
      if (running.size === 0) return
      const allSettled = new Promise<void>(resolve => {
        settled = resolve
      })
      const late = setTimeout(() => {
        for (const controller of running) controller.abort(new GatewayError('unavailable', 'The gateway is shutting down'))
      }, milliseconds)
      await Promise.race([allSettled, Bun.sleep(milliseconds + GRACE)])
      clearTimeout(late)
    },
  }
}

/** What a call that was ended gets to say so and be recorded. */
const GRACE = 1_000
