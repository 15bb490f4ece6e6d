import type { Gateway } from '../gateway.ts'
import type { Actor } from '../identity/actor.ts'
import { keyBounds } from '../identity/keys.ts'
import { creditBounds } from '../ledger/credits.ts'
import type { Bound } from '../ledger/ledger.ts'
import { workspaceBounds } from './budgets.ts'

/** Everything that an actor's calls are held to, as one. Made once for a key, and dropped when anything changes that it is made of. */
export interface Policy {
  /** What may be spent. Each is counted by itself. */
  bounds: Bound[]
}

/** The policy of this actor, from memory alone. */
export function policyFor(gateway: Gateway, actor: Actor): Policy {
  const name = actor.key_hash ?? ''
  const known = gateway.policies.get(name)
  if (known) return known
  const made = policyOf(gateway, actor)
  gateway.policies.set(name, made)
  return made
}

const policyOf = (gateway: Gateway, actor: Actor): Policy => ({
  bounds: [...keyBounds(gateway, actor), ...workspaceBounds(gateway, actor.workspace_id), ...creditBounds(gateway)],
})
