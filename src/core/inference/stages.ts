import { admitRun, confirmRun } from './admit.ts'
import { attemptStep } from './attempt.ts'
import { filterRun } from './filters.ts'
import { planStep } from './plan.ts'
import { journalStep, reserveStep } from './reserve.ts'
import type { Run, Step } from './run.ts'
import { recordRun, settleStep } from './settle.ts'
import type { InferenceWorld } from './world.ts'

/** One stage of the life of a call, or of one of its steps. */
export interface Stage<Subject> {
  name: string
  /**
   * Does its part; throws what stops the call. In a dry run it counts, sets aside, remembers and
   * records nothing.
   */
  run(world: InferenceWorld, subject: Subject): void | Promise<void>
  /** The event that is published when it is done. */
  tells?: 'call.opened' | 'step.planned' | 'call.closed'
  /** Whether providers are called from here on: a dry run ends before this stage. */
  sends?: boolean
}

/** The life of a call. */
export interface Stages {
  /** Once per call. */
  open: Stage<Run>[]
  /** Once per step: most calls have one, some have more. */
  step: Stage<Step>[]
  /** Once per call, however it ends. */
  close: Stage<Run>[]
}

/** The life of a call, on one screen. */
export const STAGES: Stages = {
  open: [
    // Whether the call may be made at all, and now: 403, 503, 429.
    { name: 'admit', run: admitRun },
    // Texts are redacted, refused or noted: 403.
    { name: 'filter', run: filterRun },
    // What holds now, after filters had time: 401.
    { name: 'confirm', run: confirmRun, tells: 'call.opened' },
  ],
  step: [
    // Which endpoints, in which order: 400, 404.
    { name: 'plan', run: planStep, tells: 'step.planned' },
    // Money is set aside: 402.
    { name: 'reserve', run: reserveStep },
    // Written to disk before it is sent: 503.
    { name: 'journal', run: journalStep, sends: true },
    // Until an endpoint answers: 502, 524, 529, 429.
    { name: 'attempt', run: attemptStep, sends: true },
  ],
  close: [
    // What the last step cost.
    { name: 'settle', run: settleStep },
    // Charged and on record: always, and once.
    { name: 'record', run: recordRun, tells: 'call.closed' },
  ],
}

/**
 * Runs stages one after the other. Throws what the first failing one throws. A dry run publishes no
 * events.
 */
export function walk<Subject extends { isDry: boolean }>(
  world: InferenceWorld,
  stages: Stage<Subject>[],
  subject: Subject,
  from = 0,
): void | Promise<void> {
  for (let at = from; at < stages.length; at++) {
    const stage = stages[at]
    const done = stage?.run(world, subject)
    // Synchronous as long as nothing has to be awaited: most stages of most calls are.
    if (done) return done.then(() => goOn(world, stages, subject, at))
    tell(world, stages, subject, at)
  }
}

function goOn<Subject extends { isDry: boolean }>(
  world: InferenceWorld,
  stages: Stage<Subject>[],
  subject: Subject,
  at: number,
) {
  tell(world, stages, subject, at)
  return walk(world, stages, subject, at + 1)
}

function tell<Subject extends { isDry: boolean }>(
  world: InferenceWorld,
  stages: Stage<Subject>[],
  subject: Subject,
  at: number,
): void {
  const tells = stages[at]?.tells
  if (tells && !subject.isDry) world.events.publish(tells, subject as never)
}

/** Lists the stages that come before any provider is called. */
export const unsent = <Subject>(stages: Stage<Subject>[]): Stage<Subject>[] =>
  stages.filter(({ sends }) => !sends)
