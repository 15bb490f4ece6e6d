import type { Run, Watcher } from '../engine/run.ts'
import type { AnswerPart, Kind } from '../language/work.ts'
import { retainsNothing } from '../limits/zdr.ts'
import type { OpenedDestination } from '../observability/destinations/opened.ts'
import { findDestination } from '../observability/destinations/operator.ts'
import type { FilterRules } from '../observability/destinations/schema.ts'
import { isActive, listSubscribers } from '../observability/destinations/subscribers.ts'
import type { Generation } from '../observability/generations/store.ts'
import type { OutboxMessage } from '../observability/outbox.ts'
import { buildExportedCall } from './broadcast/exported-call.ts'
import { GatheredAnswer } from './broadcast/gathered-answer.ts'
import type { ExtensionWorld } from './world.ts'

declare module '../base/events.ts' {
  interface EventMap {
    /** A call could not be written down for its destinations: the secret is missing, perhaps. */
    'broadcast.failed': { id: string; error: unknown }
  }
}

/**
 * Decides who is told of a run, when its answer begins. Returns null, after one look, where there
 * is no listener. What a call contains is kept only for those who want it, and nothing of a call
 * that nobody may keep.
 */
export function startBroadcast(world: ExtensionWorld, run: Run): Watcher | null {
  if (run.within || run.isDry) return null
  const subscribers = listSubscribers(world, run.actor, run.call)
  if (subscribers.length === 0) return null
  const isTold =
    subscribers.some(({ destination }) => needsContent(destination)) &&
    !retainsNothing(world, run.policy.zdr, run.call)
  return new Broadcast(world, subscribers, isTold ? new GatheredAnswer() : null)
}

/** Who is told of a run, and what is gathered for them. */
class Broadcast implements Watcher {
  readonly #world: ExtensionWorld
  readonly #subscribers: OpenedDestination[]
  /** Null if no listener wants content, or may have it. */
  readonly #answer: GatheredAnswer | null

  constructor(
    world: ExtensionWorld,
    subscribers: OpenedDestination[],
    answer: GatheredAnswer | null,
  ) {
    this.#world = world
    this.#subscribers = subscribers
    this.#answer = answer
  }

  /** Gathers what the client is shown. */
  read(parts: AnswerPart<Kind>[]): void {
    this.#answer?.read(parts as AnswerPart<'text'>[])
  }

  /** Builds the message about a finished run, which is encrypted in its record if it has content. */
  close(run: Run, generation: Generation): OutboxMessage[] | undefined {
    const receivers = listReceivers(this.#world, this.#subscribers)
    if (receivers.length === 0) return undefined
    try {
      const call = buildExportedCall(this.#world, run, generation, {
        subscribers: this.#subscribers,
        answer: mayTell(this.#world, run, generation) ? this.#answer : null,
      })
      const hasContent = call.input !== null || call.output !== null
      return [{ topic: 'trace', payload: JSON.stringify(call), hasContent, receivers }]
    } catch (error) {
      // No call fails because others cannot be told of it.
      this.#world.events.publish('broadcast.failed', { id: run.call.id, error })
      return undefined
    }
  }
}

/** Whether a destination is told contents, or has rules that read them. */
const needsContent = ({
  privacy_mode,
  filter_rules,
}: {
  privacy_mode: boolean
  filter_rules: FilterRules | null
}): boolean =>
  !privacy_mode ||
  (filter_rules?.groups.some(({ rules }) =>
    rules.some(({ field }) => field === 'input' || field === 'output'),
  ) ??
    false)

/**
 * Whether the words of a call may be told: filters have not blocked it, and the models that were
 * asked, which a router may have named, let others keep it.
 */
function mayTell(
  world: ExtensionWorld,
  run: Pick<Run, 'policy' | 'call' | 'attempts' | 'blocked'>,
  { model }: Generation,
) {
  const { policy, call, attempts, blocked } = run
  const models = [model, ...attempts.map(({ endpoint }) => endpoint.model)]
  return blocked === null && !retainsNothing(world, policy.zdr, { routing: call.routing, models })
}

/** Lists those of the subscribers that are still told of calls. */
function listReceivers(world: ExtensionWorld, subscribers: OpenedDestination[]): string[] {
  const receivers: string[] = []
  for (const { destination } of subscribers) {
    const now = findDestination(world, destination.id)
    if (now && isActive(now)) receivers.push(destination.id)
  }
  return receivers
}
