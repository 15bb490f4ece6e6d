import type { Contender } from './contenders.ts'
import { type LoopResult, runClosedLoop } from './load.ts'
import { readCpu, readResidentMb } from './procfs.ts'
import { shuffle } from './statistics.ts'
import { openStreams, type StreamResult } from './streams.ts'
import type { Target } from './wire.ts'

/** The extent of the measurement. */
export type Plan = {
  rounds: number
  warmUpCalls: number
  cpu: { connections: number; calls: number; seconds: number }
  ceiling: { connections: number; calls: number; seconds: number }
  streams: number[]
  streamGapMs: number
  streamSeconds: number
}

/**
 * A closed loop on one contender. CPU is the user and system time of all threads, including writes
 * after the last answer.
 */
export type CallSample = LoopResult & { cpuPerCall: number; residentMb: number }

/** Streams on one contender. CPU per chunk includes the opening and the end of the streams. */
export type StreamSample = StreamResult & { cpuPerChunk: number; residentMb: number }

/**
 * All rounds of one contender, or of the mock provider called directly. `answered` counts every
 * call, those of the warm-up included.
 */
export type Samples = {
  name: string
  idleMb: number
  answered: number
  cpu: CallSample[]
  ceiling: CallSample[]
  streams: StreamSample[]
}

/** A program to measure. Without a `pid` its CPU is not read. */
export type Subject = { name: string; target: Target; pid?: number }

// Long enough for writes after an answer.
const SETTLE_MS = 400

/** Warms up every subject, then measures them one at a time, in a new order each round. */
export async function measure(
  subjects: Subject[],
  plan: Plan,
  progress: (line: string) => void,
): Promise<Samples[]> {
  const all = subjects.map(subject => ({ subject, samples: createSamples(subject) }))
  for (const { subject, samples } of all) await warmUp(subject, plan, samples)
  for (let round = 1; round <= plan.rounds; round++) {
    progress(`round ${round} of ${plan.rounds}`)
    for (const { subject, samples } of shuffle(all)) await measureOnce(subject, plan, samples)
  }
  return all.map(({ samples }) => samples)
}

/** Converts a contender to a subject. */
export function toSubject({ name, target, pid }: Contender): Subject {
  return { name, target, pid }
}

function createSamples({ name, pid }: Subject): Samples {
  return {
    name,
    idleMb: pid ? readResidentMb(pid) : 0,
    answered: 0,
    cpu: [],
    ceiling: [],
    streams: [],
  }
}

async function warmUp(subject: Subject, plan: Plan, samples: Samples): Promise<void> {
  const calls = await sampleCalls(subject, { ...plan.cpu, calls: plan.warmUpCalls, seconds: 20 })
  const streams = await sampleStreams(subject, 20, plan)
  samples.answered += calls.calls + streams.finished
}

async function measureOnce(subject: Subject, plan: Plan, samples: Samples): Promise<void> {
  const [cpu, ceiling] = [
    await sampleCalls(subject, plan.cpu),
    await sampleCalls(subject, plan.ceiling),
  ]
  samples.cpu.push(cpu)
  samples.ceiling.push(ceiling)
  samples.answered += cpu.calls + ceiling.calls
  for (const count of plan.streams) {
    const streams = await sampleStreams(subject, count, plan)
    samples.streams.push(streams)
    samples.answered += streams.finished
  }
}

async function sampleCalls(subject: Subject, limit: Plan['cpu']): Promise<CallSample> {
  const { result, cpu, residentMb } = await measureCpu(subject, () =>
    runClosedLoop(subject.target, limit),
  )
  if (result.errors > 0)
    throw new Error(
      `${subject.name}: ${result.errors} of ${result.calls + result.errors} calls failed`,
    )
  return { ...result, cpuPerCall: cpu / result.calls, residentMb }
}

async function sampleStreams(subject: Subject, streams: number, plan: Plan): Promise<StreamSample> {
  const load = { streams, gapMs: plan.streamGapMs, seconds: plan.streamSeconds }
  const { result, cpu, residentMb } = await measureCpu(subject, () =>
    openStreams(subject.target, load),
  )
  if (result.finished < streams)
    throw new Error(
      `${subject.name}: ${streams - result.finished} of ${streams} streams did not finish`,
    )
  return { ...result, cpuPerChunk: cpu / result.chunks, residentMb }
}

/** Runs the work and measures its CPU time, including the writes after the answers. */
export async function measureCpu<T>(
  { pid }: Subject,
  work: () => Promise<T>,
): Promise<{ result: T; cpu: number; residentMb: number }> {
  const before = pid ? readCpu(pid) : 0
  const result = await work()
  const residentMb = pid ? readResidentMb(pid) : 0
  await Bun.sleep(SETTLE_MS)
  return { result, cpu: pid ? readCpu(pid) - before : 0, residentMb }
}
