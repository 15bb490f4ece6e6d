import type { Gateway } from '../core/gateway.ts'
import type { Actor } from '../core/identity/actor.ts'
import { Explanation, explain } from '../core/inference/explain.ts'
import type { Kind, Work } from '../core/language/work.ts'
import type { OtherAnswer } from './operation.ts'

/** What may be answered instead of what was asked for. */
export const EXPLANATION: OtherAnswer = { name: 'Explanation', schema: Explanation, when: 'with `debug.dry_run`, by management keys' }

/** What of a body asks for a dry run. */
interface Debugged {
  debug?: { dry_run?: boolean | null; key?: string | null } | null
}

/** What would become of the call, where that is asked for; undefined where the call is to be made. Throws as `explain` does. */
export function dryRun<K extends Kind>(
  gateway: Gateway,
  asker: Actor,
  { debug }: Debugged,
  kind: K,
  understand: (actor: Actor) => Work[K]['call'],
): Promise<Explanation> | undefined {
  return debug?.dry_run ? explain(gateway, asker, { key: debug.key ?? undefined }, kind, understand) : undefined
}

/** The answer to a dry run. It has the request's id, and none of a generation: there is none. */
export const explained = (explanation: Explanation, { 'x-request-id': id = '' }: Record<string, string>): Response =>
  Response.json(explanation, { headers: { 'x-request-id': id } })
