import { isLongTurn, yieldToEventLoop } from '../base/clock.ts'
import { enrichRun } from '../extensions/enrich.ts'
import { filterRun } from '../extensions/filters.ts'
import { prepareRun, reviewRun } from '../extensions/prepare.ts'
import { runApproved } from '../extensions/server-tool/approved.ts'
import { offerTools } from '../extensions/server-tool/offer.ts'
import { handOver } from '../extensions/videos/start.ts'
import { admitRun, confirmRun } from './admit.ts'
import { attemptStep } from './attempt.ts'
import { planStep } from './plan.ts'
import { journalStep, reserveStep } from './reserve.ts'
import type { Run, Step } from './run.ts'
import { recordRun, settleLastStep } from './settle.ts'
import type { InferenceWorld } from './world.ts'

/** One stage of the life of a call, or of one of its steps. */
interface Stage<Subject> {
  name: string
  /**
   * Does its part; throws what stops the call. In a dry run it counts, sets aside, remembers and
   * records nothing.
   */
  run(world: InferenceWorld, subject: Subject): void | Promise<void>
  /** Whether the call has any need of it; absent if every call has. One without is passed over. */
  when?(subject: Subject): boolean
  /** The event that is published when it is done. */
  publishes?: 'call.opened' | 'step.planned' | 'call.closed'
  /** Whether providers are called from here on: a dry run ends before this stage. */
  sends?: boolean
  /** Whether it reads all of a call: others may get their turn after it. */
  reads?: boolean
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

function mentionsTools({ call }: Run): boolean {
  if (call.kind !== 'text') return false
  return call.serverTools !== undefined || typeof call.params.tool_choice === 'object'
}

const hasPlugins = ({ call }: Run): boolean => call.plugins !== undefined

/** The life of a call, on one screen. */
export const STAGES: Stages = {
  open: [
    // Whether the call may be made at all, and now: 403, 503, 429.
    { name: 'admit', run: admitRun, reads: true },
    // What plugins have to read for it is read: 400.
    { name: 'prepare', run: prepareRun, reads: true },
    // The gateway's own tools are shown to the model: 400.
    { name: 'offer', run: offerTools, when: mentionsTools },
    // Texts are redacted, refused or noted: 403.
    { name: 'filter', run: filterRun, reads: true, when: ({ policy }) => Boolean(policy.filters) },
    // Plugins may look at what is left: 403.
    { name: 'review', run: reviewRun, when: hasPlugins },
    // Plugins may ask others for what the call is to contain, and filters read it: 402, 403.
    { name: 'enrich', run: enrichRun, when: hasPlugins },
    // What holds now, after filters had time: 401.
    { name: 'confirm', run: confirmRun, publishes: 'call.opened' },
    // Uses of tools that the client has approved since: 400, 402, 403.
    { name: 'resume', run: runApproved, when: ({ toolLoop }) => toolLoop !== null },
  ],
  step: [
    // Which endpoints, in which order: 400, 404.
    { name: 'plan', run: planStep, publishes: 'step.planned', reads: true },
    // Money is set aside: 402.
    { name: 'reserve', run: reserveStep },
    // Written to disk before it is sent: 503.
    { name: 'journal', run: journalStep, sends: true },
    // Until an endpoint answers: 502, 524, 529, 429.
    { name: 'attempt', run: attemptStep, sends: true },
  ],
  close: [
    // The job that it has begun is stored and followed: 503.
    { name: 'hand over', run: handOver, when: ({ kind }) => kind === 'video' },
    // What the last step cost.
    { name: 'settle', run: settleLastStep },
    // Charged and on record: always, and once.
    { name: 'record', run: recordRun, publishes: 'call.closed' },
  ],
}

/**
 * Runs stages one after the other. Throws what the first failing one throws. A dry run publishes no
 * events. Others get their turn after a stage that took long.
 */
export function runStages<Subject extends { isDry: boolean }>(
  world: InferenceWorld,
  stages: Stage<Subject>[],
  subject: Subject,
  from = 0,
): void | Promise<void> {
  let startedAt: number | null = null
  for (let index = from; index < stages.length; index++) {
    const stage = stages[index]
    if (!stage || stage.when?.(subject) === false) continue
    if (stage.reads) startedAt ??= world.clock.ticks()
    const pending = stage.run(world, subject)
    // Synchronous as long as nothing has to be awaited: most stages of most calls are.
    if (pending) return continueStages(world, stages, subject, index, pending)
    if (stage.publishes) publishStageEvent(world, stage, subject)
    if (stage.reads && startedAt !== null && isLongTurn(world.clock, startedAt))
      return resumeStages(world, stages, subject, index + 1)
  }
}

// Functions of their own: a closure in the loop would cost something in each of its turns.
const resumeStages = <Subject extends { isDry: boolean }>(
  world: InferenceWorld,
  stages: Stage<Subject>[],
  subject: Subject,
  index: number,
): Promise<void> => yieldToEventLoop().then(() => runStages(world, stages, subject, index))

const continueStages = <Subject extends { isDry: boolean }>(
  world: InferenceWorld,
  stages: Stage<Subject>[],
  subject: Subject,
  index: number,
  pending: Promise<void>,
): Promise<void> =>
  pending.then(() => {
    const stage = stages[index]
    if (stage?.publishes) publishStageEvent(world, stage, subject)
    return runStages(world, stages, subject, index + 1)
  })

function publishStageEvent<Subject extends { isDry: boolean }>(
  { events }: InferenceWorld,
  { publishes }: Stage<Subject>,
  subject: Subject,
): void {
  if (publishes && !subject.isDry) events.publish(publishes, subject as never)
}

/** Lists the stages that come before any provider is called. */
export const listStagesBeforeSending = <Subject>(stages: Stage<Subject>[]): Stage<Subject>[] =>
  stages.filter(({ sends }) => !sends)
