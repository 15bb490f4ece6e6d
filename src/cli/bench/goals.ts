import type { CaseName } from './cases.ts'

/** What the gateway wants to be, and what was measured. Null where nothing was. */
export interface Goal {
  goal: string
  unit: string
  most: number
  measured: number | null
  state: 'met' | 'missed' | 'no verdict' | 'not measured'
}

/** What a goal is judged by. */
interface Findings {
  start: StartUp | null
  pick(name: CaseName, contender: string): Row | undefined
}

interface Aim {
  goal: string
  unit: string
  most: number
  /** The case of the ten-line proxy that it is judged by. */
  beside?: CaseName
  measure(findings: Findings): number | null | undefined
}

/** What a gateway adds to the ten-line proxy. */
const measureAdded = (name: CaseName, field: 'p50_ms' | 'p99_ms') => (findings: Findings) => {
  const [ours, floor] = ['ours-full', 'floor'].map(one => findings.pick(name, one)?.[field])
  return typeof ours === 'number' && typeof floor === 'number' ? ours - floor : null
}

const AIMS: Aim[] = [
  {
    ...{ goal: 'CPU of a call with everything on, by the ten-line proxy’s', unit: '×', most: 1.5 },
    beside: 'calls',
    measure: ({ pick }) => pick('calls', 'ours-full')?.ratio,
  },
  {
    goal: 'CPU of a call with everything on, by Portkey’s',
    ...{ unit: '×', most: 1 / 12 },
    measure: ({ pick }) => {
      const [ours, other] = ['ours-full', 'portkey'].map(one => pick('calls', one)?.cpu_us)
      return ours && other ? ours / other : null
    },
  },
  {
    ...{ goal: 'p99 at the steady rate, above the ten-line proxy’s', unit: 'ms', most: 2 },
    beside: 'steady',
    measure: measureAdded('steady', 'p99_ms'),
  },
  {
    ...{ goal: 'CPU of a relayed chunk, by the ten-line proxy’s', unit: '×', most: 1.5 },
    beside: 'streams',
    measure: ({ pick }) => pick('streams', 'ours-full')?.ratio,
  },
  {
    ...{ goal: 'CPU of a translated chunk, by the ten-line proxy’s', unit: '×', most: 3 },
    beside: 'streams',
    measure: ({ pick }) => pick('translated-streams', 'ours-full')?.ratio,
  },
  {
    ...{ goal: 'time to the first chunk, p50, above the ten-line proxy’s', unit: 'ms', most: 1 },
    beside: 'streams',
    measure: measureAdded('streams', 'p50_ms'),
  },
  {
    ...{ goal: 'time to the first chunk, p99, above the ten-line proxy’s', unit: 'ms', most: 3 },
    beside: 'streams',
    measure: measureAdded('streams', 'p99_ms'),
  },
  {
    goal: 'streams that the provider goes on with when the client has left',
    ...{ unit: 'streams', most: 0 },
    measure: ({ pick }) => pick('aborts', 'ours-full')?.errors,
  },
  {
    ...{ goal: '`gateway --version`', unit: 'ms', most: 10 },
    measure: ({ start }) => start?.version_ms,
  },
  {
    ...{ goal: 'the first answer after the start', unit: 'ms', most: 100 },
    measure: ({ start }) => start?.first_answer_ms,
  },
  {
    ...{ goal: 'resident memory, idle', unit: 'MB', most: 60 },
    measure: ({ start }) => start?.idle_mb,
  },
]

/** Compares what was measured with what is wanted. */
export function judgeGoals(rows: Row[], start: StartUp | null): Goal[] {
  const pick = (name: CaseName, contender: string) =>
    rows.find(row => row.case === name && row.contender === contender)
  return AIMS.map(({ goal, unit, most, beside, measure }) => {
    const measured = measure({ start, pick }) ?? null
    const isJudged = beside === undefined || isSteady(pick(beside, 'floor'))
    return { goal, unit, most, measured, state: judge(measured, most, isJudged) }
  })
}

/** So many rounds the ten-line proxy needs, and so close its quartiles have to be. */
const STEADY = { rounds: 4, spread: 0.15 }

/** Tells whether the machine was quiet enough, by a program that does the same in each round. */
export const isSteady = (floor: Row | undefined): boolean =>
  floor !== undefined &&
  floor.rounds >= STEADY.rounds &&
  floor.cpu_spread !== null &&
  floor.cpu_spread <= STEADY.spread

function judge(measured: number | null, most: number, isJudged: boolean): Goal['state'] {
  if (measured === null) return 'not measured'
  if (!isJudged) return 'no verdict'
  return measured <= most ? 'met' : 'missed'
}

/**
 * One case of one program: medians of the rounds. Times of streams are those to the first chunk.
 * Null is what the case or the program does not have.
 */
export interface Row {
  case: CaseName
  contender: string
  unit: string
  calls: number
  errors: number
  cpu_us: number | null
  calls_per_second: number | null
  p50_ms: number | null
  p99_ms: number | null
  relay_p99_ms: number | null
  resident_mb: number | null
  /** The CPU time by that of the ten-line proxy in the same round: median and quartiles. */
  ratio: number | null
  ratio_q1: number | null
  ratio_q3: number | null
  /** How many rounds have a CPU time, and how far its quartiles are apart, as a share of it. */
  rounds: number
  cpu_spread: number | null
}

/** How a gateway starts: medians, in milliseconds and MB. */
export interface StartUp {
  version_ms: number
  first_answer_ms: number
  idle_mb: number | null
}
