import { GatewayError } from '../errors.ts'
import type { Actor } from '../identity/actor.ts'
import type { Answer } from '../language/answer.ts'
import type { Kind, Work } from '../language/work.ts'
import { policyFor } from '../policy/effective.ts'
import { closeRun, openAnswer } from './answer.ts'
import { findCandidates } from './plan.ts'
import { routedFailure } from './routing-metadata.ts'
import { Run, Step } from './run.ts'
import { walk } from './stages.ts'
import type { InferenceWorld } from './world.ts'

/** The life of one call, in the order in which it happens: `stages.ts`. Every inference endpoint comes through here. */
export async function infer<K extends Kind>(
  world: InferenceWorld,
  actor: Actor,
  kind: K,
  call: Work[K]['call'],
  signal: AbortSignal,
): Promise<Answer<K>> {
  const run = startRun(world, actor, kind, call)
  try {
    await walk(world, world.stages.open, run)
    run.follow(signal)
    if (run.blocked) throw run.blocked
    const step = new Step(run, run.call)
    await walk(world, world.stages.step, step)
    return openAnswer(world, run, step)
  } catch (thrown) {
    throw await endUnanswered(world, run, thrown)
  }
}

/** A run of this call, which has not begun to be anything else yet. */
export const startRun = <K extends Kind>(world: InferenceWorld, actor: Actor, kind: K, call: Work[K]['call'], isDry = false): Run<K> =>
  new Run({
    ...{ actor, kind, call, isDry },
    policy: policyFor(world, actor),
    created: world.clock.now(),
    began: world.clock.ticks(),
  })

/** Ends a run that gave no answer, and says why, as its caller may know it. Never throws. What was refused before it went out leaves nothing. */
async function endUnanswered<K extends Kind>(world: InferenceWorld, run: Run<K>, thrown: unknown): Promise<unknown> {
  if (!run.isRecorded) {
    run.forget()
    return run.step?.candidates ? routedFailure(GatewayError.from(thrown), run) : thrown
  }
  const error = GatewayError.from(thrown)
  if (run.blocked && run.call.routingMetadata) planUnsent(world, run)
  await closeRun(world, run, error)
  return routedFailure(error, run)
}

/** Who would have served a call that is refused. Never throws: why it is refused is known already. */
function planUnsent<K extends Kind>(world: InferenceWorld, run: Run<K>): void {
  const step = new Step(run, run.call)
  try {
    step.candidates = findCandidates(world, step)
  } catch {
    step.candidates = null
  }
}
