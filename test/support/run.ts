import type { Gateway } from '../../src/app/gateway.ts'
import { createRunAnswer, startRun } from '../../src/engine/infer.ts'
import type { Plan } from '../../src/engine/plan/candidates.ts'
import { journalStep, reserveStep } from '../../src/engine/reserve.ts'
import type { OpenedAnswer } from '../../src/engine/run.ts'
import { Step } from '../../src/engine/run.ts'
import type { Answer } from '../../src/language/answer.ts'
import type { Kind, Work } from '../../src/language/work.ts'
import type { Actor } from '../../src/resources/actor.ts'

/** Begins the first step of a call with this plan: money is held, and no endpoint is called. */
export function beginStep<K extends Kind>(
  gateway: Gateway,
  actor: Actor,
  kind: K,
  call: Work[K]['call'],
  plan: Plan<K>,
  signal: AbortSignal,
): Step<K> & { plan: Plan<K> } {
  const run = startRun(gateway, actor, kind, call)
  run.follow(signal)
  const step = Object.assign(new Step(run, call), { plan })
  reserveStep(gateway, step)
  journalStep(gateway, step)
  run.unlist = gateway.traffic.calls.add(run)
  return step
}

/** Opens the answer of a step that has begun. */
export function openStepAnswer<K extends Kind>(
  gateway: Gateway,
  step: Step<K>,
  begun: OpenedAnswer<K>,
): Answer<K> {
  step.isSent = true
  step.answer = begun
  return createRunAnswer(gateway, step.run, step)
}
