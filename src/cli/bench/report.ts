import { CASE_NAMES, type CaseName, type Extent, getCase } from './cases.ts'
import type { Row, StartUp } from './goals.ts'
import { type Goal, isSteady } from './goals.ts'
import type { Ledger } from './ledger.ts'
import type { Machine, Versions } from './machine.ts'
import type { Sample } from './rounds.ts'
import { computeSpread } from './statistics.ts'

/** A program that was not measured, and why. */
export interface Skipped {
  contender: string
  why: string
}

/** Everything that one run found. `--json` prints it unchanged. */
export interface Report {
  data: Row[]
  start: StartUp | null
  goals: Goal[]
  ledger: Ledger[]
  skipped: Skipped[]
  extent: Extent
  machine: Machine
  versions: Versions
}

/** Makes the report of the rounds. The warm-up is round 0, and does not count. */
export function createReport(samples: Sample[], found: Omit<Report, 'data' | 'goals'>): Report {
  const measured = samples.filter(({ round }) => round > 0)
  const names = [...new Set(samples.map(({ contender }) => contender))]
  const data = CASE_NAMES.flatMap(name =>
    names.flatMap(contender => createRows(name, contender, measured)),
  )
  return { data, goals: judgeGoals(data, found.start), ...found }
}

function createRows(name: CaseName, contender: string, samples: Sample[]): Row[] {
  const own = samples.filter(one => one.case === name && one.contender === contender)
  if (own.length === 0) return []
  const median = (pick: (sample: Sample) => number | null, digits: number) =>
    computeMedian(own.map(pick), digits)
  return [
    {
      case: name,
      contender,
      unit: getCase(name).unit,
      calls: own.reduce((sum, { calls }) => sum + calls, 0),
      errors: own.reduce((sum, { errors }) => sum + errors, 0),
      cpu_us: median(({ cpu }) => cpu, 1),
      calls_per_second: median(({ callsPerSecond }) => callsPerSecond, 0),
      p50_ms: median(({ p50Ms }) => p50Ms, 2),
      p99_ms: median(({ p99Ms }) => p99Ms, 2),
      relay_p99_ms: median(({ relayP99Ms }) => relayP99Ms, 2),
      resident_mb: median(({ residentMb }) => residentMb, 0),
      ...compareWithFloor(own, samples),
      ...describeSteadiness(own),
    },
  ]
}

/** Tells how much a program's own CPU time differs from round to round. */
function describeSteadiness(own: Sample[]): Pick<Row, 'rounds' | 'cpu_spread'> {
  const costs = own.flatMap(({ cpu }) => (cpu === null ? [] : [cpu]))
  const { median, q1, q3 } = computeSpread(costs)
  return {
    rounds: costs.length,
    cpu_spread: costs.length > 0 ? round((q3 - q1) / median, 3) : null,
  }
}

/** Compares each round with the ten-line proxy in the same one, so that what slows both cancels. */
function compareWithFloor(
  own: Sample[],
  samples: Sample[],
): Pick<Row, 'ratio' | 'ratio_q1' | 'ratio_q3'> {
  const ratios = own.flatMap(one => {
    const beside = getCase(one.case).beside ?? one.case
    const floor = samples.find(
      other => other.contender === 'floor' && other.case === beside && other.round === one.round,
    )
    return one.cpu !== null && floor?.cpu ? [one.cpu / floor.cpu] : []
  })
  if (ratios.length === 0) return { ratio: null, ratio_q1: null, ratio_q3: null }
  const { median, q1, q3 } = computeSpread(ratios)
  return { ratio: round(median, 2), ratio_q1: round(q1, 2), ratio_q3: round(q3, 2) }
}

const round = (value: number, digits: number): number => Number(value.toFixed(digits))

function computeMedian(values: (number | null)[], digits: number): number | null {
  const known = values.filter(value => value !== null && Number.isFinite(value)) as number[]
  return known.length > 0 ? round(computeSpread(known).median, digits) : null
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
function judgeGoals(rows: Row[], start: StartUp | null): Goal[] {
  const pick = (name: CaseName, contender: string) =>
    rows.find(row => row.case === name && row.contender === contender)
  return AIMS.map(({ goal, unit, most, beside, measure }) => {
    const measured = measure({ start, pick }) ?? null
    const isJudged = beside === undefined || isSteady(pick(beside, 'floor'))
    return { goal, unit, most, measured, state: judge(measured, most, isJudged) }
  })
}

function judge(measured: number | null, most: number, isJudged: boolean): Goal['state'] {
  if (measured === null) return 'not measured'
  if (!isJudged) return 'no verdict'
  return measured <= most ? 'met' : 'missed'
}
