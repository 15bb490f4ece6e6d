import { isLongTurn, yieldToEventLoop } from '../base/clock.ts'
import type { PeekedSequence } from '../base/iterate.ts'
import type { AnswerPart, Kind, Work } from '../language/work.ts'
import type { Endpoint } from '../resources/models/catalog.ts'
import type { UpstreamRequest } from '../translation/protocols/protocol.ts'
import { readNeeds } from './admit.ts'
import {
  type CallTarget,
  type Extension,
  NEEDS,
  type OpenedAnswer,
  type Run,
  type Turns,
  type Watcher,
} from './run.ts'
import type { InferenceWorld } from './world.ts'

/** What has the list of extensions. */
export interface ExtendedWorld extends InferenceWorld {
  /** What some calls have beside what all have, in the order in which it is attached. */
  extensions: readonly Extension[]
}

/**
 * Attaches the extensions that a run needs, and opens each before the next: what one of them adds
 * to the call, another may be for. Others get their turn after one that took long.
 */
export function openExtensions(world: ExtendedWorld, run: Run, from = 0): void | Promise<void> {
  const startedAt = world.clock.ticks()
  for (let index = from; index < world.extensions.length; index++) {
    const extension = world.extensions[index]
    if (!extension || (extension.when & readNeeds(world, run)) === 0) continue
    run.extensions = [...run.extensions, extension]
    const pending = extension.open?.(world, run)
    if (pending) return pending.then(() => openExtensions(world, run, index + 1))
    if (isLongTurn(world.clock, startedAt))
      return yieldToEventLoop().then(() => openExtensions(world, run, index + 1))
  }
}

/** Has the extensions of a run do what comes before its first turn. */
export async function beginExtensions(world: InferenceWorld, run: Run): Promise<void> {
  for (const { begin } of run.extensions) if (begin) await begin(world, run)
}

/** Has the extensions of a run do what comes before it is settled. */
export async function closeExtensions(world: InferenceWorld, run: Run): Promise<void> {
  for (const { close } of run.extensions) if (close) await close(world, run)
}

/** Returns a call with contents that are no plain text as its target takes it. */
export async function fitContents<K extends Kind>(
  world: ExtendedWorld,
  call: Work[K]['call'],
  target: CallTarget<K>,
): Promise<Work[K]['call']> {
  let fitted = call
  for (const { when, fit } of world.extensions)
    if (fit && when & NEEDS.media) fitted = await fit<K>(world, fitted, target)
  return fitted
}

/** Returns a request as the extensions of its run let it leave. */
export function sendThrough(
  world: InferenceWorld,
  run: Run,
  request: UpstreamRequest,
  endpoint: Endpoint,
): UpstreamRequest | Promise<UpstreamRequest> {
  let sent: UpstreamRequest | Promise<UpstreamRequest> = request
  for (const { send } of run.extensions)
    if (send)
      sent =
        sent instanceof Promise
          ? sent.then(looked => send(world, run, looked, endpoint))
          : send(world, run, sent, endpoint)
  return sent
}

/** Returns the answer of a run with those of the turns that follow; null if none can follow. */
export function chainTurns<K extends Kind>(
  world: InferenceWorld,
  answer: OpenedAnswer<K>,
  turns: Turns<K>,
): PeekedSequence<AnswerPart<K>[]> | null {
  for (const { next } of turns.run.extensions) {
    const chained = next?.(world, answer, turns)
    if (chained) return chained
  }
  return null
}

/**
 * Returns the answer as the extensions of its run leave it; null if none looks at answers. The first
 * of them hands on what the provider sent.
 */
export function readThrough<K extends Kind>(
  world: InferenceWorld,
  run: Run<K>,
  answer: PeekedSequence<AnswerPart<K>[]>,
  read: (batch: AnswerPart<K>[]) => void,
): PeekedSequence<AnswerPart<K>[]> | null {
  let passed: PeekedSequence<AnswerPart<K>[]> | null = null
  for (const { read: hook } of run.extensions)
    passed = hook?.(world, run, passed ?? answer, passed ? ignore : read) ?? passed
  return passed
}

const ignore = () => undefined

/** Begins to watch a run for its subscribers; null if it has none. */
export function watchRun(world: ExtendedWorld, run: Run): Watcher | null {
  for (const { when, watch } of world.extensions) {
    const watcher = when & NEEDS.subscribers ? watch?.(world, run) : null
    if (watcher) return watcher
  }
  return null
}
