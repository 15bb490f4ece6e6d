import {
  CASE_NAMES,
  type CaseName,
  CONNECTIONS,
  createStreamWarmUp,
  type Extent,
  getCase,
  isMeasured,
} from './cases.ts'
import type { Contender } from './contenders.ts'
import type { Order, Outcome } from './generator.ts'
import { createCpuReader, readResidentMb } from './procfs.ts'
import { shuffle } from './statistics.ts'

/** A program to measure. One without a `pid` has no CPU time of its own. */
export type Subject = Pick<Contender, 'name' | 'target'> & { pid: number | null }

/** One case of one program in one round. CPU is in microseconds, for each unit. */
export interface Sample extends Outcome {
  case: CaseName
  contender: string
  round: number
  cpu: number | null
  residentMb: number | null
}

/** What the rounds need. */
interface Arena {
  subjects: Subject[]
  extent: Extent
  /** The address of the mock provider. */
  upstream: string
  cases: readonly CaseName[]
  ask(order: Order): Promise<Outcome>
  progress(line: string): void
}

/** Warms up every program, then measures them one at a time, in a new order each round. */
export async function runRounds(arena: Arena): Promise<Sample[]> {
  arena.progress('warming up')
  const samples = []
  for (const subject of arena.subjects) samples.push(...(await warmUp(subject, arena)))
  for (let round = 1; round <= arena.extent.rounds; round++) {
    arena.progress(`round ${round} of ${arena.extent.rounds}`)
    for (const subject of shuffle(arena.subjects))
      samples.push(await leadIn(subject, arena), ...(await runCases(subject, round, arena)))
  }
  return samples
}

/** Makes many calls, opens many streams of each kind, then does a round of everything. */
async function warmUp(subject: Subject, arena: Arena): Promise<Sample[]> {
  const { calls, seconds } = arena.extent.warmUp
  const samples = [await makeCalls(subject, arena, { calls, seconds })]
  const streaming = { ...arena, extent: createStreamWarmUp(arena.extent) }
  for (const name of listCases(subject, arena).filter(one => getCase(one).unit === 'chunk'))
    samples.push(await takeSample(subject, name, 0, streaming))
  return [...samples, ...(await runCases(subject, 0, arena))]
}

/**
 * Makes calls at the beginning of a turn. While others had theirs, a program has rested, and some
 * end threads that rest.
 */
const leadIn = (subject: Subject, arena: Arena): Promise<Sample> =>
  makeCalls(subject, arena, {
    calls: Number.MAX_SAFE_INTEGER,
    seconds: arena.extent.leadSeconds,
  })

/** Makes calls that are counted, and not measured, and waits until nothing is left of them. */
async function makeCalls(
  { name: contender, target, pid }: Subject,
  { ask }: Arena,
  limit: { calls: number; seconds: number },
): Promise<Sample> {
  const order: Order = {
    ...{ load: 'closed', target, shape: { stream: false } },
    limit: { connections: CONNECTIONS, ...limit },
  }
  const outcome = await ask(order)
  await waitForRest(pid === null ? null : createCpuReader(pid))
  return { ...outcome, case: 'calls', contender, round: 0, cpu: null, residentMb: null }
}

async function runCases(subject: Subject, round: number, arena: Arena): Promise<Sample[]> {
  const samples = []
  for (const name of listCases(subject, arena))
    samples.push(await takeSample(subject, name, round, arena))
  return samples
}

const listCases = ({ name: contender }: Subject, { cases }: Arena): CaseName[] =>
  CASE_NAMES.filter(name => cases.includes(name) && isMeasured(name, contender))

async function takeSample(
  { name: contender, target, pid }: Subject,
  name: CaseName,
  round: number,
  { extent, upstream, ask }: Arena,
): Promise<Sample> {
  const order = getCase(name).createOrder(extent, target, upstream)
  const readCpu = pid === null ? null : createCpuReader(pid)
  const outcome = await ask(order)
  const residentMb = pid === null ? null : readResidentMb(pid)
  const used = await waitForRest(readCpu)
  // A system that does not tell has used nothing.
  const cpu = used > 0 && outcome.units > 0 ? used / outcome.units : null
  return { ...outcome, case: name, contender, round, cpu, residentMb }
}

/** In milliseconds, and in microseconds of CPU: a program that takes so little in that time rests. */
const REST = { ms: 100, cpu: 5_000 }
const LONGEST_WAIT_MS = 5_000

/**
 * Waits until a program rests, and returns what it has used: what it writes and tells after an
 * answer belongs to the call.
 */
async function waitForRest(readCpu: (() => number) | null): Promise<number> {
  const deadline = performance.now() + LONGEST_WAIT_MS
  let used = readCpu?.() ?? 0
  for (;;) {
    await Bun.sleep(REST.ms)
    const now = readCpu?.() ?? 0
    if (now - used < REST.cpu || performance.now() > deadline) return now
    used = now
  }
}
