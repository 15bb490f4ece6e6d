import { LONGEST_TURN, yieldToEventLoop } from '../base/clock.ts'
import { admitRun, listRun, readNeeds, recheckRun } from './admit.ts'
import { attemptStep } from './attempt.ts'
import {
  beginExtensions,
  closeExtensions,
  type ExtendedWorld,
  openExtensions,
} from './extension.ts'
import { planStep } from './plan.ts'
import { journalStep, reserveStep } from './reserve.ts'
import type { Run, Step } from './run.ts'
import { forgetRun, recordRun, settleLastStep } from './settle.ts'

/** One stage of the life of a call, or of one of its steps. */
interface Stage<Subject> {
  name: string
  /**
   * Does its part; throws what stops the call. In a dry run it counts, sets aside, remembers and
   * records nothing.
   */
  run(world: ExtendedWorld, subject: Subject): void | Promise<void>
  /** Whether the call has any need of it; absent if every call has. One without is passed over. */
  when?(subject: Subject, world: ExtendedWorld): boolean
  /** The event that is published when it is done. */
  publishes?: 'call.opened' | 'step.planned' | 'call.closed'
  /** Whether providers are called from here on: a dry run ends before this stage. */
  sends?: boolean
  /** Whether it reads all of a call: others may get their turn after it. */
  reads?: boolean
  /** Whether it is done only where others have had their turn since the first stage began. */
  isAfterPause?: boolean
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

/** What has the list of stages. */
export interface StagedWorld extends ExtendedWorld {
  /** The life of a call. */
  stages: Stages
}

const begins = ({ extensions }: Run): boolean => extensions.some(({ begin }) => begin)
const closes = ({ extensions }: Run): boolean => extensions.some(({ close }) => close)

/** The life of a call, on one screen. */
export const STAGES: Stages = {
  open: [
    // Whether the call may be made at all, and now: 403, 503, 429.
    { name: 'admit', run: admitRun, reads: true },
    // What it has beside what all calls have is attached: what it needs is fetched and read, tools are
    // offered, content filters look at it, and others are asked: 400, 402, 403.
    {
      name: 'open',
      run: (world, run) => openExtensions(world, run),
      when: (run, world) => readNeeds(world, run) !== 0,
    },
    // What holds now, after filters had time: 401.
    { name: 'recheck', run: recheckRun, isAfterPause: true },
    // It is among those that run.
    { name: 'list', run: listRun, publishes: 'call.opened' },
    // What comes before its first turn: uses of tools that the client has approved: 400, 402, 403.
    { name: 'begin', run: beginExtensions, when: begins },
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
    // A job that it has begun goes on with the work: 503.
    { name: 'close', run: closeExtensions, when: closes },
    // What the last step cost.
    { name: 'settle', run: settleLastStep },
    // Charged and on record: always, and once.
    { name: 'record', run: recordRun },
    // What stood for it until then goes: its entries in the journal.
    { name: 'forget', run: forgetRun, publishes: 'call.closed' },
  ],
}

/**
 * Runs stages one after the other. Throws what the first failing one throws. A dry run publishes no
 * events. Others get their turn after a stage that took long.
 */
export function runStages<Subject extends { isDry: boolean }>(
  world: ExtendedWorld,
  stages: Stage<Subject>[],
  subject: Subject,
): void | Promise<void> {
  const pause = runToPause(world, stages, subject)
  return pause && runOn(world, stages, subject, pause)
}

/** Where stages wait: for what one of them has begun, or as others have their turn. */
interface Pause {
  pending: Promise<void>
  /** The stage that is to be done when that is over; null if it is done. */
  stage: Pick<Stage<never>, 'publishes'> | null
  /** The place of the next one. */
  next: number
}

/**
 * Runs stages as `runStages` does, from the first one or from a pause on that is over, as long as none
 * has to be awaited: most of most calls are not. Those who are async themselves await the pauses:
 * that takes no promise beside theirs.
 */
export function runToPause<Subject extends { isDry: boolean }>(
  world: ExtendedWorld,
  stages: Stage<Subject>[],
  subject: Subject,
  last?: Pause,
): Pause | undefined {
  if (last?.stage?.publishes) publishStageEvent(world, last.stage, subject)
  const from = last?.next ?? 0
  let startedAt: number | null = null
  for (let index = from; index < stages.length; index++) {
    const stage = stages[index]
    if (!stage || stage.when?.(subject, world) === false) continue
    if (stage.reads) startedAt ??= world.clock.ticks()
    if (stage.isAfterPause && from === 0) continue
    const pending = stage.run(world, subject)
    if (pending) return { pending, stage, next: index + 1 }
    if (stage.publishes) publishStageEvent(world, stage, subject)
    if (stage.reads && startedAt !== null && world.clock.ticks() - startedAt > LONGEST_TURN)
      return { pending: yieldToEventLoop(), stage: null, next: index + 1 }
  }
  return undefined
}

/** Runs the stages after a pause: one promise for all of them. */
async function runOn<Subject extends { isDry: boolean }>(
  world: ExtendedWorld,
  stages: Stage<Subject>[],
  subject: Subject,
  first: Pause,
): Promise<void> {
  let pause: Pause | undefined = first
  for (; pause; pause = runToPause(world, stages, subject, pause)) await pause.pending
}

function publishStageEvent(
  { events }: ExtendedWorld,
  { publishes }: Pick<Stage<never>, 'publishes'>,
  subject: { isDry: boolean },
): void {
  if (publishes && !subject.isDry) events.publish(publishes, subject as never)
}

/** Lists the stages that come before any provider is called. */
export const listStagesBeforeSending = <Subject>(stages: Stage<Subject>[]): Stage<Subject>[] =>
  stages.filter(({ sends }) => !sends)
