import type { Kind } from '../language/work.ts'
import { hedgeDelay, raced } from './attempt/hedge.ts'
import { Line } from './attempt/line.ts'
import { summaryOf } from './attempt/summary.ts'
import { type Begun, tried } from './attempt/try.ts'
import type { Step } from './run.ts'
import type { InferenceWorld } from './world.ts'

/** Sends a step, and has its answer when it begins. Throws as `attemptInOrder` does. */
export async function attemptStep<K extends Kind>(world: InferenceWorld, step: Step<K>): Promise<void> {
  step.isSent = true
  step.begun = await attemptInOrder(world, step)
}

/**
 * Tries the plan's endpoints in order until one gives a first meaningful part. A 5xx, a 429, silence, a refused connection or a broken
 * stream before that moves on to the next endpoint; what one provider of a model refuses as invalid the others would refuse too, so that
 * moves on to the next model. A second try goes to none that rests, and only while few calls are on theirs. Where the call or the config
 * wants hedges, a slow one gets a rival. Throws the last failure, with the attempts in `metadata.previous_errors`.
 */
export async function attemptInOrder<K extends Kind>(gateway: InferenceWorld, step: Step<K>): Promise<Begun<K>> {
  const line = new Line<K>(gateway, step)
  for (let next = line.next(); next; next = line.next()) {
    try {
      const delay = hedgeDelay(gateway, step, next.endpoint)
      if (delay === null) return await tried(gateway, step, next, line.echoes)
      const begun = await raced(gateway, step, line, next, delay)
      if (begun) return begun
    } catch (thrown) {
      line.failed(next, thrown)
    } finally {
      line.over(next)
    }
  }
  throw summaryOf(step.call, line.failures)
}
