import type { CaseName } from './cases.ts'
import type { Row, StartUp } from './report.ts'

/** What the gateway wants to be, and what was measured. Null where nothing was. */
export interface Goal {
  goal: string
  unit: string
  most: number
  measured: number | null
  state: 'met' | 'missed' | 'not measured'
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
    measure: measureAdded('steady', 'p99_ms'),
  },
  {
    ...{ goal: 'CPU of a relayed chunk, by the ten-line proxy’s', unit: '×', most: 1.5 },
    measure: ({ pick }) => pick('streams', 'ours-full')?.ratio,
  },
  {
    ...{ goal: 'CPU of a translated chunk, by the ten-line proxy’s', unit: '×', most: 3 },
    measure: ({ pick }) => pick('translated-streams', 'ours-full')?.ratio,
  },
  {
    ...{ goal: 'time to the first chunk, p50, above the ten-line proxy’s', unit: 'ms', most: 1 },
    measure: measureAdded('streams', 'p50_ms'),
  },
  {
    ...{ goal: 'time to the first chunk, p99, above the ten-line proxy’s', unit: 'ms', most: 3 },
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
  return AIMS.map(({ goal, unit, most, measure }) => {
    const measured = measure({ start, pick }) ?? null
    return { goal, unit, most, measured, state: judge(measured, most) }
  })
}

const judge = (measured: number | null, most: number): Goal['state'] =>
  measured === null ? 'not measured' : measured <= most ? 'met' : 'missed'
